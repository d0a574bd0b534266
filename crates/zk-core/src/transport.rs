//! The boundary to whatever speaks ZooKeeper's protocol.
//!
//! Behind [`Transport`] stands the client crate in production and a simulated ensemble in tests;
//! [`Session::over`](crate::Session::over) builds a session on any of them.
//! Applications have no need of this module, and it may change in any release.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;
use std::time::Instant;

use crate::acl::Acl;
use crate::error::ErrorKind;
use crate::path::NodePath;
use crate::stat::SessionId;
use crate::stat::Stat;

pub(crate) mod client;
mod link;
mod watching;

pub use link::LinkGone;
pub use link::LinkReceiver;
pub use link::LinkSender;
pub use watching::WatchNotification;
pub use watching::Watching;

/// An answer on its way.
///
/// The request leaves when this is first polled, so that requests polled one after the other are sent in that order.
/// Dropping it later does not call the request back.
pub type Reply = Pin<Box<dyn Future<Output = Result<Response, TransportError>> + Send>>;

/// A one-shot watch that the server has set; it resolves once.
///
/// Dropping it takes the watch back, in the background.
pub type Watched = Pin<Box<dyn Future<Output = WatchEvent> + Send + Sync>>;

/// One ZooKeeper session on the wire: each request is tried once, on whatever connection there is.
///
/// Requests of one session are carried out in the order in which they were sent.
pub trait Transport: fmt::Debug + Send + Sync + 'static {
    /// The number by which the ensemble knows the session.
    fn session_id(&self) -> SessionId;

    /// The session timeout that was granted.
    fn session_timeout(&self) -> Duration;

    /// The state of the link: the newest, and told of each change.
    fn link(&self) -> LinkReceiver;

    /// The newest instant, on the monotonic clock, at which the link was certainly broken: answers that were there
    /// before it came over an earlier link than requests that are submitted after it.
    ///
    /// `None` when there was no such instant, or when it is not known.
    fn broken(&self) -> Option<Instant> {
        None
    }

    /// Draws a number for a unique name or for the length of a pause; `None` to have it from the operating system.
    ///
    /// A transport that answers this decides everything that happens by chance in a session over it.
    fn draw(&self) -> Option<u64> {
        None
    }

    /// Makes a request, see [`Reply`].
    fn submit(&self, request: Request) -> Reply;

    /// Starts to end the session, after the requests already sent; the link is [`Phase::Over`] once the server has
    /// acknowledged it.
    fn close(&self);
}

/// The link of a session to the ensemble at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "transports make these")]
pub struct Link {
    /// What can be done with it now.
    pub phase: Phase,
    /// How often it broke so far. A break and a repair may both be over before anyone looks.
    pub breaks: u64,
}

/// What can be done with a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum Phase {
    /// Requests are sent.
    Up,
    /// Requests are sent to a server that is cut off from the quorum and answers reads only.
    ReadOnly,
    /// There is no connection; another one is sought.
    Down,
    /// The session is over. Nothing comes after it.
    Over(SessionEnd),
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers decide by the reason")]
pub enum SessionEnd {
    /// The application closed it, or dropped the last handle of it.
    Closed,
    /// The ensemble expired it, or it must be assumed so: no server was reached for 7/5 of its timeout, or it was granted
    /// by a server without a quorum.
    Expired,
    /// The server refused its credentials.
    AuthFailed,
    /// The runtime that served it has ended. The ensemble expires it after its timeout.
    RuntimeEnded,
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "it was closed",
            Self::Expired => "it has expired",
            Self::AuthFailed => "the server refused its credentials",
            Self::RuntimeEnded => "its runtime has ended",
        })
    }
}

impl SessionEnd {
    pub(crate) const fn kind(self) -> ErrorKind {
        match self {
            Self::Expired => ErrorKind::SessionExpired,
            Self::AuthFailed => ErrorKind::AuthFailed,
            Self::Closed | Self::RuntimeEnded => ErrorKind::SessionClosed,
        }
    }
}

/// A request, with paths below the chroot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports answer each of these")]
pub enum Request {
    /// Answered by [`Response::Created`].
    Create(CreateRequest),
    /// Answered by [`Response::Deleted`].
    Delete {
        /// The node.
        path: NodePath,
        /// The version its data must have.
        version: Option<i32>,
    },
    /// Answered by [`Response::Data`].
    Get {
        /// The node.
        path: NodePath,
        /// Whether to be told when it changes or goes.
        watch: bool,
    },
    /// Answered by [`Response::Set`].
    Set {
        /// The node.
        path: NodePath,
        /// Its new data.
        data: Bytes,
        /// The version its data must have.
        version: Option<i32>,
    },
    /// Answered by [`Response::Stat`].
    Exists {
        /// The node.
        path: NodePath,
        /// Whether to be told when it comes, changes or goes.
        watch: bool,
    },
    /// Answered by [`Response::Children`].
    List {
        /// The node.
        path: NodePath,
        /// Whether to be told when its children come or go, or itself goes.
        watch: bool,
    },
    /// Answered by [`Response::Synced`].
    Sync {
        /// The node.
        path: NodePath,
    },
    /// Answered by [`Response::Acl`].
    GetAcl {
        /// The node.
        path: NodePath,
    },
    /// Answered by [`Response::Set`].
    SetAcl {
        /// The node.
        path: NodePath,
        /// Its new access rules.
        acl: Acl,
        /// The version the rules must have.
        version: Option<i32>,
    },
    /// All of these or none; answered by [`Response::Committed`].
    Transaction(Vec<Op>),
    /// Answered by [`Response::Watching`]. Servers have it since 3.6, and ask for no permission.
    AddWatch {
        /// The node, which need not exist.
        path: NodePath,
        /// Whether to be told of the creation, deletion and new data of this node and all below it, instead of those of
        /// this node and its children that come and go.
        recursive: bool,
    },
}

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "transports take these apart")]
pub struct CreateRequest {
    /// Its path, to which a sequential mode adds a number.
    pub path: NodePath,
    /// Its data.
    pub data: Bytes,
    /// Its kind.
    pub mode: CreateMode,
    /// Its access rules, at least one.
    pub acl: Acl,
}

