//! What a session has done so far, in numbers.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// The counters of a session at one moment; made by [`Session::counters`](crate::Session::counters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Calls of operations.
    pub calls: u64,
    /// Requests that were made again within a call.
    pub retries: u64,
    /// Times the connection broke.
    pub connection_losses: u64,
    /// Watches that were set.
    pub watches: u64,
    /// Bytes of the paths that are under watch now; a session can have 120 KiB of them, and subscriptions take a
    /// recursive watch on a parent in the place of many before that.
    pub watched_bytes: usize,
    /// Removals in the background that are not done yet.
    pub unsettled: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: Counter,
    pub(crate) retries: Counter,
    pub(crate) watches: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
