//! The handshake, which opens or resumes a session.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::DecodeError;
use super::frame::put_frame;
use super::jute::{Decoder, Encoder};

/// The request to open or resume a session.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct ConnectRequest {
    /// The newest transaction that the session has seen: a server that has not refuses the session.
    pub last_zxid_seen: i64,
    /// The session timeout to ask for, in whole milliseconds.
    pub timeout: Duration,
    /// The session to resume; 0 for a new one.
    pub session_id: i64,
    /// The password of the session to resume, 16 bytes.
    pub password: Bytes,
    /// Whether a server that is cut off from the quorum is acceptable.
    pub read_only: bool,
}

/// The server's reply to a [`ConnectRequest`].
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct ConnectResponse {
    /// The granted session timeout; zero if the session is over.
    pub timeout: Duration,
    /// The session id.
    pub session_id: i64,
    /// The password with which another connection resumes the session.
    pub password: Bytes,
    /// Whether the server is cut off from the quorum.
    pub read_only: bool,
}

impl ConnectRequest {
    /// Appends the frame of the request.
    pub fn encode(&self, to: &mut BytesMut) {
        put_frame(to, |to| {
            let timeout = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
            let mut to = Encoder::new(to);
            to.int(PROTOCOL_VERSION).long(self.last_zxid_seen);
            to.int(timeout).long(self.session_id);
            to.buffer(&self.password).bool(self.read_only);
        });
    }
}

impl ConnectResponse {
    /// Decodes the payload of the first frame that a server sends.
    ///
    /// # Errors
    ///
    /// If the payload is not such a reply.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        let version = from.int("the protocol version")?;
        // ClickHouse Keeper sends another one, and no valid session, while its server has no leader.
        if version != PROTOCOL_VERSION {
            return Err(DecodeError::Unknown {
                what: "the protocol version",
                value: version,
            });
        }
        let timeout = from.int("the session timeout")?;
        Ok(Self {
            timeout: Duration::from_millis(u64::try_from(timeout).unwrap_or(0)),
            session_id: from.long("the session id")?,
            password: from.buffer("the session's password")?,
            // Servers before 3.4 do not send it.
            read_only: !from.is_at_end() && from.bool("whether the server is read-only")?,
        })
    }

    /// Returns whether the session that was to be resumed is over.
    pub fn is_expired(&self) -> bool {
        self.timeout.is_zero()
    }
}

// The password is a secret: with it, any client can use and close the session.
impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("timeout", &self.timeout)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectResponse")
            .field("timeout", &self.timeout)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

const PROTOCOL_VERSION: i32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_layout_of_the_protocol() {
        let mut to = BytesMut::new();
        ConnectRequest {
            last_zxid_seen: 0x0102_0304_0506_0708,
            timeout: Duration::from_secs(4),
            session_id: 0x0300_05e3_2370_0000,
            password: Bytes::from_static(&[7; 16]),
            read_only: true,
        }
        .encode(&mut to);
        let expected: [&[u8]; 8] = [
            &[0, 0, 0, 45],
            &[0, 0, 0, 0],
            &[1, 2, 3, 4, 5, 6, 7, 8],
            &[0, 0, 0x0f, 0xa0],
            &[0x03, 0x00, 0x05, 0xe3, 0x23, 0x70, 0x00, 0x00],
            &[0, 0, 0, 16],
            &[7; 16],
            &[1],
        ];
        assert_eq!(to, expected.concat());
    }

    #[test]
    fn response_is_decoded_with_and_without_the_read_only_flag() {
        let parts: [&[u8]; 5] = [
            &[0, 0, 0, 0],
            &[0, 0, 0x0f, 0xa0],
            &[0x03, 0x00, 0x05, 0xe3, 0x23, 0x70, 0x00, 0x00],
            &[0, 0, 0, 16],
            &[7; 16],
        ];
        let mut payload = parts.concat();
        let decode = |payload: &[u8]| ConnectResponse::decode(Bytes::copy_from_slice(payload));
        let mut granted = ConnectResponse {
            timeout: Duration::from_secs(4),
            session_id: 0x0300_05e3_2370_0000,
            password: Bytes::from_static(&[7; 16]),
            read_only: false,
        };
        assert_eq!(decode(&payload).as_ref(), Ok(&granted));
        for len in 0..payload.len() {
            assert!(decode(&payload[..len]).is_err(), "{len} bytes");
        }
        payload.push(1);
        granted.read_only = true;
        assert_eq!(decode(&payload).as_ref(), Ok(&granted));
        payload[3] = 42;
        let other = DecodeError::Unknown {
            what: "the protocol version",
            value: 42,
        };
        assert_eq!(decode(&payload), Err(other), "it grants nothing");
        payload[3] = 0;
        // A timeout of zero or less says that the session is over.
        for timeout in [0, -1_i32] {
            payload[4..8].copy_from_slice(&timeout.to_be_bytes());
            assert!(decode(&payload).unwrap().is_expired(), "{timeout}");
        }
    }

    #[test]
    fn debug_output_contains_no_password() {
        let response = ConnectResponse {
            timeout: Duration::ZERO,
            session_id: 1,
            password: Bytes::from_static(b"secret"),
            read_only: false,
        };
        assert!(!format!("{response:?}").contains("secret"));
    }
}
