//! Stores the requests of an ensemble: all unfinished ones, and a bounded log of finished ones.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

/// The number of a request, in the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobNumber(usize);

/// Requests by number. Above the limit, the oldest are dropped once they are finished.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    kept: VecDeque<T>,
    /// The number of dropped requests.
    dropped: usize,
    limit: usize,
}

impl<T> Jobs<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            dropped: 0,
            limit,
        }
    }

    /// Adds a request, and drops the oldest ones while there are too many and `is_finished` holds for the oldest.
    pub(crate) fn push(&mut self, job: T, is_finished: impl Fn(&T) -> bool) -> JobNumber {
        while self.kept.len() >= self.limit && self.kept.front().is_some_and(&is_finished) {
            self.kept.pop_front();
            self.dropped += 1;
        }
        self.kept.push_back(job);
        JobNumber(self.dropped + self.kept.len() - 1)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.kept.iter()
    }

    /// Returns the number of all requests, including dropped ones.
    pub(crate) fn count(&self) -> usize {
        self.dropped + self.kept.len()
    }
}

impl<T> Index<JobNumber> for Jobs<T> {
    type Output = T;

    fn index(&self, number: JobNumber) -> &T {
        &self.kept[number.0 - self.dropped]
    }
}

impl<T> IndexMut<JobNumber> for Jobs<T> {
    fn index_mut(&mut self, number: JobNumber) -> &mut T {
        &mut self.kept[number.0 - self.dropped]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_when_they_are_finished_and_numbers_stay() {
        let mut jobs = Jobs::new(2);
        let is_finished = |job: &i32| *job != 3;
        let numbers: Vec<_> = (1..=4).map(|job| jobs.push(job, is_finished)).collect();
        assert_eq!(jobs.iter().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!((jobs[numbers[2]], jobs[numbers[3]]), (3, 4));
        let fifth = jobs.push(5, is_finished);
        assert_eq!(
            jobs.iter().copied().collect::<Vec<_>>(),
            [3, 4, 5],
            "an unfinished request is kept, and all after it"
        );
        jobs[numbers[2]] = 6;
        let sixth = jobs.push(7, is_finished);
        assert_eq!((jobs[fifth], jobs[sixth], jobs.count()), (5, 7, 6));
        assert_eq!(jobs.iter().len(), 2);
    }
}
