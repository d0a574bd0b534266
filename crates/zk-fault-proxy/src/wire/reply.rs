//! Decodes the headers of replies, and watch notifications.
//!
//! Pure: no I/O and no clock.

use super::jute::{DecodeError, Decoder};

/// The header of every reply except the one that opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyHeader {
    /// The request's number; [`NOTIFICATION`] for a watch notification, -2 for the reply to a ping.
    pub(crate) xid: i32,
    /// The error code; zero for success.
    pub(crate) code: i32,
}

impl ReplyHeader {
    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let xid = from.int("the xid of a reply")?;
        from.long("the zxid of a reply")?;
        let code = from.int("the error code of a reply")?;
        Ok(Self { xid, code })
    }
}

/// The xid of a watch notification.
pub(crate) const NOTIFICATION: i32 = -1;

/// Decodes the path of a notification, given its body without the header.
pub(crate) fn notified_path(from: &mut Decoder<'_>) -> Result<String, DecodeError> {
    from.int("the kind of a notification")?;
    from.int("the state in a notification")?;
    from.path()
}

/// Returns the name of a reply's error code.
pub(crate) fn error_name(code: i32) -> &'static str {
    match code {
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
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Captured from a 3.9.3 server: the reply to a create, header only.
    const REPLY_TO_CREATE: [u8; 16] = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];

    #[test]
    fn a_header_has_the_layout_of_the_server() {
        let header = ReplyHeader::decode(&mut Decoder::new(&REPLY_TO_CREATE));
        assert_eq!(header, Ok(ReplyHeader { xid: 1, code: 0 }));
    }

    #[test]
    fn a_truncated_header_is_an_error_at_every_length() {
        for len in 0..REPLY_TO_CREATE.len() {
            let header = ReplyHeader::decode(&mut Decoder::new(&REPLY_TO_CREATE[..len]));
            assert!(header.is_err(), "{len} bytes");
        }
    }

    #[test]
    fn codes_have_their_names() {
        assert_eq!(error_name(-110), "node exists");
        assert_eq!(error_name(-9999), "unknown code");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let header = ReplyHeader::decode(&mut Decoder::new(&bytes));
            prop_assert!(header.is_ok() == (bytes.len() >= REPLY_TO_CREATE.len()));
            drop(notified_path(&mut Decoder::new(&bytes)));
        }
    }
}
