//! How far a clock is ahead of the servers', judged from a timestamp that the leader put on a write of ours.

use std::time::Duration;
use std::time::SystemTime;

use tokio::time::Instant;

/// A reading of the leader's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTime {
    /// The timestamp of the write.
    read: SystemTime,
    /// An instant before the write was sent.
    asked: Instant,
}

impl ServerTime {
    pub(crate) const fn new(read: SystemTime, asked: Instant) -> Self {
        Self { read, asked }
    }

    /// Returns the latest time that the leader's clock may show at the instant `at`.
    pub(crate) fn latest(&self, at: Instant) -> SystemTime {
        self.read + at.saturating_duration_since(self.asked)
    }

    /// Returns by how much `clock`, read at the instant `at`, is ahead of the leader's clock at least.
    ///
    /// A slow answer, or a process that was stopped in between, makes it less, not more.
    pub(crate) fn ahead(&self, clock: SystemTime, at: Instant) -> Duration {
        let ahead = clock.duration_since(self.latest(at));
        ahead.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: I3
    #[test]
    fn time_since_the_reading_does_not_count_as_ahead() {
        let second = Duration::from_secs(1);
        let read = SystemTime::UNIX_EPOCH + 100 * second;
        let asked = Instant::now();
        let server = ServerTime::new(read, asked);
        assert_eq!(server.ahead(read - second, asked), Duration::ZERO);
        assert_eq!(server.ahead(read + 3 * second, asked), 3 * second);
        assert_eq!(server.ahead(read + 3 * second, asked + 2 * second), second);
        assert_eq!(
            server.ahead(read + second, asked + 2 * second),
            Duration::ZERO
        );
    }
}
