//! An id and its text formats.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

/// An id of 64 bits.
///
/// It is displayed and parsed as a decimal number.
/// The two shorter formats have a fixed length, so that texts sort like the ids:
///
/// ```
/// use zk_id::Id;
///
/// let id = Id::new(1_541_815_603_606_036_480);
/// assert_eq!(id.to_string().parse(), Ok(id));
/// assert_eq!(id.base62(), "1ptWyK4WgZU");
/// assert_eq!(Id::from_base62("1ptWyK4WgZU"), Ok(id));
/// assert_eq!(id.crockford(), "1ASD13XH1F800");
/// assert_eq!(Id::from_crockford("1asd-i3xh-lf8oo"), Ok(id));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u64);

impl Id {
    /// Creates an id from its bits.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Formats the id as 11 of the characters `0-9A-Za-z`.
    ///
    /// Upper and lower case differ: do not use it for file names or for reading aloud.
    pub fn base62(self) -> String {
        encode(self.0, BASE62, BASE62_LENGTH)
    }

    /// Parses the format of [`base62`](Self::base62). Leading zeros are optional.
    ///
    /// # Errors
    ///
    /// If the text is not in this format.
    pub fn from_base62(text: &str) -> Result<Self, ParseIdError> {
        let error = |reason| ParseIdError::new(text, reason);
        let digit = |character| match character {
            '0'..='9' => Some(u64::from(character) - u64::from('0')),
            'A'..='Z' => Some(u64::from(character) - u64::from('A') + 10),
            'a'..='z' => Some(u64::from(character) - u64::from('a') + 36),
            _ => None,
        };
        decode(text, 62, digit).map(Self).map_err(error)
    }

    /// Formats the id as 13 characters of Crockford's base 32, `0-9A-Z` without `I`, `L`, `O` and `U`.
    pub fn crockford(self) -> String {
        encode(self.0, CROCKFORD, CROCKFORD_LENGTH)
    }

    /// Parses the format of [`crockford`](Self::crockford), also as people write it: in upper or lower case, with `I`
    /// and `L` for 1, `O` for 0, and hyphens. Leading zeros are optional.
    ///
    /// # Errors
    ///
    /// If the text is not in this format.
    pub fn from_crockford(text: &str) -> Result<Self, ParseIdError> {
        let error = |reason| ParseIdError::new(text, reason);
        let digit = |character: char| {
            let character = match character.to_ascii_uppercase() {
                'I' | 'L' => '1',
                'O' => '0',
                other => other,
            };
            let at = CROCKFORD
                .iter()
                .position(|digit| char::from(*digit) == character)?;
            u64::try_from(at).ok()
        };
        let digits: String = text.chars().filter(|character| *character != '-').collect();
        decode(&digits, 32, digit).map(Self).map_err(error)
    }
}

/// Formats a decimal number.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Parses a decimal number.
impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |character: char| character.to_digit(10).map(u64::from);
        decode(text, 10, digit)
            .map(Self)
            .map_err(|reason| ParseIdError::new(text, reason))
    }
}

impl From<u64> for Id {
    fn from(bits: u64) -> Self {
        Self(bits)
    }
}

impl From<Id> for u64 {
    fn from(id: Id) -> Self {
        id.0
    }
}

/// For databases with signed integers. The ids of every [`Layout`](crate::Layout) are positive.
impl From<Id> for i64 {
    fn from(id: Id) -> Self {
        id.0.cast_signed()
    }
}

impl From<i64> for Id {
    fn from(bits: i64) -> Self {
        Self(bits.cast_unsigned())
    }
}

/// A text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an id: {reason}")]
pub struct ParseIdError {
    text: String,
    reason: ParseIdErrorReason,
}

