//! Why leases could not be acquired.

use std::fmt;
use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::queue::Progress;

/// Leases were not acquired. Nothing of the attempt is left, or its removal goes on in the background.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireLeaseError {
    /// More leases were asked for than there are, so that waiting is of no use.
    #[error(
        "{wanted} leases of semaphore {path} were asked for, and its limit is {limit}; ask for at most so many, or raise the limit"
    )]
    TooMany {
        /// The path of the semaphore.
        path: NodePath,
        /// How many were asked for.
        wanted: u32,
        /// How many there are.
        limit: u32,
    },
    /// No lease was asked for.
    #[error("no lease was asked for; ask for at least one")]
    Nothing,
    /// The ensemble has another limit than this client was made with.
    #[error(
        "semaphore {path} has the limit {stored}, and this client was made with {own}; make them agree, with `set_limit` or in the client, or let the client adopt what is stored"
    )]
    LimitDiffers {
        /// The path of the semaphore.
        path: NodePath,
        /// The limit in the ensemble.
        stored: u32,
        /// The limit that this client was made with.
        own: u32,
    },
    /// What is stored at the path is no limit.
    #[error(transparent)]
    BadLimit(BadLimit),
    /// The time was up.
    #[error(transparent)]
    TimedOut(LeaseTimedOut),
    /// What may go wrong with a lock, but for its time being up: the session is lost, or an operation failed.
    #[error(transparent)]
    Acquire(AcquireError),
}

impl AcquireLeaseError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooMany { .. }
            | Self::Nothing
            | Self::LimitDiffers { .. }
            | Self::BadLimit { .. } => ErrorClass::Outcome,
            Self::TimedOut(_) => ErrorClass::Recoverable,
            Self::Acquire(error) => error.class(),
        }
    }
}

impl From<AcquireError> for AcquireLeaseError {
    fn from(error: AcquireError) -> Self {
        Self::Acquire(error)
    }
}

impl From<Error> for AcquireLeaseError {
    fn from(error: Error) -> Self {
        Self::Acquire(error.into())
    }
}

/// What is stored at the path of a semaphore is no limit: the path may be in use for something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the data of semaphore {path} is no limit, which is a decimal number of at most 4294967295; use another path, or store one with `set_limit`"
)]
pub struct BadLimit {
    pub(super) path: NodePath,
}

impl BadLimit {
    /// Returns the path of the semaphore.
    pub fn path(&self) -> &NodePath {
        &self.path
    }
}

/// The time to acquire leases was up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTimedOut {
    pub(super) path: NodePath,
    pub(super) within: Duration,
    pub(super) ahead: Option<Ahead>,
    pub(super) taken: Option<(usize, u32)>,
}

/// What a waiter knows when it gives up.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Those who wait before it.
    pub(super) progress: Progress,
    /// The leases of others and the limit, once it is the first one that waits.
    pub(super) taken: Option<(usize, u32)>,
}

impl LeaseTimedOut {
    /// Returns the path of the semaphore.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns who waited before us when last looked; `None` when the ensemble had not answered by then.
    pub fn ahead(&self) -> Option<&Ahead> {
        self.ahead.as_ref()
    }

    /// Returns how many leases others held when last looked, and the limit; `None` when others waited before us.
    pub fn taken(&self) -> Option<(usize, u32)> {
        self.taken
    }
}

impl fmt::Display for LeaseTimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "semaphore {} not acquired within {:?}: ",
            self.path, self.within
        )?;
        match (&self.taken, &self.ahead) {
            (Some((taken, limit)), _) => write!(f, "others hold {taken} leases of {limit}"),
            (None, Some(ahead)) if ahead.count() > 0 => write!(f, "{ahead} in the queue"),
            (None, Some(_)) => f.write_str("nobody waited ahead, but there was no answer in time"),
            (None, None) => f.write_str("the ensemble had not answered by then"),
        }
    }
}

impl std::error::Error for LeaseTimedOut {}
