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
        may_keep: bool,
        has_local_waiter: bool,
    ) -> HandoverDecision {
        let is_within = self.others.is_none_or(|since| {
            // The first turn was granted by the ensemble and is no handover.
            let handovers = self.turns - since.turns.max(1).min(self.turns);
            handovers < limits.handovers && time.saturating_sub(since.time) < limits.time
        });
        if may_keep && has_local_waiter && (is_within || self.turns == 0) {
            HandoverDecision::HandOver
        } else {
            HandoverDecision::GiveBack
        }
    }
}

#[cfg(test)]
mod tests;
