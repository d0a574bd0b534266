//! The errors of a partitioner.

use zk_core::ParsePathError;
use zk_core::PersistentNodeProblem;
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

/// Why a partitioner is not a member, or does not own an item that is allotted to it. What failed is tried again.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionerProblem {
    /// This process is not a member.
    #[error(transparent)]
    Membership(PersistentNodeProblem),
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
