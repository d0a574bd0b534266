//! The messages of the protocol, compared with those of others. No test here starts a server.

#![cfg(test)]

use bytes::{Bytes, BytesMut};
use zk_wire::proto::take_frame;

mod fault_proxy;
mod golden_text;
mod java_client;
mod java_requests;

/// Returns the message in a stream that consists of one frame.
fn payload(stream: &[u8]) -> Bytes {
    let mut stream = BytesMut::from(stream);
    let frame = take_frame(&mut stream, 1 << 20).expect("it is a frame");
    assert!(stream.is_empty(), "it is one frame");
    frame.expect("it is complete")
}
