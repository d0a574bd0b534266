//! The errors of registering and updating.

use zk_core::codec::EncodeError;
use zk_core::{Error, ErrorClass, ErrorKind, NodePath, ParsePathError, SessionId};

use crate::instance::ServiceType;

/// An instance was not registered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The service or the instance does not form a valid node path.
    #[error("the instance has no valid node path")]
    InvalidPath(#[from] ParsePathError),
    /// The layout cannot express the instance.
    #[error("the instance cannot be encoded")]
    Encode(#[from] EncodeError),
    /// Instances of the type [`ServiceType::DynamicSequential`] cannot be registered.
    #[error(
        "an instance of type {} cannot be registered; build one of type DYNAMIC with a random id",
        .0.as_str()
    )]
    UnsupportedType(ServiceType),
    /// The node belongs to another session or to none; nothing was changed.
    #[error("{path} is taken by {}", holder(*.owner))]
    Taken {
        /// The node.
        path: NodePath,
        /// The session that owns the node; `None` if the node is persistent.
        owner: Option<SessionId>,
    },
    /// This registry, or a clone of it, has registered the node already, is about to, or is still unregistering it; nothing
    /// was changed.
    #[error(
        "this registry has registered {path} already; unregister it first, or choose another id"
    )]
    AlreadyRegistered {
        /// The node.
        path: NodePath,
    },
    /// The session is over. Register with the next one.
    #[error("the session is over; register with the next one")]
    SessionLost,
    /// The ensemble did not create the node.
    ///
    /// A node that may have been created is removed in the background, unless the instance is
    /// [persistent](ServiceType::is_persistent): then register it again.
    #[error(transparent)]
    Failed(Error),
}

impl RegisterError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::InvalidPath(_)
            | Self::Encode(_)
            | Self::UnsupportedType(_)
            | Self::Taken { .. }
            | Self::AlreadyRegistered { .. } => ErrorClass::Outcome,
            Self::SessionLost => ErrorClass::Fatal,
            Self::Failed(error) => error.class(),
        }
    }

    /// Returns whether a retry in the same session may succeed without intervention.
    ///
    /// A node of another session ends with that session, servers regain a quorum, and quotas become free.
    /// A persistent node, an instance of the same registry, access rules and an instance that cannot be encoded stay.
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
            Self::InvalidPath(_)
            | Self::Encode(_)
            | Self::UnsupportedType(_)
            | Self::AlreadyRegistered { .. }
            | Self::SessionLost => false,
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
        Some(owner) => {
            format!("session {owner}; wait until that session is over, or choose another id")
        }
        None => "a persistent node; delete it, or choose another id".to_owned(),
    }
}

/// An instance was not updated.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// The instance is no longer registered; [`Registration::lost`](crate::Registration::lost) returns why.
    #[error("{path} is no longer registered")]
    Gone {
        /// The path of its node.
        path: NodePath,
    },
    /// The layout cannot express it.
    #[error("the instance cannot be encoded")]
    Encode(#[from] EncodeError),
    /// The change affects the name of the node, which cannot be changed in place.
    #[error("the change would rename {path}; register the new instance, then unregister this one")]
    OtherNode {
        /// The path of its node.
        path: NodePath,
    },
    /// Other clients keep changing the node.
    #[error("other clients changed {path} between read and write {rounds} times; update again")]
    Contended {
        /// The node.
        path: NodePath,
        /// The number of attempts.
        rounds: u32,
    },
    /// The ensemble did not write the node, or the outcome is unknown.
    ///
    /// Update again: each update starts from the current data.
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
