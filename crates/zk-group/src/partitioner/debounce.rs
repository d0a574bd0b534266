//! When a change of the members or items is acted on.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// Puts changes together that follow each other. Times count from any beginning.
#[derive(Debug)]
pub(super) struct Debounce {
    pause: Duration,
    /// The first and the last change that are not acted on yet.
    changes: Option<(Duration, Duration)>,
}

impl Debounce {
    pub(super) const fn new(pause: Duration) -> Self {
        Self {
            pause,
            changes: None,
        }
    }

    /// Records a change.
    pub(super) fn changed(&mut self, now: Duration) {
        let first = self.changes.map_or(now, |(first, _)| first);
        self.changes = Some((first, now));
    }

    /// Returns when the changes are acted on: when the last one is as old as the pause, or the first one is
    /// [`LONGEST`] times as old; `None` without a change.
    pub(super) fn due(&self) -> Option<Duration> {
        let (first, last) = self.changes?;
        let longest = first.saturating_add(self.pause.saturating_mul(LONGEST));
        Some(last.saturating_add(self.pause).min(longest))
    }

    /// Records that changes are reported again, which they were not from `since` on. That time does not count, and what
    /// has changed settles anew.
    pub(super) fn resumed(&mut self, since: Duration, now: Duration) {
        if let Some((first, last)) = &mut self.changes {
            *first = first.saturating_add(now.saturating_sub(since)).min(now);
            *last = now;
        }
    }

    /// Records that the changes were acted on.
    pub(super) const fn done(&mut self) {
        self.changes = None;
    }
}

/// How many pauses a group that never settles is waited for.
const LONGEST: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_put_together_but_not_for_ever() {
        let after = Duration::from_secs;
        let mut debounce = Debounce::new(Duration::from_secs(2));
        assert_eq!(debounce.due(), None);
        debounce.changed(after(0));
        assert_eq!(debounce.due(), Some(after(2)));
        for seconds in 1..=30 {
            debounce.changed(after(seconds));
            assert_eq!(debounce.due(), Some(after((seconds + 2).min(20))));
        }
        debounce.done();
        assert_eq!(debounce.due(), None);
        debounce.changed(after(40));
        assert_eq!(debounce.due(), Some(after(42)));
        let mut never = Debounce::new(Duration::MAX);
        never.changed(after(1));
        assert_eq!(never.due(), Some(Duration::MAX));
    }

    #[test]
    fn changes_settle_anew_after_a_time_without_reports() {
        let after = Duration::from_secs;
        let mut debounce = Debounce::new(Duration::from_secs(2));
        debounce.resumed(after(0), after(10));
        assert_eq!(debounce.due(), None);
        debounce.changed(after(10));
        debounce.resumed(after(11), after(111));
        assert_eq!(debounce.due(), Some(after(113)));
        // Each second of reports is followed by one without.
        for second in 2..=20 {
            let since = after(108 + 2 * second);
            let now = since + after(1);
            debounce.resumed(since, now);
            assert_eq!(debounce.due(), Some(now + after((20 - second).min(2))));
        }
        // A change without reports, of the items.
        debounce.done();
        debounce.changed(after(205));
        debounce.resumed(after(200), after(300));
        debounce.changed(after(301));
        assert_eq!(debounce.due(), Some(after(303)));
    }
}
