//! The fencing token of a lock.

use std::fmt;

use zk_core::Stat;

/// A number that grows with each grant of a lock, so that a resource can refuse late writers.
///
/// All locks of one ensemble share one series of tokens.
/// An ensemble that is set up again with empty disks starts a new series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Creates a token from a number, such as one that a resource has stored.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    pub(crate) const fn of(stat: &Stat) -> Self {
        Self(stat.czxid.cast_unsigned())
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
