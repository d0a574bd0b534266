//! When to ask for the servers of the ensemble again.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

/// When to ask for the servers again.
#[derive(Debug)]
pub(super) struct HostRefresh {
    interval: Option<Duration>,
    state: State,
    /// The number of the question; an answer to an earlier one is of no use.
    question: u64,
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
        Self {
            interval,
            state,
            question: 0,
        }
    }

    /// Returns when to ask next; `None` while there is no reason to.
    pub(super) const fn next(&self) -> Option<Duration> {
        match self.state {
            State::Answered { next } => next,
            State::Asked => None,
        }
    }

    /// Returns the number of the question if it is to be asked now.
    pub(super) fn poll(&mut self, now: Duration) -> Option<u64> {
        self.next().filter(|next| *next <= now)?;
        self.state = State::Asked;
        self.question += 1;
        Some(self.question)
    }

    /// Asks, unless it is asked already: a connection has ended, or no server of the list can be reached.
    pub(super) fn ask(&mut self, now: Duration) {
        if let State::Answered { next } = &mut self.state {
            *next = Some(now);
        }
    }

    /// Asks, also if it is asked already: there are other hosts.
    pub(super) fn ask_anew(&mut self, now: Duration) {
        self.state = State::Answered { next: Some(now) };
    }

    /// Returns whether an answer is to the last question.
    pub(super) const fn is_asked(&self, question: u64) -> bool {
        matches!(self.state, State::Asked) && self.question == question
    }

    /// Records an answer. Without any server so far, the question is put again soon.
    pub(super) fn answered(&mut self, has_servers: bool, now: Duration) {
        let pause = if has_servers {
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
    fn servers_are_asked_for_at_first_after_failures_and_at_the_interval() {
        let mut refresh = HostRefresh::new(Some(SECOND * 60), SECOND);
        assert_eq!(refresh.poll(SECOND), Some(1));
        assert_eq!(refresh.poll(SECOND), None, "it is asked already");
        refresh.ask(SECOND);
        assert_eq!(refresh.next(), None, "the answer will be new enough");
        refresh.answered(true, SECOND * 2);
        assert_eq!(refresh.poll(SECOND * 61), None);
        assert_eq!(refresh.poll(SECOND * 62), Some(2));
        refresh.answered(true, SECOND * 62);
        refresh.ask(SECOND * 63);
        assert_eq!(refresh.poll(SECOND * 63), Some(3));
    }

    #[test]
    fn without_an_interval_only_failures_are_a_reason() {
        let mut refresh = HostRefresh::new(None, SECOND);
        assert_eq!(refresh.poll(SECOND), Some(1));
        refresh.answered(true, SECOND);
        assert_eq!(refresh.next(), None);
        refresh.ask(SECOND * 9);
        assert_eq!(refresh.poll(SECOND * 9), Some(2));
    }

    #[test]
    fn the_first_servers_are_asked_for_until_there_are_some() {
        let mut refresh = HostRefresh::new(None, SECOND);
        assert_eq!(refresh.poll(SECOND), Some(1));
        refresh.answered(false, SECOND);
        assert_eq!(refresh.next(), Some(SECOND + PAUSE));
    }

    #[test]
    fn an_answer_for_earlier_hosts_is_of_no_use() {
        let mut refresh = HostRefresh::new(None, SECOND);
        assert_eq!(refresh.poll(SECOND), Some(1));
        refresh.ask_anew(SECOND);
        assert_eq!(refresh.poll(SECOND), Some(2));
        assert!(!refresh.is_asked(1) && refresh.is_asked(2));
        refresh.answered(true, SECOND);
        assert!(!refresh.is_asked(2));
    }
}
