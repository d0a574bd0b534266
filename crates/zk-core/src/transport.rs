//! The interface to the implementation of ZooKeeper's protocol.
//!
//! [`Transport`] is implemented over `zk-wire`, outside of this crate over `zookeeper-client`, and by a simulated ensemble
//! for tests; [`Session::with_transport`](crate::Session::with_transport) builds a session on any of them.
//! Applications do not need this module. It may change in any release.

use std::fmt;
use std::pin::Pin;
use std::time::{Duration, Instant};

use zk_wire::{Acl, NodePath, SessionId, Stat};

use crate::error::ErrorKind;

mod link;
mod watching;
pub(crate) mod wire;

pub use link::{Link, LinkGone, LinkReceiver, LinkSender, Phase};
pub use watching::{WatchEvent, WatchNotification, Watching};
pub use zk_wire::{
    CreateMode, Credentials, Identity, MultiOp, MultiRead, MultiResult, NewNode, NodeData,
    ReadResult, Release, Request, SessionEnd,
};

/// A pending reply.
///
/// The first poll sends the request, so requests are sent in the order in which their replies are first polled.
/// A request whose reply is dropped later may be executed all the same.
pub type Reply = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// What became of a request.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "transports make these")]
pub struct Answer {
    /// What the server replied, or why it did not.
    pub result: Result<Response, TransportError>,
    /// The header of the reply; `None` only if there was no reply. Without one, nothing is proved.
    pub header: Option<ReplyHeader>,
}

/// What each reply of a server says beside its content.
///
/// A transport that does not know all of it says less, and never more: an older transaction that the server had applied, or
/// 0; an earlier connection, and never a later one than that of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "transports make these")]
pub struct ReplyHeader {
    /// The newest transaction that the server had applied; 0 if it does not say.
    pub zxid: i64,
    /// [`Link::breaks`] of the connection that the reply came over.
    pub breaks: u64,
}

/// What a server does in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make each of these")]
pub enum ServerRole {
    /// It leads.
    Leader,
    /// It follows the leader, with or without a vote.
    Learner,
}

/// The reply to the question which role a server has.
pub type RoleReply = Pin<Box<dyn Future<Output = Option<(ServerRole, u64)>> + Send>>;

/// A one-shot watch that the server has set. It resolves once.
///
/// Dropping it removes the watch in the background.
pub type Watched = Pin<Box<dyn Future<Output = WatchEvent> + Send + Sync>>;

/// The reply to credentials.
pub type Authenticating = Pin<Box<dyn Future<Output = Result<(), TransportError>> + Send>>;

