//! The few frames of the client protocol that a readiness check needs.
//!
//! The harness must not depend on the client under test, so it speaks for itself: [`canary()`] opens a session, writes
//! an ephemeral node, reads it back and closes the session.
//! That answers the question a four-letter word cannot: does a quorum accept *writes* through this server?
//!
//! [`jute`] is the encoding of values, [`frame`] the framing and the headers, [`record`] the bodies of the requests
//! made here; all three are pure.

mod canary;
mod frame;
mod jute;
mod record;

pub(crate) use canary::canary;
