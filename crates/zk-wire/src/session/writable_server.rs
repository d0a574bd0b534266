//! The search for a writable server while the session is on a read-only one.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// When to ask the servers next whether one of them is writable.
///
/// The pauses grow until there is a connection to a writable server, also over other read-only ones: a name that stands
/// for several servers may reply for a writable one and lead to a read-only one, again and again.
#[derive(Debug)]
pub(super) struct WritableServerSearch {
    next: Duration,
    pause: Duration,
}

impl WritableServerSearch {
    /// A search that begins with the shortest pause.
    pub(super) const fn new() -> Self {
        Self {
            next: Duration::ZERO,
            pause: SHORTEST_PAUSE,
        }
    }

    /// Records a connection to a read-only server: the next pause begins.
    pub(super) fn begin(&mut self, now: Duration) {
        self.next = now + self.pause;
    }

    /// Returns when the servers are asked next.
    pub(super) const fn next(&self) -> Duration {
        self.next
    }

    /// Returns whether to ask them now. The next time is then twice as far away, up to [`LONGEST_PAUSE`].
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.next = now + self.pause;
        true
    }
}

// The Java client has the same limits.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_double_up_to_a_minute() {
        let mut now = Duration::from_hours(1);
        let mut search = WritableServerSearch::new();
        search.begin(now);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            let next = search.next();
            assert!(!search.is_due(next.saturating_sub(Duration::from_millis(1))));
            pauses.push(next.saturating_sub(now).as_millis());
            now = next;
            assert!(search.is_due(now));
        }
        let expected = [
            100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 51_200, 60_000, 60_000,
        ];
        assert_eq!(pauses, expected);
    }

    #[test]
    fn the_pauses_grow_over_other_read_only_servers() {
        let mut search = WritableServerSearch::new();
        for pause in [100, 200, 400] {
            let now = Duration::from_secs(pause);
            search.begin(now);
            assert_eq!(search.next(), now + Duration::from_millis(pause));
            assert!(search.is_due(search.next()));
        }
    }
}