/// One ZooKeeper session on the wire. It tries each request once, on the current connection.
///
/// The ensemble executes the requests of one session in the order in which they were sent.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// The session id that the ensemble assigned.
    fn session_id(&self) -> SessionId;

    /// The smallest session timeout that was granted so far. Each connection may get another one.
    fn session_timeout(&self) -> Duration;

    /// An instant of the monotonic clock before the ensemble was asked for the session. The session is certainly kept for
    /// its timeout from then on.
    ///
    /// `None`, the default, if it is unknown: then no lease is valid before later requests have proved it.
    fn requested(&self) -> Option<Instant> {
        None
    }

    /// Returns a receiver of the link's state and its changes.
    fn link(&self) -> LinkReceiver;

    /// The latest instant, on the monotonic clock, at which the link was certainly broken. Replies received before it
    /// came over an earlier link than requests submitted after it.
    ///
    /// `None` if the link never broke, or if the instant is unknown. An earlier one is safe; proofs of the session's life
    /// take longer then.
    fn broken(&self) -> Option<Instant> {
        None
    }

    /// The longest request in bytes that the transport sends. By default that of servers, whose `jute.maxbuffer` it is.
    fn max_request(&self) -> usize {
        DEFAULT_MAX_REQUEST
    }

    /// The release of the oldest server, as the application has [set](crate::SessionBuilder::assume_release) it; `None`, the
    /// default, for 3.6 or later. The session asks for nothing that it lacks where it can do without.
    fn assumed_release(&self) -> Option<Release> {
        None
    }

    /// Draws a random number for a unique name or the length of a pause, or `None` to use the operating system's
    /// source.
    ///
    /// A transport that returns numbers controls all randomness of its session.
    fn draw(&self) -> Option<u64> {
        None
    }

    /// Adds credentials to this and all later connections, and waits until a server has accepted them. By default they
    /// are refused with [`ErrorKind::Unsupported`].
    fn add_auth(&self, credentials: Credentials) -> Authenticating {
        drop(credentials);
        let refused = TransportError::Refused(ErrorKind::Unsupported, None);
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Adds credentials as [`add_auth`](Self::add_auth) does, in place of all others of their scheme, which later
    /// connections do not send. By default they are refused with [`ErrorKind::Unsupported`].
    fn replace_auth(&self, credentials: Credentials) -> Authenticating {
        drop(credentials);
        let refused = TransportError::Refused(ErrorKind::Unsupported, None);
        Box::pin(std::future::ready(Err(refused)))
    }

    /// Finds out the role of the server that the session is connected to. It does not change during a connection. The
    /// result has [`Link::breaks`] of the connection. `None`, the default, if it cannot be known for certain.
    fn server_role(&self) -> RoleReply {
        Box::pin(std::future::ready(None))
    }

    /// Submits a request, see [`Reply`].
    fn submit(&self, request: Request) -> Reply;

    /// Submits a request whose reply resolves by the deadline at the latest.
    ///
    /// Then it is [`TransportError::TakenBack`] if the request was not sent, and [`TransportError::Unanswered`] if it may
    /// have been. By default every request counts as sent.
    fn submit_by(&self, request: Request, deadline: Instant) -> Reply {
        let reply = self.submit(request);
        Box::pin(async move {
            let answer = tokio::time::timeout_at(deadline.into(), reply).await;
            answer.unwrap_or_else(|_| Err(TransportError::Unanswered).into())
        })
    }

    /// Moves the session to a server that is chosen at random, once no reply is missing. By default nothing happens.
    fn rebalance(&self) {}

    /// Starts to close the session, after the requests already sent. The link becomes [`Phase::Over`] when the server
    /// has acknowledged the close.
    fn close(&self);
}

/// The default `jute.maxbuffer` of servers.
pub(crate) const DEFAULT_MAX_REQUEST: usize = 0xf_ffff;

/// The server's reply to a request that it executed.
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum Response {
    /// The node was created.
    Created {
        /// Its path, with the number that the server added.
        path: NodePath,
        /// Its stat.
        stat: Stat,
    },
    /// The node was deleted.
    Deleted,
    /// The data was read.
    Data {
        /// The data.
        data: NodeData,
        /// The stat of the node.
        stat: Stat,
        /// The watch, if one was requested.
        watch: Option<Watched>,
    },
    /// The existence of the node was checked.
    Stat {
        /// The stat of the node, if there is one.
        stat: Option<Stat>,
        /// The watch, if one was requested.
        watch: Option<Watched>,
    },
    /// The children were listed.
    Children {
        /// Their names, in no order.
        names: Vec<String>,
        /// The stat of the node.
        stat: Stat,
        /// The watch, if one was requested.
        watch: Option<Watched>,
    },
    /// Data or rules were replaced.
    Set(Stat),
    /// The server has caught up.
    Synced,
    /// The access rules were read.
    Acl {
        /// The rules.
        acl: Acl,
        /// The stat of the node.
        stat: Stat,
    },
    /// The transaction was applied.
    Committed(Vec<MultiResult>),
    /// The persistent watch was set.
    Watching(Watching),
    /// Several nodes were read: one result for each, in the order of the request.
    Reads(Vec<Result<ReadResult, TransportError>>),
    /// The identities of the session.
    Identities(Vec<Identity>),
    /// The paths of nodes, in no order.
    Paths(Vec<NodePath>),
    /// A number of nodes.
    Count(u32),
}

impl From<Result<Response, TransportError>> for Answer {
    fn from(result: Result<Response, TransportError>) -> Self {
        let header = None;
        Self { result, header }
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Response {
    /// Returns the name of its kind.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "Created",
            Self::Deleted => "Deleted",
            Self::Data { .. } => "Data",
            Self::Stat { .. } => "Stat",
            Self::Children { .. } => "Children",
            Self::Set(_) => "Set",
            Self::Synced => "Synced",
            Self::Acl { .. } => "Acl",
            Self::Committed(_) => "Committed",
            Self::Watching(_) => "Watching",
            Self::Reads(_) => "Reads",
            Self::Identities(_) => "Identities",
            Self::Paths(_) => "Paths",
            Self::Count(_) => "Count",
        }
    }

