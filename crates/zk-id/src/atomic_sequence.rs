//! The line of positions that ids are made of, from which any number of threads take without a lock.
//!
//! Pure: no I/O and no clock.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// An atomic number, as threads have it and as the model checker does.
pub(crate) trait Cell {
    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn swap(&self, value: u64) -> u64;
    fn raise(&self, value: u64);
    /// Replaces `current` by `new`, or tells what is there instead; it may fail without a reason.
    fn replace(&self, current: u64, new: u64) -> Result<u64, u64>;
}

/// Positions, each of which is taken once: a millisecond in the upper bits and a number within it in the lower ones, so that
/// the one behind the last of a millisecond is the first of the next.
///
/// They are taken from the window that is open, until its time is over, which each take compares with the clock:
/// that does not depend on anything that runs besides.
/// That each is taken once rests on `next` alone, which only rises, by one atomic step at a time;
/// that none is taken beyond a window is what every step looks at first.
#[derive(Debug)]
pub(crate) struct Line<C = AtomicU64> {
    /// The position to be taken next.
    next: C,
    /// The end of the window.
    end: C,
    /// The time from which on nothing is taken from the window.
    until: C,
}

impl<C: Cell> Line<C> {
    /// Makes a line without a window, whose first position is `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            next: C::new(first),
            end: C::new(SHUT),
            until: C::new(0),
        }
    }

    /// Takes up to `most` positions, at least one; `None` when the window has none at the time `now`.
    #[inline]
    pub(crate) fn take(&self, most: u64, now: u64) -> Option<Range<u64>> {
        if now >= self.until.load() {
            return None;
        }
        let mut next = self.next.load();
        loop {
            let end = self.end.load();
            if next >= end {
                return None;
            }
            let taken = next..end.min(next.saturating_add(most));
            match self.next.replace(next, taken.end) {
                Ok(_) => return Some(taken),
                Err(other) => next = other,
            }
        }
    }

    /// Takes one position; `None` when the window has none at the time `now`.
    #[inline]
    pub(crate) fn take_one(&self, now: u64) -> Option<u64> {
        if now >= self.until.load() {
            return None;
        }
        let mut next = self.next.load();
        while next < self.end.load() {
            match self.next.replace(next, next + 1) {
                Ok(_) => return Some(next),
                Err(other) => next = other,
            }
        }
        None
    }

    /// Returns the position to be taken next; there are no more when it is [`CLOSED`].
    pub(crate) fn next(&self) -> u64 {
        self.next.load()
    }

    /// Opens a window up to `end`, of which what is before `floor` is skipped, until the time `until`.
    pub(crate) fn open(&self, floor: u64, end: u64, until: u64) {
        self.next.raise(floor);
        self.end.store(end);
        // Last: who sees that there is more time must not take a position that is before the floor.
        self.until.store(until);
    }

    /// Shuts the window; who is just taking from it may still do so.
    pub(crate) fn shut(&self) {
        self.end.store(SHUT);
    }

    /// Ends the line for good: when this returns, nothing is taken any more, not even by who had begun to.
    ///
    /// Answers the first position that was never taken, the first time.
    pub(crate) fn close(&self) -> u64 {
        self.end.store(SHUT);
        // Whoever has read the old number fails to replace it, and finds none below the end of any window.
        self.next.swap(CLOSED)
    }
}

impl Cell for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }

    fn swap(&self, value: u64) -> u64 {
        self.swap(value, Ordering::AcqRel)
    }

    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }

    #[inline]
    fn replace(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// The next position of a line that has ended.
pub(crate) const CLOSED: u64 = u64::MAX;

/// The end of a window that has no positions.
const SHUT: u64 = 0;

#[cfg(test)]
mod tests;
