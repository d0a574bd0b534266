//! The events of a proxy, in order.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;

use super::event::Event;
use super::event::What;
use super::matching::Match;

/// The newest events.
#[derive(Debug)]
pub(super) struct Journal {
    events: VecDeque<Event>,
    capacity: usize,
    forgotten: u64,
}

impl Journal {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            capacity,
            forgotten: 0,
        }
    }

    pub(super) fn add(&mut self, event: Event) {
        if self.events.len() == self.capacity {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(event);
    }

    pub(super) fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.events.iter()
    }

    /// The events that tell of the arrival of a frame that matches.
    pub(super) fn arrivals<'a>(
        &'a self,
        matching: &'a Match,
    ) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.events
            .iter()
            .filter(|event| event.is_arrival() && matches(event, matching))
    }

    /// The events that tell that a request was written to a server, or a reply to a client.
    pub(super) fn departures<'a>(
        &'a self,
        matching: &'a Match,
    ) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.events.iter().filter(|event| {
            matches!(event.what, What::Forwarded(_) | What::Delivered { .. })
                && matches(event, matching)
        })
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// The last few events, for an error.
    pub(super) fn tail(&self) -> String {
        let from = self.events.len().saturating_sub(TAIL);
        let lines: Vec<_> = self.events.range(from..).map(Event::to_string).collect();
        lines.join("\n  ")
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.forgotten = 0;
    }
}

fn matches(event: &Event, matching: &Match) -> bool {
    event.seen().is_some_and(|seen| matching.fits(&seen))
}

const TAIL: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::wire::Request;

    fn event(what: What) -> Event {
        Event {
            at: Duration::ZERO,
            link: 1,
            server: Some(1),
            session: Some(7),
            what,
        }
    }

    #[test]
    fn arrivals_and_departures_are_told_apart() {
        let request = Arc::new(Request::decode(&[0, 0, 0, 1, 0, 0, 0, 11]).unwrap());
        let mut journal = Journal::new(10);
        journal.add(event(What::Accepted { asked: 1 }));
        journal.add(event(What::Requested(Arc::clone(&request))));
        journal.add(event(What::Forwarded(Arc::clone(&request))));
        let code = 0;
        journal.add(event(What::Replied {
            request: Arc::clone(&request),
            code,
            zxid: 1,
        }));
        let ping = Match::ping();
        assert_eq!(journal.arrivals(&ping).count(), 1);
        assert_eq!(journal.departures(&ping).count(), 1);
        let answer = ping.reply();
        assert_eq!(journal.arrivals(&answer).count(), 1);
        assert_eq!(journal.departures(&answer).count(), 0);
        journal.add(event(What::Delivered { request, code }));
        assert_eq!(journal.departures(&answer).count(), 1);
        assert_eq!(journal.arrivals(&answer).count(), 1);
    }

    #[test]
    fn the_oldest_are_forgotten_and_counted() {
        let mut journal = Journal::new(2);
        for asked in 1..=3 {
            journal.add(event(What::Accepted { asked }));
        }
        assert_eq!((journal.events().count(), journal.forgotten()), (2, 1));
        assert!(journal.tail().contains("server 2") && journal.tail().contains("server 3"));
        journal.clear();
        assert_eq!((journal.events().count(), journal.forgotten()), (0, 0));
    }
}
