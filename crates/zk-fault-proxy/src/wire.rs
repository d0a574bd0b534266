//! Encodes and decodes the part of the client protocol that the proxy, the readiness probe and the end of a session need.
//!
//! A tool must not depend on the client under test, so this crate has its own implementation.
//!
//! [`jute`] encodes values, [`frame`] delimits messages, and [`handshake`], [`request`] and [`reply`] decode them; all
//! are pure. [`client`] sends requests of its own.

pub(crate) mod client;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod jute;
mod op;
pub(crate) mod reply;
mod request;

pub use op::Op;
pub use request::Request;
