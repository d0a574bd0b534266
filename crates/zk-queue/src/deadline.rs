//! One deadline over the requests of a call.

use std::time::Duration;

use tokio::time::Instant;

/// The moment by which a call ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    /// So long from now; what the clock cannot count is as good as never.
    pub(crate) fn after(allowed: Duration) -> Self {
        let now = Instant::now();
        Self(now.checked_add(allowed).unwrap_or_else(|| now + FAR))
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

    /// The answer of `future`, or `None` when the deadline comes first.
    pub(crate) async fn bound<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.0, future).await.ok()
    }

    /// Lets time pass before another attempt, after so many; not beyond the deadline.
    pub(crate) async fn pause(self, attempts: u32) {
        let pause = FIRST
            .saturating_mul(1 << attempts.min(6))
            .min(self.remaining());
        drop(tokio::time::timeout(pause, std::future::pending::<()>()).await);
    }
}

const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const FIRST: Duration = Duration::from_millis(10);
