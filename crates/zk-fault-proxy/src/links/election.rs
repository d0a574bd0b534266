//! Replaces the server's own address in the first message of an election connection by the address of the relay.
//!
//! The server with the greater id opens the election connection of a pair. When the other server connects, it closes
//! that connection and connects back to the address in the first message, not to the one in the configuration.
//! This address is the server's own, so the connection would bypass the relay.
//!
//! The message is a version (−65536, or −65535 with several addresses), the server's id, and the length and text of
//! `host:port`, with `|` between several.
//!
//! Pure: no I/O and no clock.

use std::net::SocketAddr;

/// What to do with the first bytes of an election connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FirstMessage {
    /// More bytes are needed.
    Incomplete,
    /// Replace this number of bytes by these bytes.
    Replace(usize, Vec<u8>),
    /// It is not such a message; pass the bytes unchanged.
    Unknown,
}

/// Replaces the address in a first message by `address`.
pub(super) fn redirect(received: &[u8], address: SocketAddr) -> FirstMessage {
    let Some((version, rest)) = received.split_first_chunk::<8>() else {
        return FirstMessage::Incomplete;
    };
    if !VERSIONS.contains(&i64::from_be_bytes(*version)) {
        return FirstMessage::Unknown;
    }
    let Some((id, rest)) = rest.split_first_chunk::<8>() else {
        return FirstMessage::Incomplete;
    };
    let Some((len, text)) = rest.split_first_chunk::<4>() else {
        return FirstMessage::Incomplete;
    };
    let Ok(len @ 1..=LONGEST) = usize::try_from(i32::from_be_bytes(*len)) else {
        return FirstMessage::Unknown;
    };
    if text.len() < len {
        return FirstMessage::Incomplete;
    }
    let address = address.to_string();
    let address_len = u32::try_from(address.len()).expect("an address is short");
    let message = [
        version.as_slice(),
        id,
        &address_len.to_be_bytes(),
        address.as_bytes(),
    ];
    FirstMessage::Replace(HEADER + len, message.concat())
}

const VERSIONS: [i64; 2] = [-65536, -65535];
const HEADER: usize = 20;
/// The server refuses longer ones.
const LONGEST: usize = 2048;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(version: i64, id: i64, text: &str) -> Vec<u8> {
        let len = i32::try_from(text.len()).unwrap();
        [
            version.to_be_bytes().as_slice(),
            &id.to_be_bytes(),
            &len.to_be_bytes(),
            text.as_bytes(),
        ]
        .concat()
    }

    fn relay() -> SocketAddr {
        "127.0.0.1:20001".parse().unwrap()
    }

    #[test]
    fn the_address_is_replaced_in_both_versions() {
        for (version, text) in [
            (-65536, "127.0.0.1:31001"),
            (-65535, "127.0.0.1:31001|127.0.0.2:31001"),
        ] {
            let mut received = message(version, 2, text);
            let len = received.len();
            received.extend(b"and what follows");
            assert_eq!(
                redirect(&received, relay()),
                FirstMessage::Replace(len, message(version, 2, "127.0.0.1:20001"))
            );
        }
    }

    #[test]
    fn an_incomplete_message_needs_more_bytes() {
        let received = message(-65536, 2, "127.0.0.1:31001");
        for len in 0..received.len() {
            assert_eq!(
                redirect(&received[..len], relay()),
                FirstMessage::Incomplete,
                "{len} bytes"
            );
        }
    }

    #[test]
    fn other_messages_pass_unchanged() {
        // Old servers begin with their id.
        for version in [2, 0, -1, -65537] {
            assert_eq!(
                redirect(&message(version, 2, "127.0.0.1:1"), relay()),
                FirstMessage::Unknown
            );
        }
        let too_long = "x".repeat(LONGEST + 1);
        for text in ["", &too_long] {
            assert_eq!(
                redirect(&message(-65536, 2, text), relay()),
                FirstMessage::Unknown
            );
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, known: bool) {
            let mut received = if known { (-65536_i64).to_be_bytes().to_vec() } else { Vec::new() };
            received.extend(bytes);
            if let FirstMessage::Replace(len, _) = redirect(&received, relay()) {
                prop_assert!(len <= received.len());
            }
        }
    }
}
