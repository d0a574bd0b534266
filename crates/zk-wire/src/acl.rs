//! Access control lists of nodes.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::ops::BitOr;
use std::sync::Arc;

use crate::proto::DecodeError;
use crate::proto::jute::{Decoder, Encoder};

/// The access control list of a node. Servers refuse an empty one. Cloning is cheap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acl(Arc<[AclEntry]>);

impl Acl {
    /// Creates a list of entries.
    pub fn new(entries: impl IntoIterator<Item = AclEntry>) -> Self {
        Self(entries.into_iter().collect())
    }

    /// Grants all permissions to all clients.
    pub fn open() -> Self {
        Self::new([AclEntry::new(Permissions::ALL, "world", "anyone")])
    }

    /// Grants only the permission to read, to all clients.
    pub fn read_only() -> Self {
        Self::new([AclEntry::new(Permissions::READ, "world", "anyone")])
    }

    /// Grants all permissions to the identities of the session that creates the node, and none to others.
    ///
    /// The client's certificate is one of them on encrypted connections: if several users share a certificate, name the
    /// user instead, `AclEntry::new(Permissions::ALL, "sasl", "alice")`.
    pub fn creator_only() -> Self {
        Self::new([AclEntry::new(Permissions::ALL, "auth", "")])
    }

    /// Returns the entries.
    pub fn entries(&self) -> &[AclEntry] {
        &self.0
    }

    pub(crate) fn encode(&self, to: &mut Encoder<'_>) {
        to.list(&self.0, |to, entry| {
            to.int(i32::from(entry.permissions.0));
            to.string(&entry.scheme).string(&entry.id);
        });
    }

    pub(crate) fn decode(from: &mut Decoder) -> Result<Self, DecodeError> {
        let entries = from.list("access rules", |from| {
            Ok(AclEntry {
                permissions: Permissions::from_bits(from.int("the permissions of an access rule")?),
                scheme: from.text("the scheme of an access rule")?,
                id: from.text("the identity of an access rule")?,
            })
        })?;
        Ok(Self::new(entries))
    }
}

impl Default for Acl {
    fn default() -> Self {
        Self::open()
    }
}

/// An entry of an access control list: permissions for an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclEntry {
    permissions: Permissions,
    scheme: String,
    id: String,
}

impl AclEntry {
    /// Grants `permissions` to the identity `id` of an authentication scheme (`world`, `auth`, `digest`, `ip`, …).
    pub fn new(permissions: Permissions, scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            permissions,
            scheme: scheme.into(),
            id: id.into(),
        }
    }

    /// Returns the permissions.
    pub fn permissions(&self) -> Permissions {
        self.permissions
    }

    /// Returns the authentication scheme.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the identity within the scheme.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A set of permissions, combined with `|`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions(u8);

impl Permissions {
    /// Read the data and list the children.
    pub const READ: Self = Self(1);
    /// Change the data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Change the access control list.
    pub const ADMIN: Self = Self(16);
    /// All permissions.
    pub const ALL: Self = Self(31);
    /// No permissions.
    pub const NONE: Self = Self(0);

    /// Returns the set that a number stands for in the protocol; unknown permissions are left out.
    fn from_bits(bits: i32) -> Self {
        Self(u8::try_from(bits & i32::from(Self::ALL.0)).unwrap_or_default())
    }

    /// Returns whether every permission of `other` is in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for Permissions {
    /// Formats the permissions as ZooKeeper's shell does: the letters of `cdrwa`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [
            ('c', Self::CREATE),
            ('d', Self::DELETE),
            ('r', Self::READ),
            ('w', Self::WRITE),
            ('a', Self::ADMIN),
        ];
        letters
            .iter()
            .filter(|(_, one)| self.contains(*one))
            .try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permissions({self})")
    }
}

#[cfg(test)]
mod tests;
