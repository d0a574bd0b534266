//! The leader's clock, as far as answers have told.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// What is known of the time that the leader stamps on nodes.
///
/// Moments of this process are durations since some moment of its own monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeaderClock {
    told: Option<Told>,
}

/// An answer that told the leader's time.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// When its request was sent: the leader stamped it after that.
    sent: Duration,
    /// When it was received: the leader stamped it before that.
    received: Duration,
    /// The stamp, in whole milliseconds since 1970.
    millis: u64,
}

impl LeaderClock {
    /// Notes the milliseconds since 1970 of an answer that was received at `received`.
    pub(crate) fn tell(&mut self, sent: Duration, received: Duration, millis: u64) {
        // Another leader may have another clock: the newest answer counts.
        if self.told.is_none_or(|told| told.received <= received) {
            self.told = Some(Told {
                sent,
                received,
                millis,
            });
        }
    }

    /// The least that the leader's clock shows at `at`: the answer was on its way before it was received.
    ///
    /// So nothing is taken before it is due.
    pub(crate) fn at_least(&self, at: Duration) -> Option<u64> {
        let told = self.told?;
        let since = at.saturating_sub(told.received).as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        Some(told.millis.saturating_add(since))
    }

    /// The most that the leader's clock shows at `at`: the request was on its way, and the leader busy, before it stamped
    /// it.
    ///
    /// So nothing is due before its delay is over.
    pub(crate) fn at_most(&self, at: Duration) -> Option<u64> {
        let told = self.told?;
        let since = whole_millis(at.saturating_sub(told.sent));
        // The stamp is rounded down.
        Some(told.millis.saturating_add(since).saturating_add(1))
    }

    /// How much the two may differ.
    pub(crate) fn uncertainty(&self) -> Duration {
        let uncertainty = self
            .told
            .map(|told| told.received.saturating_sub(told.sent));
        uncertainty.unwrap_or(Duration::MAX)
    }

    /// How old the newest answer is.
    pub(crate) fn age(&self, at: Duration) -> Option<Duration> {
        self.told.map(|told| at.saturating_sub(told.received))
    }
}

/// Milliseconds, rounded up.
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

    // covers: Q4
    #[test]
    fn the_time_goes_on_from_the_newest_answer_whatever_it_says() {
        let mut clock = LeaderClock::default();
        assert_eq!(clock.at_least(ms(5)), None);
        clock.tell(ms(10), ms(10), 1000);
        assert_eq!(clock.at_least(ms(10)), Some(1000));
        assert_eq!(clock.at_least(ms(35)), Some(1025));
        // Another leader whose clock is behind.
        clock.tell(ms(40), ms(40), 500);
        assert_eq!(clock.at_least(ms(41)), Some(501));
        // An answer that was overtaken.
        clock.tell(ms(39), ms(39), 9000);
        assert_eq!(clock.at_least(ms(41)), Some(501));
        assert_eq!(clock.age(ms(45)), Some(ms(5)));
    }

    #[test]
    fn a_moment_before_the_answer_is_the_answer() {
        let mut clock = LeaderClock::default();
        clock.tell(ms(10), ms(10), u64::MAX - 1);
        assert_eq!(clock.at_least(ms(1)), Some(u64::MAX - 1));
        assert_eq!(clock.at_least(ms(100)), Some(u64::MAX));
        assert_eq!(clock.at_most(ms(100)), Some(u64::MAX));
    }

    // covers: Q4
    #[test]
    fn the_leaders_time_is_between_the_two_wherever_it_stamped() {
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
                clock.tell(sent, received, leader(stamped) / 1000);
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
