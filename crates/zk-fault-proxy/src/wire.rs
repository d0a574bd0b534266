//! Encodes and decodes the client protocol: for the proxy, the readiness probe, the end of a session, and servers.
//!
//! A tool must not depend on the client under test, so this crate has its own implementation.
//!
//! [`jute`] encodes values, [`frame`] delimits messages, and [`handshake`], [`request`] and [`reply`] decode them as far
//! as the proxy needs. [`request_body`] and [`reply_body`] have everything that a server needs; [`codec`](crate::codec)
//! makes them public. All these are pure. [`client`] sends requests of its own.

pub(crate) mod client;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod frame;
pub(crate) mod handshake;
pub(crate) mod jute;
mod op;
pub(crate) mod record;
pub(crate) mod reply;
pub(crate) mod reply_body;
mod request;
pub(crate) mod request_body;
pub(crate) mod secret;

pub use op::Op;
pub use request::Request;
