//! What became of a write whose answer was lost.
//!
//! Pure: no I/O and no clock.

/// A write of a node under a version, of which nobody knows whether it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnconfirmedWrite {
    pub(crate) data: Vec<u8>,
    /// The version that it was to follow.
    pub(crate) version: i32,
}

/// What the node says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOutcome {
    Written,
    NotWritten,
    Unknown,
}

impl UnconfirmedWrite {
    /// Judges by what the same node has now.
    pub(crate) fn outcome(&self, version: i32, data: &[u8]) -> WriteOutcome {
        if version == self.version {
            WriteOutcome::NotWritten
        } else if version != self.version.wrapping_add(1) {
            // Several have written.
            WriteOutcome::Unknown
        } else if data == self.data {
            // Whoever else has written the same to this node has done what was asked for.
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
