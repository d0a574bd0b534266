//! Hands out each position of a sequence once, to any number of threads and without a lock.
//!
//! Pure: no I/O and no clock.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The atomic operations of a sequence, for `std` and for the model checker.
pub(crate) trait AtomicCell {
    fn new(value: u64) -> Self;
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn swap(&self, value: u64) -> u64;
    fn fetch_max(&self, value: u64);
    /// Replaces `current` by `new`, or returns the actual value. It may fail spuriously.
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
}

/// A sequence of positions, each of which is taken once.
///
/// The upper bits of a position are a time unit, the lower ones a number within it.
/// The last position of a time unit is therefore followed by the first one of the next time unit.
///
/// Positions are taken from the open time window until the window expires.
/// Each take compares the expiry with the clock, so that it does not depend on any task.
/// `next` alone makes each position unique: it only grows, by one atomic operation at a time.
/// Each of these operations first checks that it stays within the window.
#[derive(Debug)]
pub(crate) struct AtomicSequence<C = AtomicU64> {
    /// The position to be taken next.
    next: C,
    /// The end of the window.
    end: C,
    /// The time at which the window expires.
    expires: C,
}

impl<C: AtomicCell> AtomicSequence<C> {
    /// Creates a sequence without a window, whose first position is `first`.
    pub(crate) fn new(first: u64) -> Self {
        Self {
            next: C::new(first),
            end: C::new(NO_WINDOW),
            expires: C::new(0),
        }
    }

    /// Takes up to `max` positions, at least one. Returns `None` if the window has none at the time `now`.
    #[inline]
    pub(crate) fn take(&self, max: u64, now: u64) -> Option<Range<u64>> {
        if now >= self.expires.load() {
            return None;
        }
        let mut next = self.next.load();
        loop {
            let end = self.end.load();
            if next >= end {
                return None;
            }
            let taken = next..end.min(next.saturating_add(max));
            match self.next.compare_exchange(next, taken.end) {
                Ok(_) => return Some(taken),
                Err(actual) => next = actual,
            }
        }
    }

    /// Takes one position. Returns `None` if the window has none at the time `now`.
    #[inline]
    pub(crate) fn take_one(&self, now: u64) -> Option<u64> {
        if now >= self.expires.load() {
            return None;
        }
        let mut next = self.next.load();
        while next < self.end.load() {
            match self.next.compare_exchange(next, next + 1) {
                Ok(_) => return Some(next),
                Err(actual) => next = actual,
            }
        }
        None
    }

    /// Returns the position to be taken next, or [`CLOSED`].
    pub(crate) fn next(&self) -> u64 {
        self.next.load()
    }

    /// Opens a window that ends before `end` and expires at the time `expires`. Positions before `start` are skipped.
    pub(crate) fn open_window(&self, start: u64, end: u64, expires: u64) {
        self.next.fetch_max(start);
        self.end.store(end);
        // Last: a thread that sees the new expiry must not take a position before `start`.
        self.expires.store(expires);
    }

    /// Closes the window. A take that runs at the same time may still succeed.
    pub(crate) fn close_window(&self) {
        self.end.store(NO_WINDOW);
    }

    /// Ends the sequence for good: once this returns, every take fails, including those that had already begun.
    ///
    /// The first call returns the first position that was never taken.
    pub(crate) fn close(&self) -> u64 {
        self.end.store(NO_WINDOW);
        // A thread that has read the old position fails to replace it, and the new one is not before the end of any
        // window.
        self.next.swap(CLOSED)
    }
}

impl AtomicCell for AtomicU64 {
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

    fn fetch_max(&self, value: u64) {
        self.fetch_max(value, Ordering::AcqRel);
    }

    #[inline]
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange_weak(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

/// The next position of a closed sequence.
pub(crate) const CLOSED: u64 = u64::MAX;

/// The end of a window without positions.
const NO_WINDOW: u64 = 0;

#[cfg(test)]
mod tests;
