//! The time since 1970 on a clock that does not jump, and pauses until a time on it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Begins with the time of this machine and goes on evenly, so that rates are right when that is set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    began: Instant,
    began_at: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let began_at = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            began: Instant::now(),
            began_at: milliseconds(began_at.unwrap_or_default()),
        }
    }

    /// In milliseconds since 1970.
    pub(crate) fn now(self) -> u64 {
        self.began_at + milliseconds(self.began.elapsed())
    }

    /// Pauses until a time on this clock.
    ///
    /// Cancel safe.
    #[expect(
        clippy::disallowed_methods,
        reason = "it keeps requests within their budget"
    )]
    pub(crate) async fn until(self, at: u64) {
        let since = Duration::from_millis(at.saturating_sub(self.began_at));
        tokio::time::sleep_until((self.began + since).into()).await;
    }
}

pub(crate) fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
