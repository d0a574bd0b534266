//! The events of a cache, the reasons why it is incomplete, and the reasons why it ended.

use zk_core::{Error, ErrorClass, ErrorKind, NodePath};

use crate::node::Node;

/// A difference between two consecutive snapshots of a cache.
///
/// The events of one node are in order: it is created, changed any number of times, deleted, and then created again.
/// Applying an event to the nodes of the snapshot before it gives those of the snapshot after it. Each deleted node has
/// an event of its own.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The node is new, or was created again; the old node was reported as [`Deleted`](Self::Deleted) before.
    Created(Node),
    /// The data of the node was replaced, perhaps more than once since the last event, perhaps by the same data.
    Changed {
        /// The node before the change.
        old: Node,
        /// The node after the change.
        new: Node,
    },
    /// The node was deleted.
    Deleted(Node),
    /// The cache is complete: after the first load, and again after each [`Stale`](Self::Stale).
    Synchronized {
        /// See [`Snapshot::synced_at`](crate::Snapshot::synced_at).
        synced_at: i64,
    },
    /// The connection broke, or changes may have been missed. The contents may be out of date until the next
    /// [`Synchronized`](Self::Synchronized), and the difference is reported before it.
    Stale,
    /// The cache cannot read a node or its children; the rest is cached.
    Incomplete {
        /// The node.
        path: NodePath,
        /// What the cache could not read, and why.
        reason: PartialRead,
    },
    /// The cache has ended. This is the last event, and the snapshot no longer changes.
    Ended(CacheEnd),
}

/// The part of a node that a cache could not read.
///
/// The cache tries again when the data of the node changes and after every connection loss. It reports nothing if the
/// result is the same.
/// Granting or denying access alone triggers nothing: servers have no watch for ACLs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum PartialRead {
    /// The node cannot be read, and so its children: the session may not, or the reply is
    /// [larger](ErrorKind::TooLarge) than the session accepts.
    ///
    /// The node is left out with all its descendants, or kept as it was read last.
    #[error("the node cannot be read: {0:?}{advice}", advice = advice(*.0))]
    Node(ErrorKind),
    /// The children of the node cannot be listed.
    #[error("the children cannot be listed: {0:?}{advice}", advice = advice(*.0))]
    Children(ErrorKind),
    /// The names of the children are more than the session reads with one reply.
    ///
    /// Children that are cached stay up to date. The cache lists them again once the node has a sixteenth fewer, and not
    /// before, because the server sends them all each time.
    #[error(
        "the names of its {count} children are more than the session reads with one reply; raise its limit or divide them"
    )]
    ChildrenTooLarge {
        /// The number of children.
        count: u32,
    },
    /// The node has more children than the cache may list.
    ///
    /// The cache does not list them, because one reply contains all their names, whatever its size.
    /// Children that were cached while there were fewer stay up to date, and later ones are left out.
    /// The cache also checks again when one of the children is deleted. The count is that of the last check.
    #[error(
        "it has {count} children, and at most {limit} are listed; raise `with_max_children` or divide them"
    )]
    TooManyChildren {
        /// The number of children.
        count: u32,
        /// The [limit](crate::CacheOptions::with_max_children).
        limit: u32,
    },
    /// Children of the node are left out, because the cache has as many nodes as it may have.
    ///
    /// What is cached stays up to date. The cache lists the children again once a sixteenth of each limit of the cache
    /// is free.
    #[error(
        "the cache has {limit} nodes, and further children are left out; raise `with_max_nodes` or cache less of the tree"
    )]
    TooManyNodes {
        /// The [limit](crate::CacheOptions::with_max_nodes) of the whole cache.
        limit: usize,
    },
    /// Children of the node, or its newest data, are left out, because the nodes of the cache would need more bytes than
    /// they may.
    ///
    /// In the second case the node is kept as it was read last. The rest is as with [`TooManyNodes`](Self::TooManyNodes).
    #[error(
        "the cache may have {limit} bytes, and children or the newest data are left out; raise `with_max_bytes` or cache less of the tree"
    )]
    TooManyBytes {
        /// The [limit](crate::CacheOptions::with_max_bytes) of the whole cache.
        limit: usize,
    },
}

impl PartialRead {
    /// Returns whether a limit of the whole cache is the reason.
    pub(crate) const fn is_of_whole_cache(&self) -> bool {
        matches!(self, Self::TooManyNodes { .. } | Self::TooManyBytes { .. })
    }
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NoAuth => "; grant READ on it to the session",
        ErrorKind::TooLarge => "; raise the session's limit for replies",
        _ => "",
    }
}

/// The reason why a cache ended.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CacheEnd {
    /// The session is over, or there will be no further one of the [`Sessions`](zk_core::Sessions).
    ///
    /// A cache on another session can [resume](crate::TreeCache::resume) from the last snapshot, and reports the
    /// difference.
    #[error("the session is over")]
    SessionLost,
    /// The last handle was dropped, the runtime of the cache was shut down, or a selector panicked.
    #[error("the cache was stopped")]
    Stopped,
    /// The node cannot be watched, and a retry would not change that: the session has too many watches, for example.
    ///
    /// A cache on [`Sessions`](zk_core::Sessions) ends so only with the first session. If a later one refuses the watch,
    /// the cache stays [stale](crate::CacheState::Stale), logs a warning, and tries again every ten seconds and with the
    /// session after that.
    #[error("the node cannot be watched")]
    Refused(#[source] Error),
}

impl CacheEnd {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::Stopped => ErrorClass::Outcome,
            Self::Refused(error) => error.class(),
        }
    }
}