impl ParseIdError {
    fn new(text: &str, reason: ParseIdErrorReason) -> Self {
        Self {
            // An id has at most 20 characters, but an invalid text may be long.
            text: text.chars().take(40).collect(),
            reason,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum ParseIdErrorReason {
    #[error("the text is empty")]
    Empty,
    #[error("{0:?} is not a digit of base {1}")]
    InvalidDigit(char, u64),
    #[error("the number has more than 64 bits")]
    TooLarge,
}

fn encode(bits: u64, digits: &[u8], length: usize) -> String {
    let base = u64::try_from(digits.len()).expect("a few dozens");
    let mut text = vec![b'0'; length];
    let mut rest = bits;
    for character in text.iter_mut().rev() {
        *character = digits[usize::try_from(rest % base).expect("less than the base")];
        rest /= base;
    }
    text.into_iter().map(char::from).collect()
}

fn decode(
    text: &str,
    base: u64,
    digit: impl Fn(char) -> Option<u64>,
) -> Result<u64, ParseIdErrorReason> {
    if text.is_empty() {
        return Err(ParseIdErrorReason::Empty);
    }
    text.chars().try_fold(0_u64, |bits, character| {
        let digit = digit(character).ok_or(ParseIdErrorReason::InvalidDigit(character, base))?;
        bits.checked_mul(base)
            .and_then(|bits| bits.checked_add(digit))
            .ok_or(ParseIdErrorReason::TooLarge)
    })
}

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const BASE62_LENGTH: usize = 11;
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CROCKFORD_LENGTH: usize = 13;

#[cfg(feature = "serde")]
mod serialized;

#[cfg(feature = "serde")]
pub use serialized::as_base62;
#[cfg(feature = "serde")]
pub use serialized::as_crockford;
#[cfg(feature = "serde")]
pub use serialized::as_number;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_text_of_a_format_has_the_same_length() {
        assert_eq!(Id::new(0).base62(), "00000000000");
        assert_eq!(Id::new(u64::MAX).base62(), "LygHa16AHYF");
        assert_eq!(Id::new(0).crockford(), "0000000000000");
        assert_eq!(Id::new(u64::MAX).crockford(), "FZZZZZZZZZZZZ");
        assert_eq!(Id::new(u64::MAX).to_string(), "18446744073709551615");
    }

    #[test]
    fn an_invalid_text_is_refused_with_the_reason() {
        let refused = |read: fn(&str) -> Result<Id, ParseIdError>, text: &str| {
            read(text).unwrap_err().to_string()
        };
        assert_eq!(
            refused(str::parse, "12x"),
            "\"12x\" is not an id: 'x' is not a digit of base 10"
        );
        assert_eq!(
            refused(str::parse, "18446744073709551616"),
            "\"18446744073709551616\" is not an id: the number has more than 64 bits"
        );
        assert_eq!(
            refused(str::parse, ""),
            "\"\" is not an id: the text is empty"
        );
        refused(str::parse, "+1");
        refused(Id::from_base62, "LygHa16AHYG");
        refused(Id::from_base62, "1-2");
        refused(Id::from_crockford, "U");
        refused(Id::from_crockford, "--");
        refused(Id::from_crockford, "G000000000000");
        assert!(refused(Id::from_base62, &"é".repeat(100)).len() < 150);
    }

    proptest! {
        #[test]
        fn texts_round_trip_and_sort_like_their_ids(one: u64, other: u64) {
            let (one, other) = (Id::new(one), Id::new(other));
            prop_assert_eq!(one.to_string().parse(), Ok(one));
            prop_assert_eq!(Id::from_base62(&one.base62()), Ok(one));
            prop_assert_eq!(Id::from_crockford(&one.crockford()), Ok(one));
            prop_assert_eq!(Id::from_crockford(&one.crockford().to_lowercase()), Ok(one));
            prop_assert_eq!(one.cmp(&other), one.base62().cmp(&other.base62()));
            prop_assert_eq!(one.cmp(&other), one.crockford().cmp(&other.crockford()));
            prop_assert_eq!(Id::from(i64::from(one)), one);
        }

        #[test]
        fn parsing_never_panics(text: String) {
            drop((text.parse::<Id>(), Id::from_base62(&text), Id::from_crockford(&text)));
        }
    }
}
