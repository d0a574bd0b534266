//! The events in the log of a proxy.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::matching::Direction;
use super::matching::Frame;
use super::matching::FrameInfo;
use super::rules::Close;
use crate::wire::Request;

/// An entry of the [log](super::Log) of a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The time since the start of the proxy.
    pub at: Duration,
    /// The number of the connection, from 1, in the order of acceptance.
    pub link: u64,
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
        /// The last transaction that the server had applied.
        zxid: i64,
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
    /// Everything on this connection is discarded from here on.
    BlackHoled,
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
    /// Returns the properties that a [`Match`](super::Match) compares.
    pub(super) fn frame_info(&self) -> Option<FrameInfo<'_>> {
        let (direction, frame, code) = match &self.kind {
            EventKind::Requested(request) | EventKind::Forwarded(request) => {
                (Direction::Request, Frame::Request(request), None)
            }
            EventKind::Replied { request, code, .. } | EventKind::Delivered { request, code } => {
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

    /// Returns whether it is not the departure of a frame.
    pub(super) fn is_arrival(&self) -> bool {
        !matches!(
            self.kind,
            EventKind::Forwarded(_) | EventKind::Delivered { .. }
        )
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s, link {}", self.at.as_secs_f64(), self.link)?;
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
            Self::Replied { request, code, .. } => write!(f, "{request} answered with {code}"),
            Self::Delivered { request, .. } => write!(f, "{request}: answer delivered"),
            Self::Notified { path } => write!(f, "watch of {path} fired"),
            Self::RuleApplied { rule } => write!(f, "rule applied: {rule}"),
            Self::BlackHoled => f.write_str("discarded from here on"),
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

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fin => "FIN",
            Self::Rst => "RST",
        })
    }
}
