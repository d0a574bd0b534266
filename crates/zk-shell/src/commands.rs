//! The commands, one module each: its arguments, and what it does.

pub(crate) mod config;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod export;
pub(crate) mod get;
mod hold;
pub(crate) mod ids;
pub(crate) mod import;
pub(crate) mod leader;
pub(crate) mod locks;
pub(crate) mod ls;
pub(crate) mod mirror;
pub(crate) mod queue;
pub(crate) mod services;
pub(crate) mod set;
pub(crate) mod stat;
mod value;
pub(crate) mod what;
