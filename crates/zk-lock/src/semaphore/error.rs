//! The errors of acquiring leases.

use std::fmt;
use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::queue::QueueProgress;

/// Leases were not acquired. Leftovers of the attempt are removed in the background.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireLeaseError {
    /// More leases were requested than the limit allows at all.
    #[error(
        "{wanted} leases of semaphore {path} were requested, but its limit is {limit}; request fewer or raise the limit"
    )]
    TooMany {
        /// The path of the semaphore.
        path: NodePath,
        /// The number of requested leases.
        wanted: u32,
        /// The limit.
        limit: u32,
    },
    /// Zero leases were requested.
    #[error("zero leases were requested; request at least one")]
    ZeroLeases,
    /// The stored limit is not the limit of this handle.
    #[error(
        "semaphore {path} has the stored limit {stored}, but this handle was created with {own}; \
         call `set_limit`, create the handle with {stored}, or make it adopt the stored limit"
    )]
    LimitDiffers {
        /// The path of the semaphore.
        path: NodePath,
        /// The stored limit.
        stored: u32,
        /// The limit of this handle.
        own: u32,
    },
    /// The data at the path is not a limit.
    #[error(transparent)]
    BadLimit(BadLimit),
    /// The time limit elapsed.
    #[error(transparent)]
    TimedOut(LeaseTimedOut),
    /// Any other error of acquiring a lock: the session is lost, or an operation failed.
    #[error(transparent)]
    Acquire(AcquireError),
}

impl AcquireLeaseError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TooMany { .. }
            | Self::ZeroLeases
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

/// The data at the path of a semaphore is not a limit: the path may be in use for something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the data of semaphore {path} is not a decimal number up to 4294967295; \
     use another path, or store a limit with `set_limit`"
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

/// Leases were not acquired within the time limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseTimedOut {
    pub(super) path: NodePath,
    pub(super) within: Duration,
    pub(super) ahead: Option<Ahead>,
    pub(super) taken: Option<(usize, u32)>,
}

/// The progress of an acquire, for the error of a timeout.
#[derive(Debug, Default)]
pub(super) struct LeaseProgress {
    /// The progress in the queue of waiters.
    pub(super) queue: QueueProgress,
    /// The number of leases of others and the limit, once this is the first waiter.
    pub(super) taken: Option<(usize, u32)>,
}

impl LeaseTimedOut {
    /// Returns the path of the semaphore.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the waiters that were ahead at the last wake-up; `None` if the ensemble had not replied by then.
    pub fn ahead(&self) -> Option<&Ahead> {
        self.ahead.as_ref()
    }

    /// Returns how many leases others held at the last wake-up, and the limit; `None` if other waiters were ahead.
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
            (None, Some(_)) => {
                f.write_str("no waiter was ahead, but the ensemble did not reply in time")
            }
            (None, None) => f.write_str("the ensemble did not reply in time"),
        }
    }
}

impl std::error::Error for LeaseTimedOut {}
