//! What a cache tells.

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;

use crate::node::Node;

/// What a cache found out.
///
/// The events of one node are in order: it is created, changed any number of times, and deleted, and then created again.
/// Applied to the snapshot before it, an event gives the nodes of the one after it; each node that goes is told by
/// itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// There is a node that was not there, or one that was made anew; of the old one a [`Deleted`](Self::Deleted) came
    /// before.
    Created(Node),
    /// The data of the node was replaced, maybe more than once since the last event, maybe by the same.
    Changed {
        /// What it was.
        old: Node,
        /// What it is.
        new: Node,
    },
    /// The node is gone.
    Deleted(Node),
    /// Everything is known that is to be known: at first, and after each [`Stale`](Self::Stale).
    Synchronized {
        /// See [`Snapshot::synced_at`](crate::Snapshot::synced_at).
        synced_at: i64,
    },
    /// The connection broke, or changes may have been missed: what the cache has may be out of date until the next
    /// [`Synchronized`](Self::Synchronized), and the difference is told before that.
    Stale,
    /// Something below the root cannot be followed, and the rest is; see [`Gap`].
    Incomplete {
        /// The node.
        path: NodePath,
        /// What is missing of it.
        gap: Gap,
    },
    /// The cache has ended: nothing comes after this, and the snapshot stays as it is.
    Ended(End),
}

/// What a cache cannot have of a node.
///
/// It looks again when the data of the node changes and after every break of the connection, and then says nothing if
/// nothing has changed.
/// That access to it was granted or denied is no change that a server tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Gap {
    /// The server refuses to tell anything of it, and so of its children.
    ///
    /// It is left out with all that is below it, or kept as it was read last.
    #[error("the server does not tell of it: {0:?}; the session needs READ on the node")]
    Node(ErrorKind),
    /// The server refuses to list its children.
    #[error("the server does not list its children: {0:?}; the session needs READ on the node")]
    Children(ErrorKind),
    /// It has more children than the cache was allowed to list.
    ///
    /// They were not asked for: their names come in one answer, of whatever size.
    /// Those that the cache had when there were fewer are followed, and those that come later are left out.
    /// It also looks again when one of its children goes. The count is that of the last look and does not follow each change.
    #[error(
        "it has {count} children, and at most {most} are listed; raise `with_most_children` or divide them"
    )]
    TooManyChildren {
        /// How many there are.
        count: u32,
        /// The [limit](crate::CacheOptions::with_most_children).
        most: u32,
    },
}

/// Why a cache ended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// The session is over.
    ///
    /// A cache belongs to one session.
    /// The next one [goes on](crate::TreeCache::resume) from this one's last snapshot, and tells the difference.
    #[error("the session is over")]
    SessionLost,
    /// Its last handle was dropped, or the runtime that it ran on was shut down, or a selector panicked.
    #[error("the cache was stopped")]
    Stopped,
    /// The node cannot be watched, and trying again would not change that.
    #[error("the node cannot be watched")]
    Refused(#[source] Error),
}

impl End {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::Stopped => ErrorClass::Outcome,
            Self::Refused(error) => error.class(),
        }
    }
}
