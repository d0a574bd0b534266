//! Subtrees outside an ensemble: their nodes, the formats that files have, and how two subtrees are compared and made
//! equal.

pub(crate) mod apply;
pub(crate) mod archive;
pub(crate) mod background_writer;
pub(crate) mod compare;
pub(crate) mod counts;
pub(crate) mod delete_extra;
pub(crate) mod deletion_plan;
pub(crate) mod difference;
pub(crate) mod directory;
pub(crate) mod file_name;
pub(crate) mod format_error;
pub(crate) mod json_lines;
pub(crate) mod node;
pub(crate) mod node_line;
pub(crate) mod reconcile;
pub(crate) mod tar_file;
pub(crate) mod validator;
pub(crate) mod walk;
pub(crate) mod writer;
