//! Stores the newest events of a proxy in order.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;

use super::event::Event;
use super::event::EventKind;
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

    /// Returns the arrivals of frames that match.
    pub(super) fn arrivals<'a>(
        &'a self,
        matching: &'a Match,
    ) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.events
            .iter()
            .filter(|event| event.is_arrival() && matches(event, matching))
    }

    /// Returns the matching requests that were written to a server and replies that were written to a client.
    pub(super) fn departures<'a>(
        &'a self,
        matching: &'a Match,
    ) -> impl DoubleEndedIterator<Item = &'a Event> {
        self.events.iter().filter(|event| {
            matches!(
                event.kind,
                EventKind::Forwarded(_) | EventKind::Delivered { .. }
            ) && matches(event, matching)
        })
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the last few events, for an error.
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
    event.frame_info().is_some_and(|seen| matching.fits(&seen))
}

const TAIL: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::wire::Request;

    fn event(kind: EventKind) -> Event {
        Event {
            at: Duration::ZERO,
            link: 1,
            server: Some(1),
            session: Some(7),
            kind,
        }
    }

    #[test]
    fn arrivals_and_departures_are_distinguished() {
        let request = Arc::new(Request::decode(&[0, 0, 0, 1, 0, 0, 0, 11]).unwrap());
        let mut journal = Journal::new(10);
        journal.add(event(EventKind::Accepted { via: 1 }));
        journal.add(event(EventKind::Requested(Arc::clone(&request))));
        journal.add(event(EventKind::Forwarded(Arc::clone(&request))));
        let code = 0;
        journal.add(event(EventKind::Replied {
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
        journal.add(event(EventKind::Delivered { request, code }));
        assert_eq!(journal.departures(&answer).count(), 1);
        assert_eq!(journal.arrivals(&answer).count(), 1);
    }

    #[test]
    fn the_oldest_are_forgotten_and_counted() {
        let mut journal = Journal::new(2);
        for via in 1..=3 {
            journal.add(event(EventKind::Accepted { via }));
        }
        assert_eq!((journal.events().count(), journal.forgotten()), (2, 1));
        assert!(journal.tail().contains("server 2") && journal.tail().contains("server 3"));
        journal.clear();
        assert_eq!((journal.events().count(), journal.forgotten()), (0, 0));
    }
}
