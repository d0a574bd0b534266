//! The leader's clock, as far as answers have told.

use std::time::Duration;

/// What is known of the time that the leader stamps on nodes.
///
/// Moments of this process are durations since some moment of its own monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeaderClock {
    /// When an answer was here, and the time that stood in it.
    told: Option<(Duration, u64)>,
}

impl LeaderClock {
    /// Notes the milliseconds since 1970 of an answer that was received at `received`.
    pub(crate) fn tell(&mut self, received: Duration, millis: u64) {
        // Another leader may have another clock: the newest answer counts.
        if self.told.is_none_or(|(at, _)| at <= received) {
            self.told = Some((received, millis));
        }
    }

    /// The least that the leader's clock shows at `at`: the answer was on its way before it was received.
    ///
    /// So nothing is taken before it is due.
    pub(crate) fn at_least(&self, at: Duration) -> Option<u64> {
        let (received, millis) = self.told?;
        let since = at.saturating_sub(received).as_millis();
        Some(millis.saturating_add(u64::try_from(since).unwrap_or(u64::MAX)))
    }

    /// How old the newest answer is.
    pub(crate) fn age(&self, at: Duration) -> Option<Duration> {
        self.told.map(|(received, _)| at.saturating_sub(received))
    }
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
        clock.tell(ms(10), 1000);
        assert_eq!(clock.at_least(ms(10)), Some(1000));
        assert_eq!(clock.at_least(ms(35)), Some(1025));
        // Another leader whose clock is behind.
        clock.tell(ms(40), 500);
        assert_eq!(clock.at_least(ms(41)), Some(501));
        // An answer that was overtaken.
        clock.tell(ms(39), 9000);
        assert_eq!(clock.at_least(ms(41)), Some(501));
        assert_eq!(clock.age(ms(45)), Some(ms(5)));
    }

    #[test]
    fn a_moment_before_the_answer_is_the_answer() {
        let mut clock = LeaderClock::default();
        clock.tell(ms(10), u64::MAX - 1);
        assert_eq!(clock.at_least(ms(1)), Some(u64::MAX - 1));
        assert_eq!(clock.at_least(ms(100)), Some(u64::MAX));
    }
}
