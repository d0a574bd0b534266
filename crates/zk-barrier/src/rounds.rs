//! The protocol of a double barrier whose rounds are nodes.

pub(crate) mod enter;
pub(crate) mod leave;
pub(crate) mod nodes;
