//! Whether a lock goes to another task of this process or back to the ensemble: a pure decision.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// How long tasks of one process may hand a lock over among themselves while others may wait for it.
///
/// Whichever bound is reached first ends it, with the hand-over that is due then.
/// While nobody else is in the queue neither counts.
///
/// # Defaults
///
/// - [`hand_overs`](Self::with_hand_overs): 1,000
/// - [`time`](Self::with_time): 100 ms
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CohortLimits {
    hand_overs: u64,
    time: Duration,
}

impl CohortLimits {
    /// Sets how many hand-overs there are at most while others may wait; zero for none.
    #[must_use]
    pub const fn with_hand_overs(mut self, hand_overs: u64) -> Self {
        self.hand_overs = hand_overs;
        self
    }

    /// Sets for how long there are hand-overs while others may wait; zero for none.
    ///
    /// A task that holds the lock is not interrupted: it may hold it for longer.
    #[must_use]
    pub const fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// Returns how many hand-overs there are at most while others may wait.
    pub const fn hand_overs(&self) -> u64 {
        self.hand_overs
    }

    /// Returns for how long there are hand-overs while others may wait.
    pub const fn time(&self) -> Duration {
        self.time
    }
}

impl Default for CohortLimits {
    fn default() -> Self {
        Self {
            hand_overs: 1000,
            time: Duration::from_millis(100),
        }
    }
}

/// What has become of a place in the queue since the lock was granted to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    /// How many tasks have got the lock by this place.
    turns: u64,
    /// Since when others may be waiting; `None` when it is known that nobody else is in the queue.
    others: Option<Since>,
}

/// A moment in the life of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Since {
    time: Duration,
    turns: u64,
}

/// What becomes of a lock that a task lets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The first of the tasks that wait in this process gets it.
    HandOver,
    /// It goes back to the ensemble.
    GiveBack,
}

impl Tally {
    /// That of a lock just granted: others may have waited for long, as far as is known.
    pub(super) const fn new() -> Self {
        Self {
            turns: 0,
            others: Some(Since {
                time: Duration::ZERO,
                turns: 0,
            }),
        }
    }

    /// A task gets the lock: the answer counts those before it.
    pub(super) const fn turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns - 1
    }

    /// Nobody else is in the queue.
    pub(super) const fn nobody_else(&mut self) {
        self.others = None;
    }

    /// Somebody else may be in the queue, after so much of the time of this place.
    pub(super) fn somebody_else(&mut self, time: Duration) {
        let turns = self.turns;
        self.others.get_or_insert(Since { time, turns });
    }

    /// Decides who is next when a task lets go, after so much of the time of this place.
    pub(super) fn next(
        &self,
        time: Duration,
        limits: CohortLimits,
        is_trusted: bool,
        is_waited_for: bool,
    ) -> Next {
        let is_within = self.others.is_none_or(|since| {
            // The first turn is none: the ensemble granted it.
            let hand_overs = self.turns - since.turns.max(1).min(self.turns);
            hand_overs < limits.hand_overs && time.saturating_sub(since.time) < limits.time
        });
        if is_trusted && is_waited_for && (is_within || self.turns == 0) {
            Next::HandOver
        } else {
            Next::GiveBack
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: CohortLimits = CohortLimits {
        hand_overs: 3,
        time: Duration::from_millis(10),
    };

    fn turns(count: u64) -> Tally {
        let mut tally = Tally::new();
        for turn in 0..count {
            assert_eq!(tally.turn(), turn);
        }
        tally
    }

    fn next(tally: &Tally, millis: u64) -> Next {
        tally.next(Duration::from_millis(millis), LIMITS, true, true)
    }

    // covers: L1
    #[test]
    fn as_long_as_others_may_wait_the_first_bound_counts() {
        for count in 1..=9 {
            for millis in 0..20 {
                let expected = if count <= 3 && millis < 10 {
                    Next::HandOver
                } else {
                    Next::GiveBack
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
    fn while_nobody_else_is_there_nothing_counts() {
        let mut tally = turns(1000);
        assert_eq!(next(&tally, 500), Next::GiveBack);
        tally.nobody_else();
        assert_eq!(next(&tally, 500), Next::HandOver);
        // From the moment on at which somebody comes, and not from each other one.
        tally.somebody_else(Duration::from_millis(500));
        for turn in 0..3 {
            assert_eq!(next(&tally, 509), Next::HandOver, "{turn}");
            tally.turn();
            tally.somebody_else(Duration::from_millis(509));
        }
        assert_eq!(next(&tally, 509), Next::GiveBack);
        tally = turns(7);
        tally.nobody_else();
        tally.somebody_else(Duration::from_millis(500));
        assert_eq!(next(&tally, 510), Next::GiveBack);
    }

    #[test]
    fn without_trust_or_a_waiter_it_goes_back() {
        for (is_trusted, is_waited_for) in [(false, true), (true, false), (false, false)] {
            let mut tally = turns(1);
            tally.nobody_else();
            let next = tally.next(Duration::ZERO, LIMITS, is_trusted, is_waited_for);
            assert_eq!(next, Next::GiveBack);
        }
    }

    #[test]
    fn bounds_of_zero_leave_the_one_turn_that_the_ensemble_granted() {
        let none = LIMITS.with_hand_overs(0);
        let at_once = LIMITS.with_time(Duration::ZERO);
        for limits in [none, at_once] {
            for (count, expected) in [(0, Next::HandOver), (1, Next::GiveBack)] {
                let next = turns(count).next(Duration::ZERO, limits, true, true);
                assert_eq!(next, expected);
            }
        }
    }
}
