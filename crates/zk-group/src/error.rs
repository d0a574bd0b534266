//! The errors of a membership.

use zk_core::{ErrorClass, ParsePathError, PersistentNodeError};

use crate::layout::Layout;

/// The arguments of a join are invalid. Nothing was sent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The path of the group, or the id in it, is not a valid node path.
    #[error(transparent)]
    InvalidPath(#[from] ParsePathError),
    /// The id cannot be the name of a node, or a part of it.
    #[error("{id:?} is not an id of a member; it must not be empty or contain a slash")]
    #[non_exhaustive]
    InvalidId {
        /// The id.
        id: String,
    },
    /// Members have no payloads in this layout.
    #[error("members have no payloads in the layout {0:?}; join with an empty one")]
    NoPayloads(Layout),
}

/// A payload was not written.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SetPayloadError {
    /// Members have no payloads in this layout. Nothing was sent.
    #[error("members have no payloads in the layout {0:?}")]
    NoPayloads(Layout),
    /// The node of the member was not written.
    #[error(transparent)]
    Node(#[from] PersistentNodeError),
}

impl SetPayloadError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NoPayloads(_) => ErrorClass::Outcome,
            Self::Node(error) => error.class(),
        }
    }
}
