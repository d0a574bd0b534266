//! The errors of generators and claims, and the reasons for the loss of a worker number.

use std::fmt;
use std::time::{Duration, SystemTime};

use zk_core::{Error, ErrorClass, NodePath};

/// No id was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// All ids of this [time unit](crate::Layout::time_unit), by default a millisecond, are issued.
    #[error("all ids of this time unit are issued; the next one is available in {wait:?}")]
    TimeUnitExhausted {
        /// The time until the next id.
        wait: Duration,
    },
    /// The clock is behind the time of ids that this generator issued, or that a former holder of the worker number
    /// reserved.
    #[error(
        "the clock is {by:?} behind the time of issued or reserved ids; check the clock, or wait for it"
    )]
    ClockBehind {
        /// By how much.
        by: Duration,
    },
    /// The time reserved for the worker number is used up and was not extended: the ensemble did not reply, or the
    /// clock is [too far ahead](crate::Snowflakes::with_max_clock_ahead) of the servers' clock.
    #[error(
        "the time reserved for this worker is used up and not extended yet; check the connection and the clock"
    )]
    Unreserved,
    /// The session may have expired, so that another process may hold the worker number soon.
    #[error(
        "no reply from the ensemble for too long; another process may hold the worker number soon"
    )]
    SessionLeaseExpired,
    /// The worker number is lost for good.
    #[error("the worker number is lost: {0}")]
    Lost(WorkerLoss),
    /// The layout cannot represent the current time.
    #[error("the layout cannot represent time from {end:?} on; use one with a later epoch")]
    TimeExhausted {
        /// The first time without ids.
        end: SystemTime,
    },
}

impl NextError {
    /// Returns what a caller can do about it.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::TimeUnitExhausted { .. }
            | Self::ClockBehind { .. }
            | Self::Unreserved
            | Self::SessionLeaseExpired => ErrorClass::Recoverable,
            Self::Lost(loss) => loss.class(),
            Self::TimeExhausted { .. } => ErrorClass::Outcome,
        }
    }
}

/// Why a worker number is lost: it is no longer held, or no longer proven to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerLoss {
    /// The session is over, and its nodes are deleted.
    SessionLost,
    /// Another client deleted the worker's node, perhaps an operator.
    NodeDeleted,
    /// Another client changed or deleted the worker's mark.
    MarkChanged,
    /// The ensemble did not reply for too long: it may have expired the session and let another process claim the
    /// number.
    SessionLeaseExpired,
    /// The handle was released or dropped.
    Released,
}

impl WorkerLoss {
    /// Returns what a caller can do about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted | Self::MarkChanged | Self::SessionLeaseExpired => {
                ErrorClass::Recoverable
            }
            Self::Released => ErrorClass::Outcome,
        }
    }
}

impl fmt::Display for WorkerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session is over",
            Self::NodeDeleted => "another client deleted the worker's node",
            Self::MarkChanged => "another client changed or deleted the worker's mark",
            Self::SessionLeaseExpired => "the ensemble did not reply for too long",
            Self::Released => "the worker number was released",
        })
    }
}

/// No worker number was claimed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// All numbers are taken.
    #[error(
        "all {workers} worker numbers below {path} are taken; use a layout with more, or stop a process"
    )]
    AllTaken {
        /// The node below which they are claimed.
        path: NodePath,
        /// How many numbers there are.
        workers: u32,
    },
    /// The path is used for something else, or with another layout or number of workers.
    #[error(
        "{path} is used for {found:?}, not for {expected:?}; use another path, or the same settings everywhere"
    )]
    SchemaMismatch {
        /// The node.
        path: NodePath,
        /// Its data, or the beginning of its data.
        found: String,
        /// The expected data.
        expected: String,
    },
    /// The data of a mark is invalid, so that the reserved time is unknown.
    #[error(
        "{path} contains {found:?} instead of a Unix time in milliseconds; \
         write a time after that of all ids of this worker"
    )]
    BadMark {
        /// The mark.
        path: NodePath,
        /// Its data, or the beginning of its data.
        found: String,
    },
    /// The clock of this process is too far ahead of the servers' clock. No time was reserved, and the number is free
    /// again.
    #[error(
        "the clock is {by:?} ahead of the servers' clock, and at most {max:?} is allowed; \
         correct the clock, or that of the servers"
    )]
    ClockAhead {
        /// The least by which it is ahead.
        by: Duration,
        /// The limit, see [`Snowflakes::with_max_clock_ahead`](crate::Snowflakes::with_max_clock_ahead).
        max: Duration,
    },
    /// Other clients wrote to the node at each attempt.
    #[error("other clients keep writing to {path}; try again")]
    Contended {
        /// The node at the path, or a mark below it.
        path: NodePath,
    },
    /// A request to the ensemble failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl ClaimError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::AllTaken { .. } | Self::ClockAhead { .. } | Self::Contended { .. } => {
                ErrorClass::Recoverable
            }
            Self::SchemaMismatch { .. } | Self::BadMark { .. } => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

/// Returns the beginning of a node's data, for a message.
pub(crate) fn excerpt(data: &[u8]) -> String {
    String::from_utf8_lossy(data).chars().take(60).collect()
}
