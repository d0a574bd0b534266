//! The error of taking a one-shot lease.

use zk_core::{Error, ErrorClass, NodePath, ParsePathError};

use crate::error::AcquireError;

/// A one-shot lease was not taken, or it is not known whether it was.
///
/// [`is_outcome_unknown`](Self::is_outcome_unknown) tells the two apart: only then the lease may have been taken.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TakeLeaseError {
    /// The path is not a valid node path.
    #[error(transparent)]
    Path(#[from] ParsePathError),
    /// The lease would end after the year 9999, which the record cannot store.
    #[error("the lease would end after the year 9999; take it for a shorter time")]
    TooLong,
    /// The lock that guards the record was not acquired, or was lost before the record was written.
    #[error("the lock that guards the record of the lease was not acquired or not kept")]
    Lock(#[source] AcquireError),
    /// The record is not one of kazoo's: the path is in use for something else.
    #[error(
        "the record {path} of the lease is malformed: {reason}; use another path, or delete it"
    )]
    Malformed {
        /// The record.
        path: NodePath,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An operation failed.
    #[error(transparent)]
    Core(#[from] Error),
}

impl TakeLeaseError {
    /// Returns what a caller can do about the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Path(_) | Self::TooLong | Self::Malformed { .. } => ErrorClass::Outcome,
            Self::Lock(error) => error.class(),
            Self::Core(error) => error.class(),
        }
    }

    /// Returns whether the lease may have been taken. Taking it again, with the same holder, finds out.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, Self::Core(error) if error.is_outcome_unknown())
    }
}
