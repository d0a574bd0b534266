//! How the number of a counter is written in its node.
//!
//! Pure: no I/O and no clock.

use std::ops::RangeInclusive;

/// How the number of a counter is written in its node.
///
/// All clients of one counter must use the same format. A node without data is zero in each of them; kazoo's `Counter`
/// creates such a node, and reads it as its default. Start a counter with another default than zero from here, with
/// [`initial`](crate::CounterOptions::with_initial), or [`set`](crate::AtomicCounter::set) it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Format {
    /// Eight bytes, big-endian: Curator's `DistributedAtomicLong`. The default.
    #[default]
    Long,
    /// Four bytes, big-endian, from -2^31 to 2^31-1: Curator's `DistributedAtomicInteger` and `SharedCount`, and kazoo's
    /// `Counter` with `support_curator=True`.
    Integer,
    /// Decimal digits in ASCII: kazoo's `Counter` with a default that is an `int`.
    Text,
}

impl Format {
    /// Returns the numbers that the format can express.
    pub const fn range(self) -> RangeInclusive<i64> {
        match self {
            Self::Long | Self::Text => i64::MIN..=i64::MAX,
            Self::Integer => i32::MIN as i64..=i32::MAX as i64,
        }
    }

    /// Reads a number; `None` if the data is not one.
    pub(crate) fn decode(self, data: &[u8]) -> Option<i64> {
        if data.is_empty() {
            return Some(0);
        }
        match self {
            Self::Long => data.try_into().ok().map(i64::from_be_bytes),
            Self::Integer => data.try_into().ok().map(i32::from_be_bytes).map(i64::from),
            Self::Text => std::str::from_utf8(data).ok()?.parse().ok(),
        }
    }

    /// Writes a number; `None` if it is not in the [range](Self::range).
    pub(crate) fn encode(self, value: i64) -> Option<Vec<u8>> {
        Some(match self {
            Self::Long => value.to_be_bytes().to_vec(),
            Self::Integer => i32::try_from(value).ok()?.to_be_bytes().to_vec(),
            Self::Text => value.to_string().into_bytes(),
        })
    }

    /// Says what the data of a node should have been.
    pub(crate) const fn expected(self) -> &'static str {
        match self {
            Self::Long => "a number of 8 bytes",
            Self::Integer => "a number of 4 bytes",
            Self::Text => "a number in digits",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::any;
    use proptest::proptest;

    const ALL: [Format; 3] = [Format::Long, Format::Integer, Format::Text];

    #[test]
    fn numbers_are_written_as_the_originals_write_them() {
        for (format, value, expected) in [
            (Format::Long, 1, &[0, 0, 0, 0, 0, 0, 0, 1][..]),
            (Format::Long, -2, &[255, 255, 255, 255, 255, 255, 255, 254]),
            (Format::Integer, 258, &[0, 0, 1, 2]),
            (Format::Integer, -1, &[255; 4]),
            (Format::Text, -40, b"-40"),
            (Format::Text, 0, b"0"),
        ] {
            assert_eq!(format.encode(value).as_deref(), Some(expected));
            assert_eq!(format.decode(expected), Some(value));
        }
        for format in ALL {
            assert_eq!(format.decode(b""), Some(0), "{format:?}");
        }
    }

    #[test]
    fn data_that_is_no_number_is_refused() {
        for (format, data) in [
            (Format::Long, &[0; 4][..]),
            (Format::Long, &[0; 9]),
            (Format::Integer, &[0; 8]),
            (Format::Integer, b"1"),
            (Format::Text, b"1.5"),
            (Format::Text, b"9223372036854775808"),
            (Format::Text, b" 1"),
            (Format::Text, &[0xff]),
        ] {
            assert_eq!(format.decode(data), None, "{format:?} {data:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value: i64) {
            for format in ALL {
                match format.encode(value) {
                    Some(data) => assert_eq!(format.decode(&data), Some(value)),
                    None => assert!(!format.range().contains(&value)),
                }
                assert_eq!(format.encode(value).is_some(), format.range().contains(&value));
            }
        }

        #[test]
        fn any_data_is_read_or_refused(data in proptest::collection::vec(any::<u8>(), 0..24)) {
            for format in ALL {
                if let Some(value) = format.decode(&data) {
                    assert!(format.range().contains(&value));
                }
            }
        }
    }
}
