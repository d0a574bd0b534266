//! Encodes and decodes the handshake, which opens or resumes a session.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::frame;
use super::jute::{DecodeError, Decoder, Encoder};
use super::secret::Secret;

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

/// The first frame of a client, which opens or resumes a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Connect {
    /// Always 0.
    pub protocol_version: i32,
    /// The newest transaction that the client has seen.
    pub last_zxid: i64,
    /// The requested session timeout in milliseconds.
    pub timeout: i32,
    /// The session to resume; 0 for a new one.
    pub session: i64,
    /// The password of the session; 16 bytes.
    pub password: Secret,
    /// Whether a server without a quorum may grant a read-only session; `None` from clients before 3.4.
    pub read_only: Option<bool>,
}

impl Connect {
    /// Decodes the payload of a frame.
    ///
    /// # Errors
    ///
    /// If the payload is too short.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        Ok(Self {
            protocol_version: from.int("the protocol version")?,
            last_zxid: from.long("the newest zxid seen")?,
            timeout: from.int("the session timeout")?,
            session: from.long("the session id")?,
            password: Secret(from.buffer("the session password")?.to_vec()),
            read_only: from.bool("the read-only flag").ok(),
        })
    }
}

/// The server's reply to a [`Connect`]; a session id of 0 means that it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Connected {
    /// Always 0.
    pub protocol_version: i32,
    /// The granted session timeout in milliseconds.
    pub timeout: i32,
    /// The session.
    pub session: i64,
    /// The password of the session; 16 bytes.
    pub password: Secret,
    /// Whether the session is read-only; `None` for clients that sent no such flag.
    pub read_only: Option<bool>,
}

impl Connected {
    /// Decodes the payload of a frame.
    ///
    /// # Errors
    ///
    /// If the payload is too short.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        Ok(Self {
            protocol_version: from.int("the protocol version")?,
            timeout: from.int("the session timeout")?,
            session: from.long("the session id")?,
            password: Secret(from.buffer("the session password")?.to_vec()),
            read_only: from.bool("the read-only flag").ok(),
        })
    }

    /// Encodes it as a frame.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.int(self.protocol_version).int(self.timeout);
        to.long(self.session).buffer(&self.password.0);
        if let Some(read_only) = self.read_only {
            to.bool(read_only);
        }
        frame::wrap(&to.finish())
    }
}

const PROTOCOL_VERSION: i32 = 0;

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
        payload[4..12].copy_from_slice(&0x0007_i64.to_be_bytes());
        payload[16..24].copy_from_slice(&0x0300_05e3_2370_0000_i64.to_be_bytes());
        let mut expected = Connect {
            protocol_version: 0,
            last_zxid: 7,
            timeout: 4000,
            session: 0x0300_05e3_2370_0000,
            password: Secret(vec![0; 16]),
            read_only: Some(false),
        };
        assert_eq!(Connect::decode(&payload), Ok(expected.clone()));
        payload.pop();
        expected.read_only = None;
        assert_eq!(Connect::decode(&payload), Ok(expected));
        for len in 0..payload.len() {
            assert!(Connect::decode(&payload[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn connected_is_decoded_and_encoded_with_and_without_the_read_only_flag() {
        let mut granted = Connected {
            protocol_version: 0,
            timeout: 4000,
            session: 0x0300_05e3_2370_0000,
            password: Secret(vec![7; 16]),
            read_only: None,
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
        assert_eq!(granted.encode(), frame::wrap(&payload));
        payload.push(1);
        granted.read_only = Some(true);
        assert_eq!(Connected::decode(&payload), Ok(granted.clone()));
        assert_eq!(granted.encode(), frame::wrap(&payload));
        for len in 0..36 {
            assert!(Connected::decode(&payload[..len]).is_err(), "{len} bytes");
        }
    }
}
