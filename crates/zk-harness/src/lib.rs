//! Real ZooKeeper ensembles for tests and development.

pub mod admin;
pub mod dist;
mod wire;
