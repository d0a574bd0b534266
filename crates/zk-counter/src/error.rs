//! The errors of a counter.

use std::time::Duration;

use zk_core::{Error, ErrorClass, NodePath};

/// An operation on an [`AtomicCounter`](crate::AtomicCounter), or on a value that is shared, failed. "The counter" is
/// its node.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CounterError {
    /// The result would not be a number of the counter's [format](crate::Format). The counter was not changed.
    #[error("the counter {path} is {value}, and the result would be outside its range")]
    Overflow {
        /// The counter.
        path: NodePath,
        /// Its number.
        value: i64,
    },
    /// The data of the node is not a number in this format. The node was not changed.
    #[error("{path} contains {found:?} instead of {expected}; use its format, or another path")]
    NotACounter {
        /// The node.
        path: NodePath,
        /// What the format expects.
        expected: &'static str,
        /// The data, or its beginning.
        found: String,
    },
    /// The operation was not done in time, and will not be: it was withdrawn. There was no connection, or other
    /// processes wrote first each time.
    #[error("the counter {path} was not reached within {waited:?}; nothing was changed")]
    TimedOut {
        /// The counter.
        path: NodePath,
        /// The time limit.
        waited: Duration,
    },
    /// The time limit passed while a write was in flight, which may still change the counter.
    #[error("a write of the counter {path} had no reply within {waited:?}; it may be applied")]
    OutcomeUnknown {
        /// The counter.
        path: NodePath,
        /// The time limit.
        waited: Duration,
    },
    /// A request failed. [`is_outcome_unknown`](Self::is_outcome_unknown) returns whether the counter may have been
    /// changed.
    #[error("the counter could not be read or written")]
    Failed(#[source] Error),
    /// There will be no further session, or the runtime was shut down. The operation was not sent.
    #[error("the session of the counter {path} is over, and there will be no other one")]
    Ended {
        /// The counter.
        path: NodePath,
    },
}

impl CounterError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Overflow { .. } | Self::NotACounter { .. } => ErrorClass::Outcome,
            Self::TimedOut { .. } | Self::OutcomeUnknown { .. } => ErrorClass::Recoverable,
            Self::Failed(error) => error.class(),
            Self::Ended { .. } => ErrorClass::Fatal,
        }
    }

    /// Returns whether the operation may have been applied, or may still be.
    ///
    /// After any other error the counter was not changed by it.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. } => true,
            Self::Failed(error) => error.is_outcome_unknown(),
            Self::Overflow { .. }
            | Self::NotACounter { .. }
            | Self::TimedOut { .. }
            | Self::Ended { .. } => false,
        }
    }
}

/// Returns the beginning of data that is not a number, for an error.
pub(crate) fn excerpt(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(&data[..data.len().min(EXCERPT)]);
    let more = if data.len() > EXCERPT { "…" } else { "" };
    format!("{text}{more}")
}

const EXCERPT: usize = 32;
