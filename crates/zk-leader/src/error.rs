//! Why a leadership or a whole candidacy ended.

use std::fmt;

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_lock::AcquireError;
use zk_lock::ReleaseError;

/// Why a participant is no longer in the race, for good.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum End {
    /// It left, or was dropped.
    #[error("it left the election")]
    Left,
    /// The session is over, and its nodes with it.
    ///
    /// A participant belongs to one session; join again with the next one, as
    /// [`supervise`](zk_core::SessionBuilder::supervise) does.
    #[error("the session is over")]
    SessionLost,
    /// It was the leader and no longer is, and it was not to get in line again.
    #[error("the leadership ended: {0}")]
    LeadershipLost(Loss),
    /// Somebody deleted its node while it waited, and it was not to get in line again.
    #[error("somebody else deleted the node {path} of a participant that waited")]
    NodeDeleted {
        /// The node.
        path: NodePath,
    },
    /// It cannot take part, and trying again would not change that.
    #[error("it cannot take part in the election")]
    Refused(#[source] AcquireError),
    /// The runtime that it ran on, which is that of the session, was shut down.
    #[error("the runtime that it ran on was shut down")]
    Stopped,
}

impl End {
    /// Returns what can be done about it.
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

/// Why a leadership is over, or can no longer be relied on, which counts as the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over, and its nodes with it.
    SessionLost,
    /// Somebody else deleted the leader's node, an operator perhaps.
    NodeDeleted,
    /// For too long nothing was heard of the ensemble: it may have expired the session and let another one lead.
    TrustLapsed,
    /// The leader resigned, left, or was dropped.
    Resigned,
}

impl Loss {
    /// Returns what can be done about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted | Self::TrustLapsed => ErrorClass::Recoverable,
            Self::Resigned => ErrorClass::Outcome,
        }
    }

    pub(crate) const fn of(loss: zk_lock::LockLoss) -> Self {
        match loss {
            zk_lock::LockLoss::SessionLost => Self::SessionLost,
            zk_lock::LockLoss::NodeDeleted => Self::NodeDeleted,
            zk_lock::LockLoss::Released => Self::Resigned,
            // And what may be added there: at least it is not known that we lead.
            _ => Self::TrustLapsed,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session is over",
            Self::NodeDeleted => "somebody else deleted the leader's node",
            Self::TrustLapsed => "the ensemble was not heard of for too long",
            Self::Resigned => "the leader resigned",
        })
    }
}

/// A participant could not resign as it should.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ResignError {
    /// It does not lead.
    #[error("it does not lead, so that there is nothing to resign from")]
    NotLeading,
    /// It had lost its leadership before it could resign: what it did last may have overlapped with another leader.
    #[error("the leadership had been lost before: {0}")]
    Lost(Loss),
    /// It no longer leads, but its node is not known to be gone, so that the next one may have to wait.
    ///
    /// The removal goes on in the background until the node or the session is gone.
    #[error("it no longer leads, but its node {path} is not known to be gone yet")]
    Unfinished {
        /// The node.
        path: NodePath,
        /// What kept it from being removed at once.
        source: Option<ReleaseError>,
    },
}

impl ResignError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotLeading => ErrorClass::Outcome,
            Self::Lost(loss) => loss.class(),
            Self::Unfinished { source, .. } => source
                .as_ref()
                .map_or(ErrorClass::Recoverable, ReleaseError::class),
        }
    }
}
