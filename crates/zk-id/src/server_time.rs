//! Computes how far a clock is ahead of the servers' clock, from the timestamp that the leader gave one of our writes.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A reading of the leader's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTime {
    /// The timestamp of the write.
    timestamp: SystemTime,
    /// An instant before the write was sent.
    sent_at: Instant,
}

impl ServerTime {
    pub(crate) const fn new(timestamp: SystemTime, sent_at: Instant) -> Self {
        Self { timestamp, sent_at }
    }

    /// Returns the latest time that the leader's clock may show at the instant `at`.
    pub(crate) fn latest(&self, at: Instant) -> SystemTime {
        self.timestamp + at.saturating_duration_since(self.sent_at)
    }

    /// Returns the least by which `clock`, read at the instant `at`, is ahead of the leader's clock.
    ///
    /// A slow reply, or a pause of the process, makes the result smaller, never larger.
    pub(crate) fn ahead(&self, clock: SystemTime, at: Instant) -> Duration {
        let ahead = clock.duration_since(self.latest(at));
        ahead.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_since_the_reading_does_not_count_as_ahead() {
        let second = Duration::from_secs(1);
        let read = SystemTime::UNIX_EPOCH + 100 * second;
        let sent_at = Instant::now();
        let server = ServerTime::new(read, sent_at);
        assert_eq!(server.ahead(read - second, sent_at), Duration::ZERO);
        assert_eq!(server.ahead(read + 3 * second, sent_at), 3 * second);
        assert_eq!(
            server.ahead(read + 3 * second, sent_at + 2 * second),
            second
        );
        assert_eq!(
            server.ahead(read + second, sent_at + 2 * second),
            Duration::ZERO
        );
    }
}
