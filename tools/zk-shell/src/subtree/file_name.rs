//! Names of nodes as names of files, one to one.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

/// Returns the file name of a node: letters, digits, `_`, `-` and dots stay, except a dot at the beginning; each other
/// byte becomes `%` and two digits.
pub(super) fn encode(name: &str) -> String {
    let mut encoded = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        let stays =
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || (byte == b'.' && at > 0);
        if stays {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a text can always be appended");
        }
    }
    encoded
}

/// Returns the name of the node with this file name; `None` if [`encode`] returns it for none.
pub(super) fn decode(file_name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(file_name.len());
    let mut rest = file_name.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        if *first == b'%' {
            let (digits, others) = others.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = others;
        } else {
            bytes.push(*first);
        }
    }
    let name = String::from_utf8(bytes).ok()?;
    // Otherwise a node could have two file names.
    (!name.is_empty() && encode(&name) == file_name).then_some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn file_names_stay_readable() {
        for (name, file_name) in [
            ("lock-0000000001", "lock-0000000001"),
            ("a.b", "a.b"),
            (".hidden", "%2Ehidden"),
            ("..", "%2E."),
            ("=data", "%3Ddata"),
            ("dubbo://h:1?x=y", "dubbo%3A%2F%2Fh%3A1%3Fx%3Dy"),
            ("50%", "50%25"),
            ("é", "%C3%A9"),
        ] {
            assert_eq!(encode(name), file_name);
            assert_eq!(decode(file_name).as_deref(), Some(name));
        }
    }

    #[test]
    fn other_file_names_are_no_nodes() {
        for file_name in [
            "", ".", "..", ".a", "=data", "a/b", "%", "%2", "%zz", "%61", "%3a", "%+1", "%FF", "é",
            "%é", "a b",
        ] {
            assert_eq!(decode(file_name), None, "{file_name:?}");
        }
    }

    proptest! {
        #[test]
        fn every_name_has_one_file_name(name in ".{1,12}", other in ".{1,12}") {
            let file_name = encode(&name);
            prop_assert!(!file_name.starts_with(['.', '=']) && !file_name.contains('/'));
            prop_assert_eq!(decode(&file_name), Some(name.clone()));
            prop_assert_eq!(file_name == encode(&other), name == other);
        }

        #[test]
        fn any_file_name_is_decoded_or_refused(file_name in "[%=./a-f0-9A-Fé]{0,8}") {
            if let Some(name) = decode(&file_name) {
                prop_assert_eq!(encode(&name), file_name);
            }
        }
    }
}
