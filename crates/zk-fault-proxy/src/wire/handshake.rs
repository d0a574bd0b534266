//! Encodes and decodes the handshake, which opens or resumes a session.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

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

/// The used part of the server's reply to a [`Connect`]; a session id of 0 means that it refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) timeout: i32,
    pub(crate) session: i64,
}

impl Connected {
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        from.int("the protocol version")?;
        let timeout = from.int("the session timeout")?;
        let session = from.long("the session id")?;
        from.buffer("the session password")?;
        // Servers since 3.4 add whether they are read-only; a read-only one would have refused.
        Ok(Self { timeout, session })
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
    fn connected_is_decoded_with_and_without_the_read_only_flag() {
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
