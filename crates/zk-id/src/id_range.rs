//! Ids that follow each other.
//!
//! Pure: no I/O and no clock.

use std::iter::FusedIterator;
use std::ops::Range;

use crate::id::Id;
use crate::layout::Stamp;

/// Ids of one worker that follow each other, taken in one step; those that are not used are skipped.
#[derive(Debug, Clone)]
#[must_use = "ids that are not used are skipped"]
pub struct Run {
    stamp: Stamp,
    positions: Range<u64>,
}

impl Run {
    pub(crate) fn new(stamp: Stamp, positions: Range<u64>) -> Self {
        Self { stamp, positions }
    }
}

impl Iterator for Run {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        let position = self.positions.next()?;
        Some(self.stamp.id(position))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }
}

impl ExactSizeIterator for Run {}

impl FusedIterator for Run {}
