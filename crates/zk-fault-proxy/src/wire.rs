//! Encodes and decodes the part of the client protocol that the readiness probe and the fault proxy need.
//!
//! The harness must not depend on the client under test, so it has its own implementation.
//! [`probe_writes`] opens a session, creates an ephemeral node, reads it back and closes the session.
//! This shows what no four-letter word does: that a quorum accepts *writes* through a server.
//!
//! The fault proxy decodes the frames of clients as [`Request`]s.
//!
//! [`jute`] encodes values, [`frame`] frames and headers, [`record`] the handshake and the requests of the probe, and
//! [`request`] decodes the paths in requests; all are pure.

pub(crate) mod frame;
pub(crate) mod jute;
mod op;
mod readiness_probe;
pub(crate) mod record;
mod request;

pub use op::Op;
pub use readiness_probe::WireError;
pub use readiness_probe::end_session;
pub use readiness_probe::probe_writes;
pub use request::Request;
pub(crate) use request::notified_path;
