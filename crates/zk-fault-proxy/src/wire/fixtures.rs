//! Frames for tests.

use std::time::Duration;

use super::frame::{self, Piece};
use super::jute::Encoder;
use super::{Op, handshake};

pub(crate) fn frame(payload: &[u8]) -> Piece {
    Piece::Frame(frame::wrap(payload))
}

/// The first frame of a client; session 0 requests a new one.
pub(crate) fn connect(session: i64) -> Piece {
    let timeout = Duration::from_secs(4);
    frame(&handshake::resume(timeout, session, &[0; 16]))
}

pub(crate) fn granted(session: i64, timeout: i32) -> Piece {
    let mut to = Encoder::default();
    frame(
        &to.int(0)
            .int(timeout)
            .long(session)
            .buffer(&[7; 16])
            .finish(),
    )
}

pub(crate) fn request(xid: i32, op: Op) -> Piece {
    let mut to = Encoder::default();
    // The last field is a version, or begins with the watch of a read.
    frame(&to.int(xid).int(op.code()).buffer(b"/a").int(0).finish())
}

pub(crate) fn reply(xid: i32, code: i32) -> Piece {
    frame(&Encoder::default().int(xid).long(99).int(code).finish())
}

/// A watch notification for `/a`.
pub(crate) fn notification() -> Piece {
    let mut to = Encoder::default();
    to.int(-1).long(-1).int(0).int(3).int(3);
    frame(&to.buffer(b"/a").finish())
}
