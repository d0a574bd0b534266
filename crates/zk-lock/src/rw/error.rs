//! Why a read/write lock could not be made, or its guard not be changed into the other one.

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::ParsePathError;

use super::ReadGuard;
use super::WriteGuard;
use crate::error::AcquireError;
use crate::error::Loss;
use crate::error::TimedOut;
use crate::layout::Layout;

/// A read/write lock cannot be made of what was given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// The path is none.
    #[error(transparent)]
    Path(#[from] ParsePathError),
    /// The layout knows writers only.
    #[error(
        "{layout:?} has no names for readers; a read/write lock needs the layout of Curator, kazoo or HBase"
    )]
    NoReaders {
        /// The layout.
        layout: Layout,
    },
}

/// A reader did not become a writer.
///
/// Unless the lock is lost, it reads as before: [`into_guard`](Self::into_guard) gives the guard back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// A writer is waiting for this reader to end, perhaps another reader that wants to write: each would wait for the
    /// other one.
    ///
    /// The remedy is to release the guard, to acquire for writing, and to read again what may have changed.
    #[error("reader {} and writer {writer} would wait for each other; release the reader and acquire for writing instead", guard.path())]
    Contended {
        /// The lock, held as before.
        guard: Box<ReadGuard>,
        /// The name of the writer's node.
        writer: String,
    },
    /// Other readers were there for all of the time.
    #[error("reader {} did not become a writer", guard.path())]
    TimedOut {
        /// The lock, held as before.
        guard: Box<ReadGuard>,
        /// Who was ahead.
        #[source]
        timed_out: TimedOut,
    },
    /// The place of a writer could not be had.
    #[error("reader {} did not become a writer", guard.path())]
    Failed {
        /// The lock, held as before.
        guard: Box<ReadGuard>,
        /// Why.
        source: AcquireError,
    },
    /// The lock had been lost before: others may have written since.
    #[error("lock node {path} had been lost before its reader became a writer: {loss}")]
    Lost {
        /// The reader's node.
        path: NodePath,
        /// Why it was lost.
        loss: Loss,
    },
}

impl UpgradeError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Contended { .. } | Self::TimedOut { .. } => ErrorClass::Recoverable,
            Self::Failed { source, .. } => source.class(),
            Self::Lost { loss, .. } => loss.class(),
        }
    }

    /// Returns the guard of the reader, if the lock is held as before.
    pub fn into_guard(self) -> Option<ReadGuard> {
        match self {
            Self::Contended { guard, .. }
            | Self::TimedOut { guard, .. }
            | Self::Failed { guard, .. } => Some(*guard),
            Self::Lost { .. } => None,
        }
    }
}

/// A writer did not become a reader, or not entirely.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The reader's node could not be created. The lock is held for writing as before.
    #[error("writer {} did not become a reader", guard.path())]
    Failed {
        /// The lock, held as before.
        guard: Box<WriteGuard>,
        /// Why.
        source: AcquireError,
    },
    /// The server refuses to delete the writer's node: the lock is held for reading, but other readers wait until the
    /// session ends.
    #[error("reader {} stays alone until its session ends", guard.path())]
    Refused {
        /// The lock, held for reading.
        guard: Box<ReadGuard>,
        /// Why.
        source: Error,
    },
    /// The lock had been lost before: what was done under it may have overlapped with another holder.
    #[error("lock node {path} had been lost before its writer became a reader: {loss}")]
    Lost {
        /// The writer's node.
        path: NodePath,
        /// Why it was lost.
        loss: Loss,
    },
}

impl DowngradeError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Failed { source, .. } => source.class(),
            Self::Refused { source, .. } => source.class(),
            Self::Lost { loss, .. } => loss.class(),
        }
    }
}
