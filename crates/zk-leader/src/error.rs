//! The reasons for the end of a participant or of a leadership.

use std::fmt;

use zk_core::{ErrorClass, NodePath};
use zk_lock::{AcquireError, ReleaseError};

/// Why a participant has left the election for good.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ParticipantEnd {
    /// The participant left or was dropped.
    #[error("the participant left the election")]
    Left,
    /// The session is over, and its nodes are deleted.
    ///
    /// A participant belongs to one session. Join again with the next one, as
    /// [`supervise`](zk_core::SessionBuilder::supervise) does.
    #[error("the session is over")]
    SessionLost,
    /// The leadership ended, and [`Rejoin::Never`](crate::Rejoin::Never) was set.
    #[error("the leadership ended: {0}")]
    LeadershipLost(LeadershipLoss),
    /// Another client deleted its node while it waited, and [`Rejoin::Never`](crate::Rejoin::Never) was set.
    #[error("another client deleted the node {path} of a waiting participant")]
    NodeDeleted {
        /// The node.
        path: NodePath,
    },
    /// The ensemble refuses the participant, and a retry would not help.
    #[error("the participant cannot join the election")]
    Refused(#[source] AcquireError),
    /// The runtime of the session, on which the participant runs, was shut down.
    #[error("the runtime of the participant was shut down")]
    Stopped,
}

impl ParticipantEnd {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::LeadershipLost(loss) => loss.class(),
            Self::NodeDeleted { .. } => ErrorClass::Recoverable,
            Self::Refused(error) => error.class(),
            Self::Left | Self::Stopped => ErrorClass::Outcome,
        }
    }
}

/// Why a leadership is lost: it is over, or no longer proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeadershipLoss {
    /// The session is over, and its nodes are deleted.
    SessionLost,
    /// Another client deleted the leader's node, perhaps an operator.
    NodeDeleted,
    /// The ensemble did not reply for too long: it may have expired the session and let another participant lead.
    SessionLeaseExpired,
    /// The leader resigned, left, or was dropped.
    Resigned,
}

impl LeadershipLoss {
    /// Returns what a caller can do about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted | Self::SessionLeaseExpired => ErrorClass::Recoverable,
            Self::Resigned => ErrorClass::Outcome,
        }
    }

    pub(crate) const fn of(loss: zk_lock::LockLoss) -> Self {
        match loss {
            zk_lock::LockLoss::SessionLost => Self::SessionLost,
            zk_lock::LockLoss::NodeDeleted => Self::NodeDeleted,
            zk_lock::LockLoss::Released => Self::Resigned,
            // Includes variants added later: in each case, the leadership is not proven.
            _ => Self::SessionLeaseExpired,
        }
    }
}

impl fmt::Display for LeadershipLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session is over",
            Self::NodeDeleted => "another client deleted the leader's node",
            Self::SessionLeaseExpired => "the ensemble did not reply for too long",
            Self::Resigned => "the leader resigned",
        })
    }
}

/// A participant did not resign in order.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResignError {
    /// The participant does not lead.
    #[error("the participant does not lead and cannot resign")]
    NotLeading,
    /// The leadership was lost before the participant resigned: its last actions may have overlapped with another
    /// leader.
    #[error("the leadership was lost before the participant resigned: {0}")]
    Lost(LeadershipLoss),
    /// The participant no longer leads, but its node may still exist, so that the next participant may have to wait.
    ///
    /// The deletion continues in the background until the node is deleted or the session is over.
    #[error(
        "the participant no longer leads, but its node {path} may still exist; the deletion continues in the background"
    )]
    Pending {
        /// The node.
        path: NodePath,
        /// Why it was not deleted at once.
        source: Option<ReleaseError>,
    },
}

impl ResignError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotLeading => ErrorClass::Outcome,
            Self::Lost(loss) => loss.class(),
            Self::Pending { source, .. } => source
                .as_ref()
                .map_or(ErrorClass::Recoverable, ReleaseError::class),
        }
    }
}
