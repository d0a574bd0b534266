//! Encodes and decodes frames and the headers of requests and replies.
//!
//! Pure: no I/O and no clock.

use super::jute::DecodeError;
use super::jute::Decoder;
use super::jute::Encoder;

/// The opcode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpCode(pub(crate) i32);

impl OpCode {
    pub(crate) const CREATE: Self = Self(1);
    pub(crate) const GET_DATA: Self = Self(4);
    pub(crate) const CLOSE_SESSION: Self = Self(-11);
}

/// The header of every request except the one that opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    /// The client's number for the request, from 1; the reply repeats it.
    pub(crate) xid: i32,
    pub(crate) op: OpCode,
}

impl RequestHeader {
    pub(crate) fn encode(self, to: &mut Encoder) {
        to.int(self.xid).int(self.op.0);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            xid: from.int("the xid of a request")?,
            op: OpCode(from.int("the kind of a request")?),
        })
    }
}

/// The header of every reply except the one that opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyHeader {
    /// The request's number; -1 for a watch notification, -2 for the reply to a ping.
    pub(crate) xid: i32,
    /// The last transaction that the server has applied.
    pub(crate) zxid: i64,
    pub(crate) code: ErrorCode,
}

impl ReplyHeader {
    /// The length of a header in bytes.
    pub(crate) const LEN: usize = 16;

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            xid: from.int("the xid of a reply")?,
            zxid: from.long("the zxid of a reply")?,
            code: ErrorCode(from.int("the error code of a reply")?),
        })
    }
}

/// The error code of a reply; zero for success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorCode(pub(crate) i32);

impl ErrorCode {
    pub(crate) const OK: Self = Self(0);
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.0 {
            0 => "ok",
            -4 => "connection loss",
            -5 => "marshalling error",
            -6 => "unimplemented",
            -7 => "operation timeout",
            -8 => "bad arguments",
            -101 => "no node",
            -102 => "no auth",
            -110 => "node exists",
            -112 => "session expired",
            -114 => "invalid acl",
            -118 => "session moved",
            -119 => "not read-only",
            -125 => "quota exceeded",
            -127 => "throttled",
            _ => "unknown code",
        };
        write!(f, "{name} ({})", self.0)
    }
}

/// An impossible length prefix of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer announced a frame of {0} bytes, outside 0 to {MAX_FRAME}: it is not a ZooKeeper server"
)]
pub(crate) struct FrameError(i32);

/// Puts a payload into a frame.
pub(crate) fn wrap(payload: &[u8]) -> Vec<u8> {
    Encoder::default().buffer(payload).finish()
}

/// Removes the first frame from `buffer` and returns its payload; `None` if it is not complete yet.
pub(crate) fn split(buffer: &mut Vec<u8>) -> Result<Option<Vec<u8>>, FrameError> {
    let Some((prefix, rest)) = buffer.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let announced = i32::from_be_bytes(*prefix);
    let len = usize::try_from(announced)
        .ok()
        .filter(|&len| len <= MAX_FRAME)
        .ok_or(FrameError(announced))?;
    let Some(payload) = rest.get(..len).map(<[u8]>::to_vec) else {
        return Ok(None);
    };
    buffer.drain(..PREFIX + len);
    Ok(Some(payload))
}

const PREFIX: usize = 4;

/// Servers limit requests to 1 MiB by default, but not replies; a list of children may have some MiB.
const MAX_FRAME: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_have_the_layout_of_the_server() {
        let mut encoder = Encoder::default();
        RequestHeader {
            xid: 3,
            op: OpCode::CLOSE_SESSION,
        }
        .encode(&mut encoder);
        assert_eq!(encoder.finish(), [0, 0, 0, 3, 0xff, 0xff, 0xff, 0xf5]);
        // Captured from a 3.9.3 server: the reply to a create, header only.
        let bytes = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
        let header = ReplyHeader::decode(&mut Decoder::new(&bytes)).unwrap();
        assert_eq!(
            header,
            ReplyHeader {
                xid: 1,
                zxid: 0x1_0000_0002,
                code: ErrorCode::OK
            }
        );
    }

    #[test]
    fn a_truncated_header_is_an_error_at_every_length() {
        let bytes = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
        for len in 0..bytes.len() {
            assert!(
                ReplyHeader::decode(&mut Decoder::new(&bytes[..len])).is_err(),
                "{len} bytes"
            );
        }
    }

    #[test]
    fn an_impossible_length_is_refused_at_once() {
        assert_eq!(
            split(&mut b"HTTP/1.1 400".to_vec()),
            Err(FrameError(0x4854_5450))
        );
        assert_eq!(split(&mut vec![0xff; 4]), Err(FrameError(-1)));
        assert_eq!(split(&mut vec![0, 0, 0, 0, 9]), Ok(Some(vec![])));
    }

    #[test]
    fn codes_have_their_names() {
        assert_eq!(ErrorCode(-110).to_string(), "node exists (-110)");
        assert_eq!(ErrorCode(-9999).to_string(), "unknown code (-9999)");
    }

    proptest! {
        /// The frames are the same for chunks of any size.
        #[test]
        fn frames_survive_any_split(payloads in prop::collection::vec(any::<Vec<u8>>(), 0..6), step in 1..50_usize) {
            let stream: Vec<u8> = payloads.iter().flat_map(|payload| wrap(payload)).collect();
            let mut buffer = Vec::new();
            let mut seen = Vec::new();
            for chunk in stream.chunks(step) {
                buffer.extend(chunk);
                while let Some(payload) = split(&mut buffer).expect("possible lengths") {
                    seen.push(payload);
                }
            }
            prop_assert_eq!(seen, payloads);
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let mut buffer = bytes.clone();
            drop(split(&mut buffer));
            prop_assert!(ReplyHeader::decode(&mut Decoder::new(&bytes)).is_ok() == (bytes.len() >= 16));
        }
    }
}
