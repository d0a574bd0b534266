//! What the proxy has seen and done.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::matching::Direction;
use super::matching::Frame;
use super::matching::Seen;
use super::rules::Close;
use crate::wire::Request;

/// One thing that the proxy has seen or done, and when, and on which connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, counted from the start of the proxy.
    pub at: Duration,
    /// The number of the connection, from 1, in the order in which they came.
    pub link: u64,
    /// The server that the connection leads to; nothing before it leads anywhere.
    pub server: Option<u32>,
    /// The session that the connection carries; nothing before it is known.
    pub session: Option<i64>,
    /// What.
    pub what: What,
}

/// What the proxy has seen or done.
///
/// A request that gets its answer is four events: requested, forwarded, replied, delivered. A rule or a broken
/// connection comes between two of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A client came to the address of this server.
    Accepted {
        /// The server whose address it is.
        asked: u32,
    },
    /// No server was reached: steered nowhere, or nobody listens. The client's connection was reset.
    Refused,
    /// A four-letter word arrived, and this connection is passed on as it is.
    Word(String),
    /// A client asked for a session.
    Connecting {
        /// Whether it has one and wants to go on with it.
        resumed: bool,
    },
    /// A server granted a session.
    Connected {
        /// After how much silence it expires.
        timeout: Duration,
        /// Whether it is one that the client had before.
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
        /// What it is the reply to.
        request: Arc<Request>,
        /// The error code, 0 for success.
        code: i32,
        /// The newest transaction that the server had applied.
        zxid: i64,
    },
    /// A reply was written to the client.
    Delivered {
        /// What it is the reply to.
        request: Arc<Request>,
        /// The error code, 0 for success.
        code: i32,
    },
    /// A watch's notification arrived from the server.
    Notified {
        /// The node.
        path: Arc<str>,
    },
    /// A rule took a frame.
    Struck {
        /// The rule, in words.
        rule: Arc<str>,
    },
    /// Frames of this connection are swallowed from here on.
    Darkened,
    /// The proxy closed the connection, by a rule or because it was asked to.
    Cut {
        /// How the client's side was closed.
        close: Close,
        /// The rule, in words; nothing if it was asked to.
        rule: Option<Arc<str>>,
    },
    /// The connection is over, the proxy's own doing included.
    Ended,
    /// Something arrived that is no frame, or none that can be understood. It is passed on untouched.
    NotUnderstood {
        /// Which way it went.
        direction: Direction,
    },
}

impl Event {
    /// The request or reply of the event, for a matcher.
    pub(super) fn seen(&self) -> Option<Seen<'_>> {
        let (direction, frame, code) = match &self.what {
            What::Requested(request) | What::Forwarded(request) => {
                (Direction::Request, Frame::Request(request), None)
            }
            What::Replied { request, code, .. } | What::Delivered { request, code } => {
                (Direction::Reply, Frame::Request(request), Some(*code))
            }
            What::Notified { path } => (Direction::Reply, Frame::Notification(path), None),
            What::Connecting { .. } => (Direction::Request, Frame::Handshake, None),
            What::Connected { .. } | What::SessionRefused => {
                (Direction::Reply, Frame::Handshake, None)
            }
            _ => return None,
        };
        Some(Seen {
            direction,
            frame,
            session: self.session,
            server: self.server,
            code,
        })
    }

    /// Whether it tells of a frame's arrival, and not of its departure.
    pub(super) fn is_arrival(&self) -> bool {
        !matches!(self.what, What::Forwarded(_) | What::Delivered { .. })
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
        write!(f, ": {}", self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { asked } => write!(f, "accepted at the address of server {asked}"),
            Self::Refused => f.write_str("refused, as no server was reached"),
            Self::Word(word) => write!(f, "four-letter word {word}"),
            Self::Connecting { resumed: false } => f.write_str("asks for a new session"),
            Self::Connecting { resumed: true } => f.write_str("asks to resume its session"),
            Self::Connected { timeout, .. } => write!(f, "session granted for {timeout:?}"),
            Self::SessionRefused => f.write_str("session refused"),
            Self::Requested(request) => write!(f, "{request} requested"),
            Self::Forwarded(request) => write!(f, "{request} forwarded"),
            Self::Replied { request, code, .. } => write!(f, "{request} answered with {code}"),
            Self::Delivered { request, .. } => write!(f, "{request}: answer delivered"),
            Self::Notified { path } => write!(f, "watch of {path} fired"),
            Self::Struck { rule } => write!(f, "struck by the rule: {rule}"),
            Self::Darkened => f.write_str("swallowed from here on"),
            Self::Cut { close, rule: None } => write!(f, "cut by {close}"),
            Self::Cut {
                close,
                rule: Some(rule),
            } => write!(f, "cut by {close}, by the rule: {rule}"),
            Self::Ended => f.write_str("over"),
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
