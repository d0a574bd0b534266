//! The records that several requests and replies share.
//!
//! Pure: no I/O and no clock.

use super::jute::{DecodeError, Decoder, Encoder};

/// The metadata of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Stat {
    /// The transaction that created the node.
    pub czxid: i64,
    /// The transaction that last changed its data.
    pub mzxid: i64,
    /// When it was created, in milliseconds since 1970.
    pub ctime: i64,
    /// When its data was last changed, in milliseconds since 1970.
    pub mtime: i64,
    /// The number of changes to its data.
    pub version: i32,
    /// The number of changes to its list of children.
    pub cversion: i32,
    /// The number of changes to its access list.
    pub aversion: i32,
    /// The session that owns an ephemeral node; other values mark containers and TTL nodes.
    pub ephemeral_owner: i64,
    /// The length of its data in bytes.
    pub data_length: i32,
    /// The number of its children.
    pub num_children: i32,
    /// The transaction that last changed its list of children.
    pub pzxid: i64,
}

impl Stat {
    pub(super) fn encode(&self, to: &mut Encoder) {
        to.long(self.czxid).long(self.mzxid);
        to.long(self.ctime).long(self.mtime);
        to.int(self.version).int(self.cversion).int(self.aversion);
        to.long(self.ephemeral_owner);
        to.int(self.data_length).int(self.num_children);
        to.long(self.pzxid);
    }
}

/// An entry of an access list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct AclEntry {
    /// The sum of 1 (read), 2 (write), 4 (create), 8 (delete) and 16 (admin).
    pub permissions: i32,
    /// How the identity is checked: `world`, `auth`, `digest`, `ip`, ….
    pub scheme: String,
    /// The identity, for example `anyone`.
    pub id: String,
}

impl AclEntry {
    pub(super) fn encode(&self, to: &mut Encoder) {
        to.int(self.permissions);
        to.string(&self.scheme).string(&self.id);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            permissions: from.int("the permissions of an access list")?,
            scheme: from.string("the scheme of an access list")?,
            id: from.string("the identity of an access list")?,
        })
    }
}
