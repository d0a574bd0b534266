//! The errors of a partitioner.

use zk_cache::{CacheEnd, PartialRead};
use zk_core::{NodePath, ParsePathError, PersistentNodeProblem};
use zk_lock::AcquireError;

use crate::error::JoinError;

/// The arguments of a partitioner are invalid. Nothing was sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The path or the id.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// An item.
    #[error(transparent)]
    Item(#[from] InvalidItem),
}

impl From<ParsePathError> for StartError {
    fn from(error: ParsePathError) -> Self {
        Self::Join(error.into())
    }
}

/// An item cannot be the name of a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{item:?} is not an item; it must be the name of a node, without a slash")]
#[non_exhaustive]
pub struct InvalidItem {
    /// The item.
    pub item: String,
}

/// Why a partitioner is not a member, gets no items, or does not own an item that is allocated to it. What failed is tried
/// again, except after [`Ended`](Self::Ended).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionerProblem {
    /// This process is not a member.
    #[error(transparent)]
    Membership(PersistentNodeProblem),
    /// The view of the group has ended, and with it the partitioner. Drop it: until then, this process may be a member that
    /// takes no items.
    #[error("the view of the group has ended")]
    Ended(#[source] CacheEnd),
    /// The members of the group cannot all be read. If this process is not among those that can, it gets no items, and the
    /// others wait for it.
    #[error("the members of the group cannot all be read, see {path}")]
    #[non_exhaustive]
    View {
        /// A node that cannot be read.
        path: NodePath,
        /// Why.
        #[source]
        reason: PartialRead,
    },
    /// This process is a member, but the view of the group did not show it when items were last allocated. It gets no
    /// items, and the others wait for it.
    ///
    /// Servers do not report a node to a session that may not read it.
    #[error(
        "the view of the group does not show this member; if the session may not read {path}, grant READ"
    )]
    #[non_exhaustive]
    Unseen {
        /// The node of this member.
        path: NodePath,
    },
    /// The lock of an item was not acquired.
    #[error("item {item} is not acquired")]
    #[non_exhaustive]
    Item {
        /// The item.
        item: String,
        /// What failed last.
        #[source]
        error: AcquireError,
    },
}
