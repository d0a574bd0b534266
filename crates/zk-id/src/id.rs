//! An id, and the texts it is written as.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

/// An id of 64 bits.
///
/// It is displayed and parsed as a decimal number.
/// The two shorter texts have a fixed length, so that they are in the order of the ids:
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
    /// Makes an id of its bits.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// Returns the bits.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Writes the id as 11 of the characters `0-9A-Za-z`.
    ///
    /// Upper and lower case differ: not for names of files or for reading aloud.
    pub fn base62(self) -> String {
        written(self.0, BASE62, BASE62_LENGTH)
    }

    /// Reads what [`base62`](Self::base62) has written; leading zeros may be missing.
    ///
    /// # Errors
    ///
    /// When it is not such a text.
    pub fn from_base62(text: &str) -> Result<Self, ParseIdError> {
        let wrong = |why| ParseIdError::new(text, why);
        let digit = |character| match character {
            '0'..='9' => Some(u64::from(character) - u64::from('0')),
            'A'..='Z' => Some(u64::from(character) - u64::from('A') + 10),
            'a'..='z' => Some(u64::from(character) - u64::from('a') + 36),
            _ => None,
        };
        read(text, 62, digit).map(Self).map_err(wrong)
    }

    /// Writes the id as 13 characters of Crockford's base 32, `0-9A-Z` without `I`, `L`, `O` and `U`.
    pub fn crockford(self) -> String {
        written(self.0, CROCKFORD, CROCKFORD_LENGTH)
    }

    /// Reads what [`crockford`](Self::crockford) has written, or a person: in upper or lower case, `I` and `L` for 1, `O`
    /// for 0, hyphens anywhere; leading zeros may be missing.
    ///
    /// # Errors
    ///
    /// When it is not such a text.
    pub fn from_crockford(text: &str) -> Result<Self, ParseIdError> {
        let wrong = |why| ParseIdError::new(text, why);
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
        read(&digits, 32, digit).map(Self).map_err(wrong)
    }
}

/// A decimal number.
impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Reads a decimal number.
impl FromStr for Id {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |character: char| character.to_digit(10).map(u64::from);
        read(text, 10, digit)
            .map(Self)
            .map_err(|why| ParseIdError::new(text, why))
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

/// For databases, whose numbers have a sign: the ids of every [`Layout`](crate::Layout) are positive.
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
#[error("{text:?} is not an id: {why}")]
pub struct ParseIdError {
    text: String,
    why: Wrong,
}

impl ParseIdError {
    fn new(text: &str, why: Wrong) -> Self {
        Self {
            // An id is 20 characters at most; what is not one may be anything.
            text: text.chars().take(40).collect(),
            why,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Wrong {
    #[error("it is empty")]
    Empty,
    #[error("{0:?} is not a digit of base {1}")]
    NoDigit(char, u64),
    #[error("it is more than 64 bits")]
    TooLarge,
}

fn written(bits: u64, digits: &[u8], length: usize) -> String {
    let base = u64::try_from(digits.len()).expect("a few dozens");
    let mut text = vec![b'0'; length];
    let mut rest = bits;
    for place in text.iter_mut().rev() {
        *place = digits[usize::try_from(rest % base).expect("less than the base")];
        rest /= base;
    }
    text.into_iter().map(char::from).collect()
}

fn read(text: &str, base: u64, digit: impl Fn(char) -> Option<u64>) -> Result<u64, Wrong> {
    if text.is_empty() {
        return Err(Wrong::Empty);
    }
    text.chars().try_fold(0_u64, |bits, character| {
        let digit = digit(character).ok_or(Wrong::NoDigit(character, base))?;
        bits.checked_mul(base)
            .and_then(|bits| bits.checked_add(digit))
            .ok_or(Wrong::TooLarge)
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
    fn texts_of_the_edges_are_as_long_as_all_others() {
        assert_eq!(Id::new(0).base62(), "00000000000");
        assert_eq!(Id::new(u64::MAX).base62(), "LygHa16AHYF");
        assert_eq!(Id::new(0).crockford(), "0000000000000");
        assert_eq!(Id::new(u64::MAX).crockford(), "FZZZZZZZZZZZZ");
        assert_eq!(Id::new(u64::MAX).to_string(), "18446744073709551615");
    }

    #[test]
    fn what_is_no_id_is_refused_and_named() {
        let refused = |read: fn(&str) -> Result<Id, ParseIdError>, text: &str| {
            read(text).unwrap_err().to_string()
        };
        assert_eq!(
            refused(str::parse, "12x"),
            "\"12x\" is not an id: 'x' is not a digit of base 10"
        );
        assert_eq!(
            refused(str::parse, "18446744073709551616"),
            "\"18446744073709551616\" is not an id: it is more than 64 bits"
        );
        assert_eq!(refused(str::parse, ""), "\"\" is not an id: it is empty");
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
        fn every_text_is_read_back_and_is_in_the_order_of_the_ids(one: u64, other: u64) {
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
        fn no_text_makes_it_panic(text: String) {
            drop((text.parse::<Id>(), Id::from_base62(&text), Id::from_crockford(&text)));
        }
    }
}
