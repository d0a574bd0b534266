//! Consecutive ids of one worker.
//!
//! Pure: no I/O and no clock.

use std::iter::FusedIterator;
use std::ops::Range;

use crate::id::Id;
use crate::layout::Encoding;

/// Consecutive ids of one worker, taken in one step. Ids that are not used are skipped.
#[derive(Debug, Clone)]
#[must_use = "ids that are not used are skipped"]
pub struct IdRange {
    encoding: Encoding,
    positions: Range<u64>,
}

impl IdRange {
    pub(crate) fn new(encoding: Encoding, positions: Range<u64>) -> Self {
        Self {
            encoding,
            positions,
        }
    }
}

impl Iterator for IdRange {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        let position = self.positions.next()?;
        Some(self.encoding.id(position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }
}

impl ExactSizeIterator for IdRange {}

impl FusedIterator for IdRange {}
