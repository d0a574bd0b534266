//! The guides for those who come from other clients. Rustdoc checks the names in them, and compiles their examples.

#[doc = include_str!(concat!(env!("OUT_DIR"), "/from-curator.md"))]
pub mod from_curator {}

#[doc = include_str!(concat!(env!("OUT_DIR"), "/from-kazoo.md"))]
pub mod from_kazoo {}
