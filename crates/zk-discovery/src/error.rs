//! Why something was not done.

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::SessionId;
use zk_core::codec::EncodeError;

use crate::instance::ServiceType;

/// An instance was not registered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The service or the instance can have no node.
    #[error("there can be no node for the instance")]
    InvalidPath(#[from] ParsePathError),
    /// The layout cannot express the instance.
    #[error("the instance cannot be written")]
    Encode(#[from] EncodeError),
    /// An instance of this type does not go with its session.
    #[error(
        "an instance of the type {} is not registered here; build one of the type DYNAMIC",
        .0.as_str()
    )]
    NotDynamic(ServiceType),
    /// The node belongs to somebody else, or stays by itself; nothing was changed.
    #[error("{path} is taken by {}", holder(*.owner))]
    Taken {
        /// The node.
        path: NodePath,
        /// The session it goes with; none if it does not go by itself.
        owner: Option<SessionId>,
    },
    /// The session is over. Register with the next one.
    #[error("the session is over")]
    SessionLost,
    /// The ensemble did not do it.
    ///
    /// What may have been made is removed in the background.
    #[error(transparent)]
    Failed(Error),
}

impl RegisterError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::InvalidPath(_) | Self::Encode(_) | Self::NotDynamic(_) | Self::Taken { .. } => {
                ErrorClass::Outcome
            }
            Self::SessionLost => ErrorClass::Fatal,
            Self::Failed(error) => error.class(),
        }
    }

    /// Tells whether the same may be answered otherwise later, in the same session and without anybody's doing.
    ///
    /// A node of another session goes with that one, servers find a quorum again, and room becomes free.
    /// A node without a session stays, and so do access rules and what cannot be written.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Taken { owner, .. } => owner.is_some(),
            Self::Failed(error) => !matches!(
                error.kind(),
                ErrorKind::NoAuth
                    | ErrorKind::InvalidAcl
                    | ErrorKind::InvalidArgument
                    | ErrorKind::InvalidPath
                    | ErrorKind::ParentIsEphemeral
                    | ErrorKind::TooLarge
                    | ErrorKind::Unsupported
            ),
            Self::InvalidPath(_) | Self::Encode(_) | Self::NotDynamic(_) | Self::SessionLost => {
                false
            }
        }
    }
}

impl From<Error> for RegisterError {
    fn from(error: Error) -> Self {
        if error.is_fatal() {
            Self::SessionLost
        } else {
            Self::Failed(error)
        }
    }
}

fn holder(owner: Option<SessionId>) -> String {
    match owner {
        Some(owner) => format!("session {owner}; wait until that is over, or choose another id"),
        None => "a node that goes with no session; remove it, or choose another id".to_owned(),
    }
}

/// An instance was not updated.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// It is not registered any more; [`Registration::lost`](crate::Registration::lost) tells why.
    #[error("{path} is not registered any more")]
    Gone {
        /// The node that it had.
        path: NodePath,
    },
    /// The layout cannot express it.
    #[error("the instance cannot be written")]
    Encode(#[from] EncodeError),
    /// The layout has what is to be changed in the name of the node, which cannot be changed in place.
    #[error(
        "the change would make another node of {path}; register the other instance, then unregister this one"
    )]
    OtherNode {
        /// The node that it has.
        path: NodePath,
    },
    /// Others change the node all the time.
    #[error("{path} was changed by others between each look and each write, {rounds} times")]
    Contended {
        /// The node.
        path: NodePath,
        /// How often it was tried.
        rounds: u32,
    },
    /// The ensemble did not do it, or nobody knows whether it did.
    ///
    /// Update again: each update begins with what is there.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl UpdateError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Gone { .. } | Self::Encode(_) | Self::OtherNode { .. } => ErrorClass::Outcome,
            Self::Contended { .. } => ErrorClass::Recoverable,
            Self::Failed(error) => error.class(),
        }
    }
}
