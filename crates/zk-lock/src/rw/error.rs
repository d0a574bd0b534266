//! The errors of creating a read/write lock, and of upgrading and downgrading its guards.

use zk_core::{Error, ErrorClass, NodePath, ParsePathError};

use super::{ReadGuard, WriteGuard};
use crate::error::{AcquireError, LockLoss, TimedOut};
use crate::layout::Layout;

/// A read/write lock could not be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RwLockError {
    /// The path is not a valid node path.
    #[error(transparent)]
    Path(#[from] ParsePathError),
    /// The layout has no readers.
    #[error(
        "{layout:?} has no names for readers; a read/write lock needs the layout of Curator, kazoo or HBase"
    )]
    NoReaders {
        /// The layout.
        layout: Layout,
    },
}

/// A reader was not upgraded to a writer.
///
/// Unless the lock is lost, it is still held for reading: [`into_guard`](Self::into_guard) returns the guard.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// A writer waits for this reader to release; it may be another reader that upgrades. Each would wait for the
    /// other.
    ///
    /// Release the guard, acquire for writing, and read again what may have changed.
    #[error(
        "reader {} and writer {writer} would wait for each other; release the reader and acquire for writing instead",
        guard.path()
    )]
    Contended {
        /// The lock, held as before.
        guard: Box<ReadGuard>,
        /// The name of the writer's node.
        writer: String,
    },
    /// Other readers held the lock until the time limit.
    #[error("reader {} did not become a writer", guard.path())]
    TimedOut {
        /// The lock, held as before.
        guard: Box<ReadGuard>,
        /// Who was ahead.
        #[source]
        timed_out: TimedOut,
    },
    /// The queue could not be joined as a writer, or the writer's node was lost.
    #[error("reader {} did not become a writer", guard.path())]
    Failed {
        /// The lock, held as before.
        guard: Box<ReadGuard>,
        /// The error of the acquire.
        source: AcquireError,
    },
    /// The lock had been lost before: another writer may have had it since.
    #[error("lock node {path} had been lost before its reader became a writer: {loss}")]
    Lost {
        /// The reader's node.
        path: NodePath,
        /// Why it was lost.
        loss: LockLoss,
    },
}

impl UpgradeError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Contended { .. } | Self::TimedOut { .. } => ErrorClass::Recoverable,
            Self::Failed { source, .. } => source.class(),
            Self::Lost { loss, .. } => loss.class(),
        }
    }

    /// Returns the reader's guard, unless the lock is lost.
    pub fn into_guard(self) -> Option<ReadGuard> {
        match self {
            Self::Contended { guard, .. }
            | Self::TimedOut { guard, .. }
            | Self::Failed { guard, .. } => Some(*guard),
            Self::Lost { .. } => None,
        }
    }
}

/// A writer was not downgraded to a reader, or not completely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The reader's node could not be created. The lock is still held for writing.
    #[error("writer {} did not become a reader", guard.path())]
    Failed {
        /// The lock, held as before.
        guard: Box<WriteGuard>,
        /// The error of the create.
        source: AcquireError,
    },
    /// The server refuses to delete the writer's node, so other readers wait until the session ends.
    ///
    /// The lock is held for reading.
    #[error(
        "reader {} excludes other readers until its session ends; grant DELETE on the path of the lock",
        guard.path()
    )]
    Refused {
        /// The lock, held for reading.
        guard: Box<ReadGuard>,
        /// The error of the delete.
        source: Error,
    },
    /// The lock had been lost before: work under it may have overlapped with another holder.
    #[error("lock node {path} had been lost before its writer became a reader: {loss}")]
    Lost {
        /// The writer's node.
        path: NodePath,
        /// Why it was lost.
        loss: LockLoss,
    },
}

impl DowngradeError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Failed { source, .. } => source.class(),
            Self::Refused { source, .. } => source.class(),
            Self::Lost { loss, .. } => loss.class(),
        }
    }
}
