//! A deadline that several requests of one call share.

use std::time::Duration;

use tokio::time::Instant;

/// The moment by which a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline after `allowed`; a duration that the clock cannot represent means "never".
    pub(crate) fn after(allowed: Duration) -> Self {
        let now = Instant::now();
        Self(now.checked_add(allowed).unwrap_or_else(|| now + FAR))
    }

    /// Returns a deadline that never passes.
    pub(crate) fn never() -> Self {
        Self::after(Duration::MAX)
    }

    pub(crate) const fn at(moment: Instant) -> Self {
        Self(moment)
    }

    pub(crate) fn remaining(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_over(self) -> bool {
        self.remaining().is_zero()
    }

    /// Returns the output of `future`, or `None` if the deadline passes first.
    pub(crate) async fn bound<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.0, future).await.ok()
    }

    /// Backs off before the next attempt: exponentially in `attempts`, and not beyond the deadline.
    pub(crate) async fn pause(self, attempts: u32) {
        let pause = FIRST
            .saturating_mul(1 << attempts.min(6))
            .min(self.remaining());
        drop(tokio::time::timeout(pause, std::future::pending::<()>()).await);
    }
}

const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const FIRST: Duration = Duration::from_millis(10);
