//! What became of a write whose answer was lost.
//!
//! Pure: no I/O and no clock.

/// A write of a node under a version, of which nobody knows whether it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) data: Vec<u8>,
    /// The version that it was to follow.
    pub(crate) version: i32,
}

/// What the node says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Written,
    NotWritten,
    Unknown,
}

impl Doubt {
    /// Judges by what the same node has now.
    pub(crate) fn judge(&self, version: i32, data: &[u8]) -> Found {
        if version == self.version {
            Found::NotWritten
        } else if version != self.version.wrapping_add(1) {
            // Several have written.
            Found::Unknown
        } else if data == self.data {
            // Whoever else has written the same to this node has done what was asked for.
            Found::Written
        } else {
            Found::NotWritten
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: D1
    #[test]
    fn only_the_next_version_with_the_same_data_was_written() {
        let doubt = Doubt {
            data: b"x".to_vec(),
            version: 4,
        };
        for (version, data, expected) in [
            (4, b"x", Found::NotWritten),
            (4, b"y", Found::NotWritten),
            (5, b"x", Found::Written),
            (5, b"y", Found::NotWritten),
            (6, b"x", Found::Unknown),
            (6, b"y", Found::Unknown),
            (0, b"x", Found::Unknown),
        ] {
            assert_eq!(doubt.judge(version, data), expected, "{version} {data:?}");
        }
    }
}
