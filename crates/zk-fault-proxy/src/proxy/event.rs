//! The events of a proxy, and the log that keeps the newest ones.
//!
//! Pure: no I/O and no clock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::matching::{Direction, Frame, FrameInfo, Match};
use crate::sockets::Close;
use crate::wire::Request;

/// An entry of the [log](super::Log) of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The time since the start of the proxy.
    pub at: Duration,
    /// The number of the connection, from 1, in the order of acceptance.
    pub connection: u64,
    /// The server of the connection; `None` until the proxy has connected to one.
    pub server: Option<u32>,
    /// The session of the connection; `None` until it is known.
    pub session: Option<i64>,
    /// What happened.
    pub kind: EventKind,
}

/// What happened on a connection of the proxy.
///
/// A request with its reply is four events: requested, forwarded, replied, delivered.
/// A rule or a broken connection interrupts this sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A client connected.
    Accepted {
        /// The server whose proxy address it used.
        via: u32,
    },
    /// The client's connection was reset, because its route refuses connections or the server is down.
    Refused,
    /// A four-letter word arrived; the connection passes unchanged.
    FourLetterWord(String),
    /// A client requested a session.
    Connecting {
        /// Whether it resumes an existing session.
        resumed: bool,
    },
    /// A server granted a session.
    Connected {
        /// The negotiated session timeout.
        timeout: Duration,
        /// Whether it is an existing session.
        resumed: bool,
    },
    /// A server refused to resume a session: it has expired.
    SessionRefused,
    /// A request arrived from the client.
    Requested(Arc<Request>),
    /// A request was written to the server.
    Forwarded(Arc<Request>),
    /// A reply arrived from the server.
    Replied {
        /// The request.
        request: Arc<Request>,
        /// The error code, 0 for success.
        code: i32,
    },
    /// A reply was written to the client.
    Delivered {
        /// The request.
        request: Arc<Request>,
        /// The error code, 0 for success.
        code: i32,
    },
    /// A watch notification arrived from the server.
    Notified {
        /// The node that changed.
        path: Arc<str>,
    },
    /// A rule was applied to a frame.
    RuleApplied {
        /// The description of the rule.
        rule: Arc<str>,
    },
    /// The proxy closed the connection, by a rule or by [`FaultProxy::cut`](super::FaultProxy::cut).
    Cut {
        /// How the client's side was closed.
        close: Close,
        /// The description of the rule, if there was one.
        rule: Option<Arc<str>>,
    },
    /// The connection is over.
    Closed,
    /// Bytes arrived that are no frame, or a frame that cannot be decoded. They pass unchanged.
    NotUnderstood {
        /// Who sent them.
        direction: Direction,
    },
}

impl Event {
    /// Returns the properties that a [`Match`] compares.
    pub(super) fn frame_info(&self) -> Option<FrameInfo<'_>> {
        let (direction, frame, code) = match &self.kind {
            EventKind::Requested(request) | EventKind::Forwarded(request) => {
                (Direction::Request, Frame::Request(request), None)
            }
            EventKind::Replied { request, code } | EventKind::Delivered { request, code } => {
                (Direction::Reply, Frame::Request(request), Some(*code))
            }
            EventKind::Notified { path } => (Direction::Reply, Frame::Notification(path), None),
            EventKind::Connecting { .. } => (Direction::Request, Frame::Handshake, None),
            EventKind::Connected { .. } | EventKind::SessionRefused => {
                (Direction::Reply, Frame::Handshake, None)
            }
            _ => return None,
        };
        Some(FrameInfo {
            direction,
            frame,
            session: self.session,
            server: self.server,
            code,
        })
    }

    /// Returns whether a frame was written, rather than received.
    fn is_departure(&self) -> bool {
        matches!(
            self.kind,
            EventKind::Forwarded(_) | EventKind::Delivered { .. }
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} s, connection {}",
            self.at.as_secs_f64(),
            self.connection
        )?;
        if let Some(server) = self.server {
            write!(f, ", server {server}")?;
        }
        if let Some(session) = self.session {
            write!(f, ", session {session:#x}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { via } => write!(f, "accepted at the address of server {via}"),
            Self::Refused => f.write_str("refused, as no server was reached"),
            Self::FourLetterWord(word) => write!(f, "four-letter word {word}"),
            Self::Connecting { resumed: false } => f.write_str("requests a new session"),
            Self::Connecting { resumed: true } => f.write_str("resumes its session"),
            Self::Connected { timeout, .. } => write!(f, "session granted for {timeout:?}"),
            Self::SessionRefused => f.write_str("session refused"),
            Self::Requested(request) => write!(f, "{request} requested"),
            Self::Forwarded(request) => write!(f, "{request} forwarded"),
            Self::Replied { request, code } => write!(f, "{request} answered with {code}"),
            Self::Delivered { request, .. } => write!(f, "{request}: answer delivered"),
            Self::Notified { path } => write!(f, "watch of {path} fired"),
            Self::RuleApplied { rule } => write!(f, "rule applied: {rule}"),
            Self::Cut { close, rule: None } => write!(f, "cut by {close}"),
            Self::Cut {
                close,
                rule: Some(rule),
            } => write!(f, "cut by {close}, by the rule: {rule}"),
            Self::Closed => f.write_str("closed"),
            Self::NotUnderstood { direction } => match direction {
                Direction::Request => f.write_str("no frame of a client; passed on"),
                Direction::Reply => f.write_str("no frame of a server; passed on"),
            },
        }
    }
}

