//! Decides whether a released lock is handed over to another task of this process or goes back to the ensemble.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// How long tasks of one process may hand a lock over among themselves while other contenders may wait for it.
///
/// The first limit that is reached ends the handovers; the task that holds the lock then is the last one.
/// The limits do not apply while there is no other contender in the queue.
///
/// # Defaults
///
/// - [`handovers`](Self::with_handovers): 1,000
/// - [`time`](Self::with_time): 100 ms
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CohortLimits {
    handovers: u64,
    time: Duration,
}

impl CohortLimits {
    /// Sets the maximum number of handovers while others may wait; zero for none.
    #[must_use]
    pub const fn with_handovers(mut self, handovers: u64) -> Self {
        self.handovers = handovers;
        self
    }

    /// Sets how long handovers continue while others may wait; zero for none.
    ///
    /// A task that holds the lock is not interrupted: it may hold the lock for longer.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Returns the maximum number of handovers while others may wait.
    pub const fn handovers(&self) -> u64 {
        self.handovers
    }

    /// Returns how long handovers continue while others may wait.
    pub const fn time(&self) -> Duration {
        self.time
    }
}

impl Default for CohortLimits {
    fn default() -> Self {
        Self {
            handovers: 1000,
            time: Duration::from_millis(100),
        }
    }
}

/// The history of a grant by the ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandoverLimit {
    /// How many tasks have held the lock by this grant.
    turns: u64,
    /// Since when others may be waiting; `None` if there is no other contender in the queue.
    others: Option<OthersSince>,
}

/// A moment in the history of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OthersSince {
    time: Duration,
    turns: u64,
}

/// What happens to a lock that a task releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandoverDecision {
    /// It is handed over to the first waiting task of this process.
    HandOver,
    /// It goes back to the ensemble.
    GiveBack,
}

impl HandoverLimit {
    /// Starts with a lock just granted. Others may have waited for it for any time.
    pub(super) const fn new() -> Self {
        Self {
            turns: 0,
            others: Some(OthersSince {
                time: Duration::ZERO,
                turns: 0,
            }),
        }
    }

    /// Counts a task that gets the lock; returns the number of tasks before it.
    pub(super) const fn count_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns - 1
    }

    /// Records that there is no other contender in the queue.
    pub(super) const fn clear_others(&mut self) {
        self.others = None;
    }

    /// Records that there may be other contenders, at this time since the grant.
    pub(super) fn note_others(&mut self, time: Duration) {
        let turns = self.turns;
        self.others.get_or_insert(OthersSince { time, turns });
    }

    /// Decides what happens to the lock when a task releases it, at this time since the grant.
    pub(super) fn decide(
        &self,
        time: Duration,
        limits: CohortLimits,
        is_valid: bool,
        has_local_waiter: bool,
    ) -> HandoverDecision {
        let is_within = self.others.is_none_or(|since| {
            // The first turn was granted by the ensemble and is no handover.
            let handovers = self.turns - since.turns.max(1).min(self.turns);
            handovers < limits.handovers && time.saturating_sub(since.time) < limits.time
        });
        if is_valid && has_local_waiter && (is_within || self.turns == 0) {
            HandoverDecision::HandOver
        } else {
            HandoverDecision::GiveBack
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CohortLimits = CohortLimits {
        handovers: 3,
        time: Duration::from_millis(10),
    };

    fn turns(count: u64) -> HandoverLimit {
        let mut limit = HandoverLimit::new();
        for turn in 0..count {
            assert_eq!(limit.count_turn(), turn);
        }
        limit
    }

    fn next(limit: &HandoverLimit, millis: u64) -> HandoverDecision {
        limit.decide(Duration::from_millis(millis), LIMITS, true, true)
    }

    // covers: L1
    #[test]
    fn while_others_may_wait_the_first_limit_applies() {
        for count in 1..=9 {
            for millis in 0..20 {
                let expected = if count <= 3 && millis < 10 {
                    HandoverDecision::HandOver
                } else {
                    HandoverDecision::GiveBack
                };
                assert_eq!(
                    next(&turns(count), millis),
                    expected,
                    "{count}, {millis} ms"
                );
            }
        }
    }

    #[test]
    fn limits_do_not_apply_without_other_contenders() {
        let mut limit = turns(1000);
        assert_eq!(next(&limit, 500), HandoverDecision::GiveBack);
        limit.clear_others();
        assert_eq!(next(&limit, 500), HandoverDecision::HandOver);
        // Counted from the first other contender, not from each one.
        limit.note_others(Duration::from_millis(500));
        for turn in 0..3 {
            assert_eq!(next(&limit, 509), HandoverDecision::HandOver, "{turn}");
            limit.count_turn();
            limit.note_others(Duration::from_millis(509));
        }
        assert_eq!(next(&limit, 509), HandoverDecision::GiveBack);
        limit = turns(7);
        limit.clear_others();
        limit.note_others(Duration::from_millis(500));
        assert_eq!(next(&limit, 510), HandoverDecision::GiveBack);
    }

    #[test]
    fn without_a_lease_or_a_waiter_the_lock_is_released() {
        for (is_valid, has_local_waiter) in [(false, true), (true, false), (false, false)] {
            let mut limit = turns(1);
            limit.clear_others();
            let next = limit.decide(Duration::ZERO, LIMITS, is_valid, has_local_waiter);
            assert_eq!(next, HandoverDecision::GiveBack);
        }
    }

    #[test]
    fn limits_of_zero_leave_the_turn_that_the_ensemble_granted() {
        let none = LIMITS.with_handovers(0);
        let at_once = LIMITS.with_time(Duration::ZERO);
        for limits in [none, at_once] {
            for (count, expected) in [
                (0, HandoverDecision::HandOver),
                (1, HandoverDecision::GiveBack),
            ] {
                let next = turns(count).decide(Duration::ZERO, limits, true, true);
                assert_eq!(next, expected);
            }
        }
    }
}
