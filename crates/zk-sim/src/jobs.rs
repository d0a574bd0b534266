//! Every request of an ensemble, as long as it is on its way, and the record of those before.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::ops::Index;
use std::ops::IndexMut;

/// The number of a request, in the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobNumber(usize);

/// Requests by their number. The oldest are forgotten once they are finished and there are more than are wanted.
#[derive(Debug)]
pub(crate) struct Jobs<T> {
    kept: VecDeque<T>,
    /// How many are forgotten.
    forgotten: usize,
    limit: usize,
}

impl<T> Jobs<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            forgotten: 0,
            limit,
        }
    }

    /// Adds one, and forgets the oldest as long as there are too many and `is_finished` holds for it.
    pub(crate) fn push(&mut self, job: T, is_finished: impl Fn(&T) -> bool) -> JobNumber {
        while self.kept.len() >= self.limit && self.kept.front().is_some_and(&is_finished) {
            self.kept.pop_front();
            self.forgotten += 1;
        }
        self.kept.push_back(job);
        JobNumber(self.forgotten + self.kept.len() - 1)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        self.kept.iter()
    }

    /// How many there have been.
    pub(crate) fn count(&self) -> usize {
        self.forgotten + self.kept.len()
    }
}

impl<T> Index<JobNumber> for Jobs<T> {
    type Output = T;

    fn index(&self, number: JobNumber) -> &T {
        &self.kept[number.0 - self.forgotten]
    }
}

impl<T> IndexMut<JobNumber> for Jobs<T> {
    fn index_mut(&mut self, number: JobNumber) -> &mut T {
        &mut self.kept[number.0 - self.forgotten]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_when_they_are_finished_and_numbers_stay() {
        let mut jobs = Jobs::new(2);
        let is_finished = |job: &i32| *job != 3;
        let numbers: Vec<_> = (1..=4).map(|job| jobs.push(job, is_finished)).collect();
        assert_eq!(jobs.iter().copied().collect::<Vec<_>>(), [3, 4]);
        assert_eq!((jobs[numbers[2]], jobs[numbers[3]]), (3, 4));
        let fifth = jobs.push(5, is_finished);
        assert_eq!(
            jobs.iter().copied().collect::<Vec<_>>(),
            [3, 4, 5],
            "one that is not finished is kept, and all after it"
        );
        jobs[numbers[2]] = 6;
        let sixth = jobs.push(7, is_finished);
        assert_eq!((jobs[fifth], jobs[sixth], jobs.count()), (5, 7, 6));
        assert_eq!(jobs.iter().len(), 2);
    }
}
