//! Decides whether a write whose reply was lost was applied, from what the node contains now.
//!
//! Pure: no I/O and no clock.

/// A conditional write of a node whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnconfirmedWrite {
    pub(crate) data: Vec<u8>,
    /// The version that the write required.
    pub(crate) version: i32,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Written,
    NotWritten,
    Unknown,
}

impl UnconfirmedWrite {
    /// Returns the outcome, given the current version and data of the same node.
    pub(crate) fn outcome(&self, version: i32, data: &[u8]) -> WriteOutcome {
        if version == self.version {
            WriteOutcome::NotWritten
        } else if version != self.version.wrapping_add(1) {
            // There were several writes.
            WriteOutcome::Unknown
        } else if data == self.data {
            // If another client wrote the same data, the result is the requested one.
            WriteOutcome::Written
        } else {
            WriteOutcome::NotWritten
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: D1
    #[test]
    fn only_the_next_version_with_the_same_data_was_written() {
        let unconfirmed = UnconfirmedWrite {
            data: b"x".to_vec(),
            version: 4,
        };
        for (version, data, expected) in [
            (4, b"x", WriteOutcome::NotWritten),
            (4, b"y", WriteOutcome::NotWritten),
            (5, b"x", WriteOutcome::Written),
            (5, b"y", WriteOutcome::NotWritten),
            (6, b"x", WriteOutcome::Unknown),
            (6, b"y", WriteOutcome::Unknown),
            (0, b"x", WriteOutcome::Unknown),
        ] {
            assert_eq!(
                unconfirmed.outcome(version, data),
                expected,
                "{version} {data:?}"
            );
        }
    }
}
