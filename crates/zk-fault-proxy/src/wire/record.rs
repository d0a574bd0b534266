//! Encodes the handshake and the requests of the readiness probe, and decodes their replies.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::frame::OpCode;
use super::frame::RequestHeader;
use super::jute::DecodeError;
use super::jute::Decoder;
use super::jute::Encoder;

/// Encodes the request for a new session.
pub(crate) fn connect(timeout: Duration) -> Vec<u8> {
    resume(timeout, 0, &[0; 16])
}

/// Encodes the request to resume a session.
pub(crate) fn resume(timeout: Duration, session: i64, password: &[u8; 16]) -> Vec<u8> {
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    Encoder::default()
        .int(PROTOCOL_VERSION)
        .long(0) // the newest zxid seen
        .int(timeout)
        .long(session)
        .buffer(password)
        .bool(false) // read-only servers are not acceptable
        .finish()
}

/// The used part of the request that opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connect {
    /// The session to resume; 0 for a new one.
    pub(crate) session: i64,
}

impl Connect {
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        from.int("the protocol version")?;
        from.long("the newest zxid seen")?;
        from.int("the session timeout")?;
        let session = from.long("the session id")?;
        from.buffer("the session password")?;
        // Clients since 3.4 add whether a read-only server is acceptable.
        Ok(Self { session })
    }
}

/// The server's reply to a [`Connect`]; a session id of 0 means that it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) timeout: i32,
    pub(crate) session: i64,
    pub(crate) password: Vec<u8>,
}

impl Connected {
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        from.int("the protocol version")?;
        let timeout = from.int("the session timeout")?;
        let session = from.long("the session id")?;
        let password = from.buffer("the session password")?.to_vec();
        // Servers since 3.4 add whether they are read-only; a read-only one would have refused.
        Ok(Self {
            timeout,
            session,
            password,
        })
    }
}

/// Encodes the create of an ephemeral node with all permissions for everyone.
pub(crate) fn create_ephemeral(xid: i32, path: &str, data: &[u8]) -> Vec<u8> {
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

/// Encodes the read of a node's data, without a watch.
pub(crate) fn get_data(xid: i32, path: &str) -> Vec<u8> {
    let mut to = Encoder::default();
    RequestHeader {
        xid,
        op: OpCode::GET_DATA,
    }
    .encode(&mut to);
    to.buffer(path.as_bytes()).bool(false).finish()
}

/// Decodes the data of a `getData` reply; the stat after it is not used.
pub(crate) fn decode_data<'a>(from: &mut Decoder<'a>) -> Result<&'a [u8], DecodeError> {
    from.buffer("the node's data")
}

/// Encodes the end of the session; the server removes the ephemeral nodes before it replies.
pub(crate) fn close_session(xid: i32) -> Vec<u8> {
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
    fn connect_is_decoded_with_and_without_the_read_only_flag() {
        let mut payload = connect(Duration::from_secs(4));
        payload[16..24].copy_from_slice(&0x0300_05e3_2370_0000_i64.to_be_bytes());
        let expected = Connect {
            session: 0x0300_05e3_2370_0000,
        };
        assert_eq!(Connect::decode(&payload), Ok(expected));
        payload.pop();
        assert_eq!(Connect::decode(&payload), Ok(expected));
        for len in 0..payload.len() {
            assert!(Connect::decode(&payload[..len]).is_err(), "{len} bytes");
        }
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
    fn connected_is_decoded_with_and_without_the_read_only_flag() {
        let granted = Connected {
            timeout: 4000,
            session: 0x0300_05e3_2370_0000,
            password: vec![7; 16],
        };
        let mut payload = [
            [0, 0, 0, 0].as_slice(),
            &[0, 0, 0x0f, 0xa0],
            &[0x03, 0x00, 0x05, 0xe3, 0x23, 0x70, 0x00, 0x00],
            &[0, 0, 0, 16],
            &[7; 16],
        ]
        .concat();
        assert_eq!(Connected::decode(&payload), Ok(granted.clone()));
        payload.push(0);
        assert_eq!(Connected::decode(&payload), Ok(granted));
        for len in 0..36 {
            assert!(Connected::decode(&payload[..len]).is_err(), "{len} bytes");
        }
    }
}
