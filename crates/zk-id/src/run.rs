//! Ids that follow each other.

use std::iter::FusedIterator;
use std::ops::Range;

use crate::id::Id;
use crate::layout::Layout;

/// Ids of one worker that follow each other, taken in one step; those that are not used are skipped.
#[derive(Debug, Clone)]
#[must_use = "ids that are not used are skipped"]
pub struct Run {
    layout: Layout,
    worker: u32,
    positions: Range<u64>,
}

impl Run {
    pub(crate) fn new(layout: Layout, worker: u32, positions: Range<u64>) -> Self {
        Self {
            layout,
            worker,
            positions,
        }
    }
}

impl Iterator for Run {
    type Item = Id;

    #[inline]
    fn next(&mut self) -> Option<Id> {
        let position = self.positions.next()?;
        Some(self.layout.id(position, self.worker))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.positions.size_hint()
    }
}

impl ExactSizeIterator for Run {}

impl FusedIterator for Run {}
