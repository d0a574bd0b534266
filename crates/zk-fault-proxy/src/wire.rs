//! The frames of the client protocol, as far as a readiness check and the fault proxy need them.
//!
//! The harness must not depend on the client under test, so it speaks for itself: [`probe_writes`] opens a session, writes
//! an ephemeral node, reads it back and closes the session.
//! That answers the question a four-letter word cannot: does a quorum accept *writes* through this server?
//!
//! The fault proxy reads along in the same frames: [`Request`] is what it understands of one.
//!
//! [`jute`] is the encoding of values, [`frame`] the framing and the headers, [`record`] the bodies of the requests
//! made here and of the handshake, [`request`] the paths in anybody's requests; all are pure.

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
