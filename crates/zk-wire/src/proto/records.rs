//! The records that requests and replies share.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::jute::Encoder;
use crate::acl::Acl;
use crate::node_data::NodeData;
use crate::path::NodePath;

/// What proves an identity to the servers. Its debug output does not contain the secret.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Credentials {
    /// How they are checked, for example `digest`.
    pub scheme: String,
    /// The secret, for example `user:password`.
    pub data: Bytes,
}

impl Credentials {
    /// Returns credentials of a scheme.
    pub fn new(scheme: impl Into<String>, data: impl Into<Bytes>) -> Self {
        Self {
            scheme: scheme.into(),
            data: data.into(),
        }
    }

    /// Returns those of the scheme `digest`.
    pub fn digest(user: &str, password: &str) -> Self {
        Self::new("digest", format!("{user}:{password}"))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

/// What a SASL mechanism says, in either direction. Its debug output contains only the length.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct SaslToken(pub Bytes);

impl fmt::Debug for SaslToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SaslToken({} bytes)", self.0.len())
    }
}

/// A node to create.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct NewNode {
    /// Its path, to which a sequential mode adds a number.
    pub path: NodePath,
    /// Its data.
    pub data: NodeData,
    /// Its access rules; servers refuse an empty list.
    pub acl: Acl,
    /// Its kind.
    pub mode: CreateMode,
}

/// The kind of a node to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum CreateMode {
    /// It stays until it is deleted.
    Persistent,
    /// As [`Persistent`](Self::Persistent), and the server adds a number to its name.
    PersistentSequential,
    /// It is deleted with its session.
    Ephemeral,
    /// As [`Ephemeral`](Self::Ephemeral), and the server adds a number to its name.
    EphemeralSequential,
    /// The server deletes it some time after its last child was deleted; from 3.5.1 on.
    Container,
    /// The server deletes it when it has had no child and no change for this long, in whole milliseconds; from 3.5.3
    /// on, if the server allows it.
    PersistentWithTtl(Duration),
    /// As [`PersistentWithTtl`](Self::PersistentWithTtl), and the server adds a number to its name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    const fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
            Self::Container => 4,
            Self::PersistentWithTtl(_) => 5,
            Self::PersistentSequentialWithTtl(_) => 6,
        }
    }

    /// Returns whether the server adds a number to the name.
    pub const fn is_sequential(self) -> bool {
        match self {
            Self::PersistentSequential
            | Self::EphemeralSequential
            | Self::PersistentSequentialWithTtl(_) => true,
            Self::Persistent | Self::Ephemeral | Self::Container | Self::PersistentWithTtl(_) => {
                false
            }
        }
    }

    /// Returns whether the node is deleted with its session.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Returns how long the node may stay without a child and a change.
    pub const fn ttl(self) -> Option<Duration> {
        match self {
            Self::PersistentWithTtl(ttl) | Self::PersistentSequentialWithTtl(ttl) => Some(ttl),
            _ => None,
        }
    }
}

impl NewNode {
    pub(crate) fn encode(&self, to: &mut Encoder<'_>) {
        to.path(&self.path).buffer(self.data.as_slice());
        self.acl.encode(to);
        to.int(self.mode.flags());
        if let Some(ttl) = self.mode.ttl() {
            to.long(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        }
    }
}

/// What happened to a watched node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum WatchEventKind {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was changed.
    DataChanged,
    /// A child of it was created or deleted.
    ChildrenChanged,
}

/// The watches that the server keeps apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum WatchKind {
    /// Set by a read of a node's data, or by an `exists` that found the node.
    Data,
    /// Set by an `exists` that found no node.
    Exist,
    /// Set by a read of a node's children.
    Child,
    /// Set by `addWatch`: reports every change of the node and of its list of children.
    Persistent,
    /// Set by `addWatch`: reports the creation, deletion and new data of the node and of all below it.
    PersistentRecursive,
}