    /// Leaves out the names of children that no path can have. No server of `ZooKeeper` has such nodes.
    pub(crate) fn keep_valid_names(&mut self) {
        let keep = |names: &mut Vec<String>| {
            names.retain(|name| {
                let is_name = NodePath::is_name(name);
                if !is_name {
                    tracing::warn!(name, "a child is left out, because it has no valid name");
                }
                is_name
            });
        };
        match self {
            Self::Children { names, .. } => keep(names),
            Self::Reads(results) => {
                for result in results.iter_mut().flatten() {
                    if let ReadResult::Children(names) = result {
                        keep(names);
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the error for a reply that does not belong to its request.
    pub(crate) fn unexpected(&self) -> TransportError {
        TransportError::wrong_reply(self.name())
    }

    pub(crate) fn created(self) -> Option<(NodePath, Stat)> {
        match self {
            Self::Created { path, stat } => Some((path, stat)),
            _ => None,
        }
    }

    pub(crate) fn data(self) -> Option<(bytes::Bytes, Stat)> {
        match self {
            Self::Data { data, stat, .. } => Some((data.into_inner(), stat)),
            _ => None,
        }
    }

    pub(crate) fn set(self) -> Option<Stat> {
        match self {
            Self::Set(stat) => Some(stat),
            _ => None,
        }
    }

    pub(crate) fn deleted(self) -> Option<()> {
        matches!(self, Self::Deleted).then_some(())
    }
}

/// Returns the path of a child that a server listed. Those without a valid name were left out.
pub(crate) fn child_of(parent: &NodePath, name: &str) -> NodePath {
    let child = parent.join(name);
    child.expect("the names of children are valid")
}

/// Why one attempt of a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum TransportError {
    /// The server, or a check of the transport, refused the request and did nothing.
    Refused(ErrorKind, Option<String>),
    /// The server refused a transaction because of one of its operations, and did nothing.
    RefusedAt {
        /// Which operation, counted from zero.
        index: usize,
        /// Why.
        kind: ErrorKind,
    },
    /// Nothing was done, and the same request may succeed later.
    Later(ErrorKind),
    /// The server reported an internal error: the outcome is unknown.
    Server(String),
    /// The connection broke: the outcome is unknown.
    Lost(String),
    /// The connection broke, as after a request that the server does not know: the outcome is unknown.
    ///
    /// No request that needs as new a release was answered in the session so far.
    MaybeTooOld {
        /// The first release that knows the request.
        needs: String,
        /// How the connection broke.
        why: String,
    },
    /// The request was carried out, and its reply cannot be read: it would be the same at another attempt.
    Unreadable {
        /// [`TooLarge`](ErrorKind::TooLarge), or [`InvalidReply`](ErrorKind::InvalidReply).
        kind: ErrorKind,
        /// What is wrong with it.
        why: String,
    },
    /// The session is over: the outcome of a request in flight is unknown.
    Ended(SessionEnd),
    /// The session is over, and the request was not sent.
    NotSent(SessionEnd),
    /// The request was not sent by its deadline, and will not be.
    TakenBack,
    /// The request was sent, and there was no reply by its deadline: the outcome is unknown.
    Unanswered,
}

impl TransportError {
    /// Returns how the session has ended, if it has.
    pub(crate) const fn session_end(&self) -> Option<SessionEnd> {
        match self {
            Self::Ended(end) | Self::NotSent(end) => Some(*end),
            _ => None,
        }
    }

    /// Returns the error for a reply of this kind, which does not belong to its request.
    pub(crate) fn wrong_reply(kind: &str) -> Self {
        Self::invalid_reply(format!("a reply of the wrong kind: {kind}"))
    }

    /// Returns the error for a reply that makes no sense.
    pub(crate) const fn invalid_reply(why: String) -> Self {
        let kind = ErrorKind::InvalidReply;
        Self::Unreadable { kind, why }
    }
}
