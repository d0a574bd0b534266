//! Why something was not published.

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Stat;
use zk_core::codec::EncodeError;

use crate::plan::Expected;

/// A value was not published, or nobody knows whether it was.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The path is not one that can be published at.
    #[error("nothing can be published there")]
    InvalidPath(#[from] ParsePathError),
    /// The path cannot be published at, although it is one.
    #[error("nothing can be published at {path}: {rule}")]
    ReservedPath {
        /// The path.
        path: NodePath,
        /// What is wrong with it, and what would be right.
        rule: &'static str,
    },
    /// The value cannot be expressed in the format.
    #[error("the value for {path} was not published")]
    Encode {
        /// Where it was to go.
        path: NodePath,
        /// What is wrong with it.
        source: EncodeError,
    },
    /// What was expected is not so, and nothing was changed.
    #[error("{path} is not as expected: {}", describe(.expected, .found.as_deref()))]
    Conflict {
        /// The first key that is not as expected.
        path: NodePath,
        /// What was expected of it.
        expected: Expected,
        /// What is there instead, or `None` when there is no node.
        found: Option<Box<Stat>>,
    },
    /// The version of the node, or the one expected, is -1, which servers take for any version: a write under it would
    /// overwrite whatever comes between. Nothing was changed.
    #[error(
        "{path} cannot be written under the version -1, which servers take for any; write it once with `Session::set`"
    )]
    VersionIsAny {
        /// The key.
        path: NodePath,
    },
    /// The history has no such revision.
    #[error(
        "the history of {path} has no revision {revision:#x}; `Publisher::history` lists those it has"
    )]
    NoSuchRevision {
        /// The key.
        path: NodePath,
        /// The revision that was asked for.
        revision: i64,
    },
    /// The access rules have to be copied, to the entry of the history or back to a node that was removed, and the server
    /// does not return them to this client: no client could read the data under the copy. Nothing was changed.
    #[error(
        "the access rules of {path} have to be copied, and their digests are returned only to clients with the permission \
         ADMIN; grant ADMIN to this client, publish without a history, or roll back with `PublishOptions::with_acl`"
    )]
    HiddenAcl {
        /// The key.
        path: NodePath,
    },
    /// The request was sent, its answer was lost, and what is there does not tell whether it was carried out.
    ///
    /// Either all keys were published or none.
    /// Read them and decide anew; a [history](crate::PublishOptions::with_history) leaves this to rare cases.
    #[error("nobody knows whether {path} was published: {reason}")]
    OutcomeUnknown {
        /// The first key.
        path: NodePath,
        /// Why it is not known.
        reason: String,
        /// What the session said.
        source: Error,
    },
    /// Others kept writing the same keys until the time was over; nothing was changed.
    #[error(
        "{path} was written by others each time before this could be, {attempts} times until the deadline"
    )]
    Contended {
        /// The first key.
        path: NodePath,
        /// How often it was tried.
        attempts: u32,
    },
    /// The session could not carry it out; nothing was changed, unless the error says otherwise.
    #[error(transparent)]
    Operation(#[from] Error),
}

impl PublishError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Operation(error) => error.class(),
            Self::OutcomeUnknown { source, .. } => match source.class() {
                ErrorClass::Fatal => ErrorClass::Fatal,
                _ => ErrorClass::Recoverable,
            },
            Self::Contended { .. } => ErrorClass::Recoverable,
            _ => ErrorClass::Outcome,
        }
    }

    /// Tells whether it may have been published although no answer came.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. } => true,
            Self::Operation(error) => error.is_outcome_unknown(),
            _ => false,
        }
    }

    /// Tells whether somebody else was there first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Tells whether the value is larger than servers take; it was not sent.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Operation(error) if error.kind() == ErrorKind::TooLarge)
    }
}

fn describe(expected: &Expected, found: Option<&Stat>) -> String {
    match (expected, found) {
        (Expected::Absent, _) => {
            "there is a node; publish under its version or revision".to_owned()
        }
        (_, None) => "there is no node".to_owned(),
        (Expected::Version(version), Some(stat)) => {
            format!("it has version {}, not {version}", stat.version)
        }
        (Expected::Revision(revision), Some(stat)) => {
            format!("it has revision {:#x}, not {revision:#x}", stat.mzxid)
        }
        (Expected::Any, Some(_)) => "it changed".to_owned(),
    }
}
