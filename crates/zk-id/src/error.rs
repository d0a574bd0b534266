//! What can go wrong, and what can be done about it.

use std::fmt;
use std::time::Duration;
use std::time::SystemTime;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;

/// There is no id now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NextError {
    /// The ids of this millisecond are used up.
    #[error("the ids of this millisecond are used up, there are more in {wait:?}")]
    UsedUp {
        /// How long it is until the next one.
        wait: Duration,
    },
    /// The clock is behind the time of ids that were given out, here or by the process that had the worker number before.
    #[error(
        "the clock is {by:?} behind the time of ids that were given out or reserved before; is it set right?"
    )]
    ClockBehind {
        /// How far.
        by: Duration,
    },
    /// The time that is reserved for the worker number is used up, and was not extended in time: the ensemble did not answer,
    /// or the clock is [further ahead](crate::Snowflakes::with_max_clock_ahead) of the servers' than allowed.
    #[error(
        "the time reserved for this worker is used up, and not extended yet; does the ensemble answer, is the clock right?"
    )]
    Unreserved,
    /// The session is not known to be alive now, so that the worker number may be somebody else's soon.
    #[error(
        "the ensemble was not heard of for too long, so that the worker number may be somebody else's soon"
    )]
    Untrusted,
    /// The worker number is no longer ours, for good.
    #[error("the worker number is lost: {0}")]
    Lost(Loss),
    /// The layout has no later time.
    #[error("the layout has no bits for time after {end:?}; use one with a later epoch")]
    TimeExhausted {
        /// The first moment without ids.
        end: SystemTime,
    },
}

impl NextError {
    /// Returns what can be done about it.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::UsedUp { .. } | Self::ClockBehind { .. } | Self::Unreserved | Self::Untrusted => {
                ErrorClass::Recoverable
            }
            Self::Lost(loss) => loss.class(),
            Self::TimeExhausted { .. } => ErrorClass::Outcome,
        }
    }
}

/// Why a worker number is no longer held, or can no longer be relied on, which counts as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over, and its nodes with it.
    SessionLost,
    /// Somebody else deleted the worker's node, an operator perhaps.
    NodeDeleted,
    /// Somebody else changed or deleted the mark up to which time is reserved for the worker.
    MarkChanged,
    /// For too long nothing was heard of the ensemble: it may have expired the session and let another one have the number.
    TrustLapsed,
    /// It was released, or dropped.
    Released,
}

impl Loss {
    /// Returns what can be done about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted | Self::MarkChanged | Self::TrustLapsed => ErrorClass::Recoverable,
            Self::Released => ErrorClass::Outcome,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session is over",
            Self::NodeDeleted => "somebody else deleted the worker's node",
            Self::MarkChanged => {
                "somebody else changed the mark of the time reserved for the worker"
            }
            Self::TrustLapsed => "the ensemble was not heard of for too long",
            Self::Released => "it was released",
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
        /// How many there are.
        workers: u32,
    },
    /// The path is used for other workers: with another layout or another number of them.
    #[error(
        "{path} is used by others for {found:?}, not for {wanted:?}; use another path, or the same everywhere"
    )]
    OtherUse {
        /// The node.
        path: NodePath,
        /// What its data says, or how it begins.
        found: String,
        /// What it would have to say.
        wanted: String,
    },
    /// What a mark says cannot be read, so that nobody knows what time was reserved.
    #[error(
        "{path} has {found:?}, where the Unix time in milliseconds and a writer should be; write a later time than that of all ids of this worker"
    )]
    BadMark {
        /// The mark.
        path: NodePath,
        /// What it says, or how that begins.
        found: String,
    },
    /// The clock of this process is too far ahead of the servers'. Nothing was reserved, and the number is free again.
    #[error(
        "the clock is {by:?} ahead of the servers' clock, {most:?} is allowed; set it right, or that of the servers"
    )]
    ClockAhead {
        /// How far it is ahead, at least.
        by: Duration,
        /// How far it may be, see [`Snowflakes::with_max_clock_ahead`](crate::Snowflakes::with_max_clock_ahead).
        most: Duration,
    },
    /// Somebody else wrote to the mark of a worker number that was just claimed, again and again.
    #[error("somebody else keeps writing to {path}")]
    Disturbed {
        /// The mark.
        path: NodePath,
    },
    /// The ensemble did not do it.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl ClaimError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::AllTaken { .. } | Self::ClockAhead { .. } | Self::Disturbed { .. } => {
                ErrorClass::Recoverable
            }
            Self::OtherUse { .. } | Self::BadMark { .. } => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

/// What a node says, as a message can have it.
pub(crate) fn excerpt(data: &[u8]) -> String {
    String::from_utf8_lossy(data).chars().take(60).collect()
}
