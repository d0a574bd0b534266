//! Measures how long locks are waited for and held. Without the feature `metrics` it does nothing.

use tokio::time::Instant;

use crate::error::AcquireError;
use crate::guard::LockGuard;
use crate::labels::{LockKind, WaitOutcome};
#[cfg(feature = "metrics")]
use crate::metrics::{hold_ended, wait_ended};

/// A wait that is being measured. Dropping it records the wait.
pub(crate) struct Wait {
    kind: LockKind,
    outcome: WaitOutcome,
    since: Instant,
}

/// The start of a holding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HoldStart {
    kind: LockKind,
    since: Instant,
}

impl Wait {
    pub(crate) fn start(kind: LockKind) -> Self {
        Self {
            kind,
            outcome: WaitOutcome::GivenUp,
            since: Instant::now(),
        }
    }

    /// Records the result of an acquire. If the lock is granted, its holding is measured from now on.
    pub(crate) fn ended<G: LockGuard>(
        mut self,
        acquired: Result<G, AcquireError>,
    ) -> Result<G, AcquireError> {
        self.outcome = match &acquired {
            Ok(guard) => self.granted(guard),
            Err(_) => WaitOutcome::Failed,
        };
        acquired
    }

    /// Records the result of a `try_acquire`. If the lock is granted, its holding is measured from now on.
    pub(crate) fn tried<G: LockGuard>(
        mut self,
        acquired: Result<Option<G>, AcquireError>,
    ) -> Result<Option<G>, AcquireError> {
        self.outcome = match &acquired {
            Ok(Some(guard)) => self.granted(guard),
            Ok(None) => WaitOutcome::Taken,
            Err(_) => WaitOutcome::Failed,
        };
        acquired
    }

    /// Records an outcome that is not the result of an acquire.
    pub(crate) fn ended_as(mut self, outcome: WaitOutcome) {
        self.outcome = outcome;
    }

    fn granted<G: LockGuard>(&self, guard: &G) -> WaitOutcome {
        guard.held().measure(HoldStart::now(self.kind));
        WaitOutcome::Acquired
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        wait_ended(self.kind, self.outcome, self.since);
    }
}

impl HoldStart {
    pub(crate) fn now(kind: LockKind) -> Self {
        Self {
            kind,
            since: Instant::now(),
        }
    }

    pub(crate) const fn kind(&self) -> LockKind {
        self.kind
    }

    /// Records the end of the holding.
    pub(crate) fn ended(self, is_lost: bool) {
        hold_ended(self.kind, is_lost, self.since);
    }
}

#[cfg(not(feature = "metrics"))]
const fn wait_ended(_: LockKind, _: WaitOutcome, _: Instant) {}

#[cfg(not(feature = "metrics"))]
const fn hold_ended(_: LockKind, _: bool, _: Instant) {}
