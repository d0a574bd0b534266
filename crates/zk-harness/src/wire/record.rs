//! The bodies of the requests the canary makes, and of their replies.

use std::time::Duration;

use super::frame::OpCode;
use super::frame::RequestHeader;
use super::jute::DecodeError;
use super::jute::Decoder;
use super::jute::Encoder;

/// Asks for a fresh session.
pub(super) fn connect(timeout: Duration) -> Vec<u8> {
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    Encoder::default()
        .int(PROTOCOL_VERSION)
        .long(0) // the newest zxid seen
        .int(timeout)
        .long(0) // the session's id: a new one
        .buffer(&[0; 16]) // its password
        .bool(false) // no read-only server will do
        .finish()
}

/// What the server granted; an id of 0 means that it refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) timeout: i32,
    pub(super) session: i64,
}

impl Connected {
    pub(super) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        from.int("the protocol version")?;
        let timeout = from.int("the session timeout")?;
        let session = from.long("the session id")?;
        from.buffer("the session password")?;
        // Servers since 3.4 add whether they are read-only; one that is would have refused.
        Ok(Self { timeout, session })
    }
}

/// Creates an ephemeral node that anyone may do anything with.
pub(super) fn create_ephemeral(xid: i32, path: &str, data: &[u8]) -> Vec<u8> {
    let mut to = Encoder::default();
    RequestHeader {
        xid,
        op: OpCode::CREATE,
    }
    .encode(&mut to);
    to.buffer(path.as_bytes()).buffer(data);
    to.int(1)
        .int(ALL_PERMISSIONS)
        .buffer(b"world")
        .buffer(b"anyone");
    to.int(EPHEMERAL).finish()
}

/// Reads a node without leaving a watch.
pub(super) fn get_data(xid: i32, path: &str) -> Vec<u8> {
    let mut to = Encoder::default();
    RequestHeader {
        xid,
        op: OpCode::GET_DATA,
    }
    .encode(&mut to);
    to.buffer(path.as_bytes()).bool(false).finish()
}

/// Takes the data from the body of the reply; the stat behind it is of no interest here.
pub(super) fn decode_data<'a>(from: &mut Decoder<'a>) -> Result<&'a [u8], DecodeError> {
    from.buffer("the node's data")
}

/// Ends the session; the server removes its ephemeral nodes before it replies.
pub(super) fn close_session(xid: i32) -> Vec<u8> {
    let mut to = Encoder::default();
    RequestHeader {
        xid,
        op: OpCode::CLOSE_SESSION,
    }
    .encode(&mut to);
    to.finish()
}

const PROTOCOL_VERSION: i32 = 0;
const EPHEMERAL: i32 = 1;
/// Create, read, write, delete, admin.
const ALL_PERMISSIONS: i32 = 0b1_1111;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_asks_for_a_new_session() {
        let expected = [
            [0, 0, 0, 0].as_slice(),
            &[0; 8],
            &[0, 0, 0x0f, 0xa0],
            &[0; 8],
            &[0, 0, 0, 16],
            &[0; 16],
            &[0],
        ];
        assert_eq!(connect(Duration::from_secs(4)), expected.concat());
    }

    #[test]
    fn create_is_byte_for_byte_what_the_server_expects() {
        let expected = [
            [0, 0, 0, 1].as_slice(),
            &[0, 0, 0, 1],
            &[0, 0, 0, 2, b'/', b'x'],
            &[0, 0, 0, 3, b'a', b'b', b'c'],
            &[0, 0, 0, 1],
            &[0, 0, 0, 31],
            b"\0\0\0\x05world",
            b"\0\0\0\x06anyone",
            &[0, 0, 0, 1],
        ];
        assert_eq!(create_ephemeral(1, "/x", b"abc"), expected.concat());
    }

    #[test]
    fn get_and_close_are_byte_for_byte_what_the_server_expects() {
        assert_eq!(get_data(2, "/x"), b"\0\0\0\x02\0\0\0\x04\0\0\0\x02/x\0");
        assert_eq!(close_session(3), b"\0\0\0\x03\xff\xff\xff\xf5");
    }

    #[test]
    fn the_granted_session_is_read_with_and_without_the_read_only_flag() {
        let granted = Connected {
            timeout: 4000,
            session: 0x0300_05e3_2370_0000,
        };
        let mut payload = [
            [0, 0, 0, 0].as_slice(),
            &[0, 0, 0x0f, 0xa0],
            &[0x03, 0x00, 0x05, 0xe3, 0x23, 0x70, 0x00, 0x00],
            &[0, 0, 0, 16],
            &[7; 16],
        ]
        .concat();
        assert_eq!(Connected::decode(&payload), Ok(granted));
        payload.push(0);
        assert_eq!(Connected::decode(&payload), Ok(granted));
        for len in 0..36 {
            assert!(Connected::decode(&payload[..len]).is_err(), "{len} bytes");
        }
    }
}
