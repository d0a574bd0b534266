//! The deadline of a call.

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

/// The instant by which a call ends, and its time limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    from: Instant,
    at: Instant,
    allowed: Duration,
}

impl Deadline {
    /// Creates a deadline `allowed` from now, or in ten years if the clock cannot represent it.
    pub(crate) fn after(allowed: Duration) -> Self {
        let now = Instant::now();
        Self {
            from: now,
            at: now.checked_add(allowed).unwrap_or_else(|| now + FAR),
            allowed,
        }
    }

    /// Returns the instant.
    pub(crate) fn at(self) -> Instant {
        self.at
    }

    /// Returns how long ago it was set.
    pub(crate) fn elapsed(self) -> Duration {
        self.from.elapsed()
    }

    /// Returns the time limit of the call.
    pub(crate) fn allowed(self) -> Duration {
        self.allowed
    }

    pub(crate) fn remaining(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Returns the output of `future`, or `None` if the deadline comes first.
    pub(crate) async fn bound<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.at, pin!(future)).await.ok()
    }

    /// Waits for `pause`. Returns false if the deadline comes first.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where retries pause, and only before a deadline"
    )]
    pub(crate) async fn pause(self, pause: Duration) -> bool {
        self.bound(tokio::time::sleep(pause)).await.is_some()
    }
}

const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