/// The newest events, in order.
#[derive(Debug)]
pub(super) struct EventLog {
    events: VecDeque<Event>,
    capacity: usize,
}

impl EventLog {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            capacity,
        }
    }

    pub(super) fn add(&mut self, event: Event) {
        if self.events.len() == self.capacity {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Returns how many matching frames have arrived.
    pub(super) fn arrivals(&self, matching: &Match) -> usize {
        self.count(matching, |event| !event.is_departure())
    }

    /// Returns how many matching requests were written to a server, and replies to a client.
    pub(super) fn departures(&self, matching: &Match) -> usize {
        self.count(matching, Event::is_departure)
    }

    fn count(&self, matching: &Match, is_counted: impl Fn(&Event) -> bool) -> usize {
        let fits = |event: &&Event| {
            let frame = event.frame_info();
            is_counted(event) && frame.is_some_and(|frame| matching.fits(&frame))
        };
        self.events.iter().filter(fits).count()
    }

    /// Returns the last few events, for an error.
    pub(super) fn tail(&self) -> String {
        let from = self.events.len().saturating_sub(TAIL);
        let lines: Vec<_> = self.events.range(from..).map(Event::to_string).collect();
        lines.join("\n  ")
    }

    pub(super) fn clear(&mut self) {
        self.events.clear();
    }
}

const TAIL: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: EventKind) -> Event {
        Event {
            at: Duration::ZERO,
            connection: 1,
            server: Some(1),
            session: Some(7),
            kind,
        }
    }

    #[test]
    fn arrivals_and_departures_are_distinguished() {
        let request = Arc::new(Request::decode(&[0, 0, 0, 1, 0, 0, 0, 11]).unwrap());
        let mut log = EventLog::new(10);
        log.add(event(EventKind::Accepted { via: 1 }));
        log.add(event(EventKind::Requested(Arc::clone(&request))));
        log.add(event(EventKind::Forwarded(Arc::clone(&request))));
        let code = 0;
        log.add(event(EventKind::Replied {
            request: Arc::clone(&request),
            code,
        }));
        let ping = Match::ping();
        assert_eq!(log.arrivals(&ping), 1);
        assert_eq!(log.departures(&ping), 1);
        let answer = ping.reply();
        assert_eq!(log.arrivals(&answer), 1);
        assert_eq!(log.departures(&answer), 0);
        log.add(event(EventKind::Delivered { request, code }));
        assert_eq!(log.departures(&answer), 1);
        assert_eq!(log.arrivals(&answer), 1);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut log = EventLog::new(2);
        for via in 1..=3 {
            log.add(event(EventKind::Accepted { via }));
        }
        assert_eq!(log.iter().count(), 2);
        assert!(log.tail().contains("server 2") && log.tail().contains("server 3"));
        log.clear();
        assert_eq!(log.iter().count(), 0);
    }
}
