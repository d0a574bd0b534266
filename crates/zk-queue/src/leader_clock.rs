//! Estimates the leader's clock from the timestamps in replies.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// Bounds on the time that the leader stamps on nodes.
///
/// Moments of this process are durations since a fixed moment of its own monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeaderClock {
    sample: Option<TimeSample>,
}

/// A reply with a timestamp of the leader.
#[derive(Debug, Clone, Copy)]
struct TimeSample {
    /// When the request was sent; the leader stamped it later.
    sent: Duration,
    /// When the reply was received; the leader stamped it earlier.
    received: Duration,
    /// The timestamp, in whole milliseconds since 1970.
    millis: u64,
}

impl LeaderClock {
    /// Records the timestamp of a reply, in milliseconds since 1970.
    pub(crate) fn record(&mut self, sent: Duration, received: Duration, millis: u64) {
        // A new leader may have another clock, so the newest reply counts.
        if self.sample.is_none_or(|sample| sample.received <= received) {
            self.sample = Some(TimeSample {
                sent,
                received,
                millis,
            });
        }
    }

    /// Returns the earliest time that the leader's clock can show at `at`.
    ///
    /// It assumes that the reply took no time, so that no item is taken before it is due.
    pub(crate) fn at_least(&self, at: Duration) -> Option<u64> {
        let sample = self.sample?;
        let since = at.saturating_sub(sample.received).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        Some(sample.millis.saturating_add(since))
    }

    /// Returns the latest time that the leader's clock can show at `at`.
    ///
    /// It assumes that the leader stamped the request as soon as it was sent, so that no delay is too short.
    pub(crate) fn at_most(&self, at: Duration) -> Option<u64> {
        let sample = self.sample?;
        let since = whole_millis(at.saturating_sub(sample.sent));
        // The stamp is rounded down.
        Some(sample.millis.saturating_add(since).saturating_add(1))
    }

    /// Returns the difference between the two bounds.
    pub(crate) fn uncertainty(&self) -> Duration {
        let uncertainty = self
            .sample
            .map(|sample| sample.received.saturating_sub(sample.sent));
        uncertainty.unwrap_or(Duration::MAX)
    }

    /// Returns the age of the newest reply.
    pub(crate) fn age(&self, at: Duration) -> Option<Duration> {
        self.sample.map(|sample| at.saturating_sub(sample.received))
    }
}

/// Returns a duration in milliseconds, rounded up.
pub(crate) fn whole_millis(time: Duration) -> u64 {
    let millis = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(millis).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn time_advances_from_the_newest_reply() {
        let mut clock = LeaderClock::default();
        assert_eq!(clock.at_least(ms(5)), None);
        clock.record(ms(10), ms(10), 1000);
        assert_eq!(clock.at_least(ms(10)), Some(1000));
        assert_eq!(clock.at_least(ms(35)), Some(1025));
        // A new leader whose clock is behind.
        clock.record(ms(40), ms(40), 500);
        assert_eq!(clock.at_least(ms(41)), Some(501));
        // A reply that was overtaken.
        clock.record(ms(39), ms(39), 9000);
        assert_eq!(clock.at_least(ms(41)), Some(501));
        assert_eq!(clock.age(ms(45)), Some(ms(5)));
    }

    #[test]
    fn a_moment_before_the_reply_reads_as_the_reply() {
        let mut clock = LeaderClock::default();
        clock.record(ms(10), ms(10), u64::MAX - 1);
        assert_eq!(clock.at_least(ms(1)), Some(u64::MAX - 1));
        assert_eq!(clock.at_least(ms(100)), Some(u64::MAX));
        assert_eq!(clock.at_most(ms(100)), Some(u64::MAX));
    }

    #[test]
    fn the_leaders_time_is_between_the_two_bounds() {
        let micros = Duration::from_micros;
        let (sent, received) = (micros(10_300), micros(17_900));
        for stamped in (10_300..=17_900).step_by(100) {
            for start in [1_000_000_u64, 1_000_499, 1_000_999] {
                let leader = |at: u64| start + at;
                let mut clock = LeaderClock::default();
                assert_eq!(
                    (clock.at_most(sent), clock.uncertainty()),
                    (None, Duration::MAX)
                );
                clock.record(sent, received, leader(stamped) / 1000);
                assert_eq!(clock.uncertainty(), micros(7_600));
                for at in (17_900..30_000).step_by(700) {
                    let now = leader(at);
                    assert!(clock.at_least(micros(at)).unwrap() * 1000 <= now);
                    assert!(clock.at_most(micros(at)).unwrap() * 1000 >= now);
                }
            }
        }
    }
}
