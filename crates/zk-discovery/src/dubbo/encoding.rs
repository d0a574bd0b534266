//! What Java's `URLEncoder` and `URLDecoder` do, in UTF-8.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

/// Encodes a text: letters, digits and `.-*_` stay, a blank becomes a plus, and each byte of all else `%XX`.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                encoded.push(char::from(byte));
            }
            b' ' => encoded.push('+'),
            _ => write!(encoded, "%{byte:02X}").expect("a String takes everything"),
        }
    }
    encoded
}

/// Decodes a text, and says what is wrong with it.
pub(super) fn decode(text: &str) -> Result<String, &'static str> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || {
                    let digit = bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                    digit.and_then(|digit| u8::try_from(digit).ok())
                };
                match (digit(), digit()) {
                    (Some(high), Some(low)) => high << 4 | low,
                    _ => return Err("a percent sign has no two hexadecimal digits behind it"),
                }
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).map_err(|_| "what is behind percent signs is not UTF-8")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The right column is what `URLEncoder.encode(text, "UTF-8")` answers.
    #[test]
    fn texts_are_encoded_as_java_does() {
        for (text, encoded) in [
            ("aZ09.-*_", "aZ09.-*_"),
            ("a b+c", "a+b%2Bc"),
            ("~!'()", "%7E%21%27%28%29"),
            (
                "dubbo://h:1/a.B?k=v&x=1,2",
                "dubbo%3A%2F%2Fh%3A1%2Fa.B%3Fk%3Dv%26x%3D1%2C2",
            ),
            ("\u{e4}\u{20ac}", "%C3%A4%E2%82%AC"),
            ("\u{1f600}", "%F0%9F%98%80"),
        ] {
            assert_eq!(encode(text), encoded);
            assert_eq!(decode(encoded).as_deref(), Ok(text));
        }
        assert_eq!(decode("%c3%a4").as_deref(), Ok("\u{e4}"));
        for broken in ["%", "%4", "%G0", "%4G", "a%", "%FF"] {
            assert!(decode(broken).is_err(), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_again(text in "\\PC{0,60}") {
            let encoded = encode(&text);
            prop_assert!(!encoded.contains('/'));
            prop_assert_eq!(decode(&encoded), Ok(text));
        }
    }
}
