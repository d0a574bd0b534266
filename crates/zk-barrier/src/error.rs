//! The errors of double barriers.

use std::time::Duration;

use zk_core::{Error, ErrorClass, NodePath};

/// A member did not pass the barrier.
///
/// Its node is removed: before the error is returned if it is [`TimedOut`](Self::TimedOut), otherwise in the background
/// or with the session.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EnterError {
    /// Too few members came in time, or an earlier round did not end in time. The member has withdrawn: no round is opened
    /// that counts it. With [`Layout::Recipe`](crate::Layout::Recipe) another member may have counted it a moment before.
    #[error("{}", timed_out(path, *members, *threshold))]
    TimedOut {
        /// The path of the barrier.
        path: NodePath,
        /// How many members were there when it last read, with this one; zero if it waited for an earlier round to end.
        members: u32,
        /// How many have to be there.
        threshold: u32,
    },
    /// The call timed out, and the ensemble did not confirm that the member has withdrawn. A round may have been opened
    /// that counts it; to the others it then left at once.
    #[error(
        "timed out, and no reply says whether the round at {path} was opened; enter again once there is a connection"
    )]
    OutcomeUnknown {
        /// The path of the barrier.
        path: NodePath,
    },
    /// The session is over, and with it the member's node.
    #[error("the session was lost while entering; enter again with a new one")]
    SessionLost {
        /// The error of the request that was refused, if one was.
        source: Option<Error>,
    },
    /// Another client deleted the member's node. A member that waits notices it when the round is opened.
    #[error("another client has deleted {path}; enter again")]
    NodeDeleted {
        /// The path of the member's node.
        path: NodePath,
    },
    /// An operation failed: the server refused it. A round may have been opened that counted the member; to the others it
    /// then left at once.
    #[error(transparent)]
    Failed(Error),
}

impl EnterError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TimedOut { .. } | Self::OutcomeUnknown { .. } | Self::NodeDeleted { .. } => {
                ErrorClass::Recoverable
            }
            Self::SessionLost { .. } => ErrorClass::Fatal,
            Self::Failed(error) => error.class(),
        }
    }
}

impl From<Error> for EnterError {
    fn from(error: Error) -> Self {
        if error.is_fatal() {
            Self::SessionLost {
                source: Some(error),
            }
        } else {
            Self::Failed(error)
        }
    }
}

fn timed_out(path: &NodePath, members: u32, threshold: u32) -> String {
    if members == 0 {
        format!("an earlier round at {path} did not end in time; wait longer")
    } else {
        format!(
            "{members} of {threshold} members came to {path} in time; wait longer, or start the missing ones"
        )
    }
}

/// A member left, but cannot say that all others did.
///
/// Its node is removed, in the background if necessary, or with the session.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LeaveError {
    /// Other members have not left in time. The round goes on, and a member that enters now may join it again.
    #[error("other members are still in {path} after {waited:?}; this one has left")]
    TimedOut {
        /// The path of the barrier.
        path: NodePath,
        /// How long it waited.
        waited: Duration,
    },
    /// The session is over: the member counts as having left, and cannot see what others do.
    #[error("the session was lost while leaving; others may still be in the round")]
    SessionLost {
        /// The error of the request that was refused.
        source: Error,
    },
    /// An operation failed.
    #[error(transparent)]
    Failed(Error),
}

impl LeaveError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::TimedOut { .. } => ErrorClass::Recoverable,
            Self::SessionLost { .. } => ErrorClass::Fatal,
            Self::Failed(error) => error.class(),
        }
    }
}

impl From<Error> for LeaveError {
    fn from(error: Error) -> Self {
        if error.is_fatal() {
            Self::SessionLost { source: error }
        } else {
            Self::Failed(error)
        }
    }
}

/// Why a member is not in its round any more although it has not left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberLoss {
    /// The session is over, and with it the member's node.
    SessionLost,
    /// Another client deleted the member's node.
    NodeDeleted,
}

impl MemberLoss {
    /// Returns what a caller can do about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted => ErrorClass::Recoverable,
        }
    }
}

impl std::fmt::Display for MemberLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session was lost",
            Self::NodeDeleted => "another client has deleted the member's node",
        })
    }
}
