//! Counters of a session.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a session at one time; returned by [`Session::counters`](crate::Session::counters).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The number of calls of operations.
    pub calls: u64,
    /// The number of requests that were retried within a call.
    pub retries: u64,
    /// How often the connection broke.
    pub connection_losses: u64,
    /// The number of watches that were set.
    pub watches: u64,
    /// The number of deletions in the background that are not completed.
    pub unsettled: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) calls: Counter,
    pub(crate) retries: Counter,
    pub(crate) watches: Counter,
}

impl Counters {
    pub(crate) fn call_began(&self) {
        self.calls.add();
    }

    pub(crate) fn request_repeated(&self) {
        self.retries.add();
        #[cfg(feature = "metrics")]
        crate::metrics::request_repeated();
    }

    pub(crate) fn watch_set(&self) {
        self.watches.add();
        #[cfg(feature = "metrics")]
        crate::metrics::watch_set();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
