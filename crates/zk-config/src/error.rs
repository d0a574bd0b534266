//! The errors of a publication.

use zk_core::codec::EncodeError;
use zk_core::{Error, ErrorClass, ErrorKind, NodePath, ParsePathError, Stat};

use crate::plan::Expected;

/// A value was not published, or the outcome is unknown.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The path is not a valid node path.
    #[error("the path cannot be published at")]
    InvalidPath(#[from] ParsePathError),
    /// The path is valid, but reserved.
    #[error("{path} cannot be published at: {rule}")]
    ReservedPath {
        /// The path.
        path: NodePath,
        /// The reason and the remedy.
        rule: &'static str,
    },
    /// The codec cannot encode the value.
    #[error("the value for {path} was not published")]
    Encode {
        /// The key.
        path: NodePath,
        /// The error of the codec.
        source: EncodeError,
    },
    /// The [expected](Expected) condition does not hold. Nothing was changed.
    #[error("{path} is not as expected: {}", describe(.expected, .found.as_deref()))]
    Conflict {
        /// The first key whose condition does not hold.
        path: NodePath,
        /// The condition.
        expected: Expected,
        /// The stat of the node, or `None` if there is none.
        found: Option<Box<Stat>>,
    },
    /// The version of the node, or the expected one, is -1. Servers take -1 for any version, so that a conditional
    /// write would overwrite writes in between. Nothing was changed.
    #[error(
        "the version -1 of {path} means any version to servers; write the node once with `Session::set`"
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
        /// The requested revision.
        revision: i64,
    },
    /// The history has several entries of the revision, of which only one can be genuine. Nothing was changed.
    ///
    /// Delete those that are not; [`HistoryEntry::is_verified`](crate::HistoryEntry::is_verified) shows them.
    #[error(
        "the history of {path} has {} entries of revision {revision:#x}, and a revision is replaced only once: {}; \
         delete those that `Publisher::history` does not show as verified",
        .entries.len(), list(.entries)
    )]
    AmbiguousRevision {
        /// The key.
        path: NodePath,
        /// The requested revision.
        revision: i64,
        /// The nodes of the entries.
        entries: Vec<NodePath>,
    },
    /// The servers do not prove that the key had this revision. Nothing was changed.
    ///
    /// The entry may have been written by another client, imported or mirrored; or another client has written or
    /// deleted the key without a history since.
    #[error(
        "{entry} is not proven to be revision {revision:#x} of {path}: it was not created by the transaction that \
         replaced that revision, or was changed since; read it, and use `Publisher::roll_back_unverified` if it is right"
    )]
    UnverifiedRevision {
        /// The key.
        path: NodePath,
        /// The requested revision.
        revision: i64,
        /// The node of the entry.
        entry: NodePath,
    },
    /// The ACL of the node must be copied, to the history or to a node that is created again, and the server does not
    /// return its digests to this client: a copy would lock every client out. Nothing was changed.
    #[error(
        "the ACL of {path} must be copied, and servers return its digests only to clients with the permission ADMIN; \
         grant ADMIN to this client, publish without a history, or roll back with `PublishOptions::with_acl`"
    )]
    HiddenAcl {
        /// The key.
        path: NodePath,
    },
    /// The request was sent, its reply was lost, and the nodes do not show whether it was carried out.
    ///
    /// Either all keys were published or none.
    /// Read them and decide again. With a [history](crate::PublishOptions::with_history) this is rare.
    #[error("it is unknown whether {path} was published: {reason}; read it and decide again")]
    OutcomeUnknown {
        /// The first key.
        path: NodePath,
        /// Why it is unknown.
        reason: String,
        /// The error of the session.
        source: Error,
    },
    /// Other clients wrote the same keys before each attempt until the deadline. Nothing was changed.
    #[error(
        "other clients wrote {path} before each of {attempts} attempts until the deadline; retry later"
    )]
    Contended {
        /// The first key.
        path: NodePath,
        /// The number of attempts.
        attempts: u32,
    },
    /// An operation of the session failed. Nothing was changed, unless the error says otherwise.
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

    /// Returns whether it may have been published although no reply arrived.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::OutcomeUnknown { .. } => true,
            Self::Operation(error) => error.is_outcome_unknown(),
            _ => false,
        }
    }

    /// Returns whether the expected condition did not hold.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// Returns whether the value is larger than servers accept. It was not sent.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::Operation(error) if error.kind() == ErrorKind::TooLarge)
    }
}

fn list(nodes: &[NodePath]) -> String {
    let nodes: Vec<_> = nodes.iter().map(NodePath::as_str).collect();
    nodes.join(", ")
}

fn describe(expected: &Expected, found: Option<&Stat>) -> String {
    match (expected, found) {
        (Expected::Absent, _) => "the node exists; publish with its version or revision".to_owned(),
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
