//! The records that requests and replies share.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::DecodeError;
use super::jute::{Decoder, Encoder};

/// The metadata of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Stat {
    /// The transaction that created the node.
    pub czxid: i64,
    /// The transaction that last changed its data.
    pub mzxid: i64,
    /// When it was created, by the leader's clock, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last changed, by the leader's clock, in milliseconds since 1970.
    pub mtime: i64,
    /// How often its data was changed.
    pub version: i32,
    /// How often its list of children was changed.
    pub cversion: i32,
    /// How often its access rules were changed.
    pub aversion: i32,
    /// The session that owns it; 0 if it is not ephemeral, other values for containers and nodes with a time to live.
    pub ephemeral_owner: i64,
    /// The length of its data in bytes.
    pub data_length: i32,
    /// The number of its children.
    pub num_children: i32,
    /// The transaction that last changed its list of children.
    pub pzxid: i64,
}

impl Stat {
    pub(crate) fn decode(from: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: from.long("the czxid of a stat")?,
            mzxid: from.long("the mzxid of a stat")?,
            ctime: from.long("the ctime of a stat")?,
            mtime: from.long("the mtime of a stat")?,
            version: from.int("the version of a stat")?,
            cversion: from.int("the cversion of a stat")?,
            aversion: from.int("the aversion of a stat")?,
            ephemeral_owner: from.long("the owner in a stat")?,
            data_length: from.int("the data length in a stat")?,
            num_children: from.int("the number of children in a stat")?,
            pzxid: from.long("the pzxid of a stat")?,
        })
    }

    /// Returns whether the server filled it in.
    pub(crate) const fn is_known(&self) -> bool {
        self.czxid > 0
    }
}

/// An entry of a node's access rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct AclEntry {
    /// The granted permissions: the sum of 1 (read), 2 (write), 4 (create), 8 (delete) and 16 (admin).
    pub permissions: i32,
    /// How the identity is checked, for example `world`, `digest` or `ip`.
    pub scheme: String,
    /// The identity, for example `anyone`.
    pub id: String,
}

impl AclEntry {
    /// Everyone may do everything.
    pub fn open() -> Self {
        Self {
            permissions: 31,
            scheme: "world".to_owned(),
            id: "anyone".to_owned(),
        }
    }

    pub(crate) fn encode(&self, to: &mut Encoder<'_>) {
        to.int(self.permissions);
        to.string(&self.scheme).string(&self.id);
    }

    pub(crate) fn decode(from: &mut Decoder) -> Result<Self, DecodeError> {
        Ok(Self {
            permissions: from.int("the permissions of an access rule")?,
            scheme: from.text("the scheme of an access rule")?,
            id: from.text("the identity of an access rule")?,
        })
    }
}

/// What proves an identity to the servers. Its debug output does not contain the secret.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Credentials {
    /// How they are checked, for example `digest`.
    pub scheme: String,
    /// The secret, for example `user:password`.
    pub data: Bytes,
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
    /// Its path, without the number that a sequential mode adds.
    pub path: String,
    /// Its data.
    pub data: Bytes,
    /// Its access rules; servers refuse an empty list.
    pub acl: Vec<AclEntry>,
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
    pub(crate) const fn is_sequential(self) -> bool {
        match self {
            Self::PersistentSequential
            | Self::EphemeralSequential
            | Self::PersistentSequentialWithTtl(_) => true,
            Self::Persistent | Self::Ephemeral | Self::Container | Self::PersistentWithTtl(_) => {
                false
            }
        }
    }

    pub(crate) fn ttl(self) -> Option<i64> {
        match self {
            Self::PersistentWithTtl(ttl) | Self::PersistentSequentialWithTtl(ttl) => {
                Some(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
            }
            _ => None,
        }
    }
}

impl NewNode {
    pub(crate) fn encode(&self, to: &mut Encoder<'_>) {
        to.string(&self.path).buffer(&self.data);
        to.list(&self.acl, |to, entry| entry.encode(to));
        to.int(self.mode.flags());
        if let Some(ttl) = self.mode.ttl() {
            to.long(ttl);
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
