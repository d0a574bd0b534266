//! Sequence numbers, which servers append to the names of sequential nodes.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// The sequence number of a sequential node, in the format `%010d`.
///
/// A server takes it from a 32-bit counter of the parent.
/// Before ZooKeeper 3.6 the counter wraps to a negative number after 2147483647. Since 3.6 it stays at 2147483647, so
/// that several nodes get the same number (see [`is_near_end`](Self::is_near_end)).
///
/// ```
/// use zk_core::Sequence;
///
/// let (stem, sequence) = Sequence::split("lock-0000000042").unwrap();
/// assert_eq!((stem, sequence.number()), ("lock-", 42));
/// assert_eq!(Sequence::split("lock--0000000042").unwrap().1.number(), -42);
/// assert!(Sequence::split("lock-42").is_none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence(i32);

impl Sequence {
    /// Creates a sequence number.
    pub const fn new(number: i32) -> Self {
        Self(number)
    }

    /// Splits a name into its prefix and its sequence number. Returns `None` if it does not end with one.
    ///
    /// A minus sign belongs to the number if another minus sign precedes it, as in `lock--2147483648`.
    pub fn split(name: &str) -> Option<(&str, Self)> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let before = name.get(..name.len() - digits)?;
        let is_negative = before.ends_with("--") && (digits == DIGITS || digits == DIGITS - 1);
        let number_at = if is_negative {
            before.len() - 1
        } else if digits >= DIGITS {
            name.len() - DIGITS
        } else {
            return None;
        };
        let number = name.get(number_at..)?.parse().ok()?;
        Some((name.get(..number_at)?, Self(number)))
    }

    /// Parses a string that consists of a sequence number in the format `%010d`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let has_width = digits.len() == DIGITS || (text.len() == DIGITS && digits != text);
        if has_width && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            text.parse().ok().map(Self)
        } else {
            None
        }
    }

    /// Returns the number as an integer.
    pub const fn number(self) -> i32 {
        self.0
    }

    /// Returns the distance from `other` to `self`, negative if `self` comes first. The counter may have wrapped
    /// between.
    ///
    /// Correct if fewer than 2^31 nodes were created between the two, as is the case for contenders that wait at the
    /// same time.
    pub const fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0)
    }

    /// Returns whether the counter is so close to the end of its range that its numbers no longer define an order.
    pub const fn is_near_end(self) -> bool {
        self.0 > i32::MAX - MARGIN || self.0 < i32::MIN + MARGIN
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:010}", self.0)
    }
}

const DIGITS: usize = 10;
const MARGIN: i32 = 1024;

#[cfg(test)]
mod tests;