/// One part of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports answer each of these")]
pub enum Op {
    /// Refuses the transaction unless the data of the node has this version; `None` for any version.
    Check {
        /// The node.
        path: NodePath,
        /// The version its data must have.
        version: Option<i32>,
    },
    /// Makes a node.
    Create(CreateRequest),
    /// Replaces data.
    Set {
        /// The node.
        path: NodePath,
        /// Its new data.
        data: Bytes,
        /// The version its data must have.
        version: Option<i32>,
    },
    /// Deletes a node.
    Delete {
        /// The node.
        path: NodePath,
        /// The version its data must have.
        version: Option<i32>,
    },
}

/// The kind of node to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make each of these")]
pub enum CreateMode {
    /// It stays until it is deleted.
    Persistent {
        /// Whether the server adds a number to the name.
        sequential: bool,
        /// How long it may stay unchanged and without children; from 1 to 2^40-1 ms.
        ttl: Option<Duration>,
    },
    /// It goes with its session.
    Ephemeral {
        /// Whether the server adds a number to the name.
        sequential: bool,
    },
    /// It goes some time after its last child went.
    Container,
}

/// The server's answer to a request that it carried out.
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum Response {
    /// The node was made.
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
        data: Vec<u8>,
        /// The stat of the node.
        stat: Stat,
        /// The watch, if one was asked for.
        watch: Option<Watched>,
    },
    /// It was looked whether there is a node.
    Stat {
        /// The stat of the node, if there is one.
        stat: Option<Stat>,
        /// The watch, if one was asked for.
        watch: Option<Watched>,
    },
    /// The children were listed.
    Children {
        /// Their names, in no order.
        names: Vec<String>,
        /// The stat of the node.
        stat: Stat,
        /// The watch, if one was asked for.
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
    /// The transaction was carried out.
    Committed(Vec<OpResult>),
    /// The persistent watch was set.
    Watching(Watching),
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
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
        })
    }
}

impl Response {
    pub(crate) fn created(self) -> Option<(NodePath, Stat)> {
        match self {
            Self::Created { path, stat } => Some((path, stat)),
            _ => None,
        }
    }

    pub(crate) fn data(self) -> Option<(Vec<u8>, Stat)> {
        match self {
            Self::Data { data, stat, .. } => Some((data, stat)),
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

    /// Returns the newest transaction that shows in this answer.
    pub(crate) fn newest_zxid(&self) -> Option<i64> {
        let newest = |stat: &Stat| stat.mzxid.max(stat.pzxid).max(stat.czxid);
        match self {
            Self::Created { stat, .. }
            | Self::Data { stat, .. }
            | Self::Children { stat, .. }
            | Self::Set(stat)
            | Self::Acl { stat, .. } => Some(newest(stat)),
            Self::Stat { stat, .. } => stat.as_ref().map(newest),
            Self::Committed(changed) => changed
                .iter()
                .filter_map(|changed| match changed {
                    OpResult::Created { stat, .. } => stat.as_ref(),
                    OpResult::Set(stat) => Some(stat),
                    OpResult::Checked | OpResult::Deleted => None,
                })
                .map(newest)
                .max(),
            Self::Deleted | Self::Synced | Self::Watching(_) => None,
        }
    }
}

/// What one part of a transaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum OpResult {
    /// The version was as it had to be.
    Checked,
    /// The node was made.
    Created {
        /// Its path, with the number that the server added.
        path: NodePath,
        /// Its stat; servers before 3.8.1 give none here (ZOOKEEPER-4026).
        stat: Option<Stat>,
    },
    /// The data was replaced.
    Set(Stat),
    /// The node was deleted.
    Deleted,
}

/// What a watch told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The data of the node changed.
    DataChanged,
    /// A child of the node came or went.
    ChildrenChanged,
    /// The session is over; nothing is known of the node.
    SessionLost,
}

/// Why one attempt of a request did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum TransportError {
    /// The server, or the transport's own check, judged the request and did nothing.
    Refused(ErrorKind, Option<String>),
    /// The server refused a transaction for the sake of one of its parts, and did nothing.
    RefusedAt {
        /// Which part, counted from zero.
        index: usize,
        /// Why.
        kind: ErrorKind,
    },
    /// Nothing was done, and the same request may succeed later.
    Later(ErrorKind),
    /// The server answered that something went wrong on its side: what was done is not known.
    Server(String),
    /// The connection broke or made no sense: whether it was done is not known.
    Lost(String),
    /// The session is over; whether a request in flight was done is not known.
    Ended(SessionEnd),
}

/// The data of a node. Its debug output tells the length and nothing else.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Bytes(std::sync::Arc<[u8]>);

impl Bytes {
    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
