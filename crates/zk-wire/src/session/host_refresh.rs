//! When to ask for the hosts of the ensemble again.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// When to ask for the hosts again.
#[derive(Debug)]
pub(super) struct HostRefresh {
    interval: Option<Duration>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// There is an answer. The question is put again at this moment, if any.
    Answered {
        next: Option<Duration>,
    },
    Asked,
}

impl HostRefresh {
    pub(super) fn new(interval: Option<Duration>, now: Duration) -> Self {
        let state = State::Answered { next: Some(now) };
        Self { interval, state }
    }

    /// Returns when to ask next; `None` while there is no reason to.
    pub(super) const fn next(&self) -> Option<Duration> {
        match self.state {
            State::Answered { next } => next,
            State::Asked => None,
        }
    }

    /// Returns whether to ask now.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let is_due = self.next().is_some_and(|next| next <= now);
        if is_due {
            self.state = State::Asked;
        }
        is_due
    }

    /// Records that no host of the list can be reached.
    pub(super) fn hosts_failed(&mut self, now: Duration) {
        if let State::Answered { next } = &mut self.state {
            *next = Some(now);
        }
    }

    /// Records an answer. Without any host so far, the question is put again soon.
    pub(super) fn answered(&mut self, has_hosts: bool, now: Duration) {
        let pause = if has_hosts {
            self.interval
        } else {
            Some(PAUSE)
        };
        let next = pause.map(|pause| now + pause);
        self.state = State::Answered { next };
    }
}

const PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn hosts_are_asked_for_at_first_after_failures_and_at_the_interval() {
        let mut refresh = HostRefresh::new(Some(SECOND * 60), SECOND);
        assert!(refresh.is_due(SECOND));
        assert!(!refresh.is_due(SECOND), "it is asked already");
        refresh.hosts_failed(SECOND);
        assert_eq!(refresh.next(), None, "the answer will be new enough");
        refresh.answered(true, SECOND * 2);
        assert!(!refresh.is_due(SECOND * 61));
        assert!(refresh.is_due(SECOND * 62));
        refresh.answered(true, SECOND * 62);
        refresh.hosts_failed(SECOND * 63);
        assert!(refresh.is_due(SECOND * 63));
    }

    #[test]
    fn without_an_interval_only_failures_are_a_reason() {
        let mut refresh = HostRefresh::new(None, SECOND);
        assert!(refresh.is_due(SECOND));
        refresh.answered(true, SECOND);
        assert_eq!(refresh.next(), None);
        refresh.hosts_failed(SECOND * 9);
        assert!(refresh.is_due(SECOND * 9));
    }

    #[test]
    fn the_first_hosts_are_asked_for_until_there_are_some() {
        let mut refresh = HostRefresh::new(None, SECOND);
        assert!(refresh.is_due(SECOND));
        refresh.answered(false, SECOND);
        assert_eq!(refresh.next(), Some(SECOND + PAUSE));
    }
}
