//! The names and data of members' nodes, in the layouts of several clients.
//!
//! Pure: no I/O and no clock.

use std::borrow::Cow;

use zk_core::PersistentNodeOptions;

use crate::error::JoinError;

/// How the nodes of members are named, and where their id is.
///
/// Members of one group use one layout; nodes of other layouts are ignored where the names differ.
///
/// | layout | name | data |
/// |---|---|---|
/// | [`Curator`](Self::Curator), the default | `<id>` | the payload |
/// | [`KazooParty`](Self::KazooParty) | `<32 hexadecimal digits>__party__` | the id |
/// | [`KazooShallowParty`](Self::KazooShallowParty) | `<32 hexadecimal digits>-<id>` | `0` |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Layout {
    /// That of Curator's `GroupMember`. An id is a name of a node, and one member at a time has it.
    #[default]
    Curator,
    /// That of kazoo's `Party`. An id is any text, several members may have it, and there are no payloads.
    KazooParty,
    /// That of kazoo's `ShallowParty`. An id is a part of a name of a node, several members may have it, and there are no
    /// payloads.
    KazooShallowParty,
}

/// The node of a member.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MemberNode {
    pub(crate) name: String,
    pub(crate) data: Vec<u8>,
}

impl Layout {
    /// Returns whether members have payloads.
    pub const fn has_payloads(self) -> bool {
        matches!(self, Self::Curator)
    }

    /// Returns what kind of node a member has.
    ///
    /// A kazoo party creates its path once, and cannot be joined again when a container is gone.
    pub(crate) const fn node_options(self) -> PersistentNodeOptions {
        let options = PersistentNodeOptions::ephemeral();
        match self {
            Self::Curator => options,
            Self::KazooParty | Self::KazooShallowParty => options.with_persistent_parents(),
        }
    }

    /// Returns the node of a member. `unique` is a number that no other member has.
    pub(crate) fn node(
        self,
        id: &str,
        payload: Vec<u8>,
        unique: u128,
    ) -> Result<MemberNode, JoinError> {
        if !self.has_payloads() && !payload.is_empty() {
            return Err(JoinError::NoPayloads(self));
        }
        let is_in_name = !matches!(self, Self::KazooParty);
        if is_in_name && (id.is_empty() && self == Self::Curator || id.contains('/')) {
            return Err(JoinError::InvalidId { id: id.to_owned() });
        }
        let (name, data) = match self {
            Self::Curator => (id.to_owned(), payload),
            Self::KazooParty => (format!("{unique:032x}{PARTY}"), id.into()),
            Self::KazooShallowParty => (format!("{unique:032x}-{id}"), b"0".to_vec()),
        };
        Ok(MemberNode { name, data })
    }

    /// Returns the id and the payload of a member by its node; `None` if that is not the node of a member.
    pub(crate) fn parse<'a>(
        self,
        name: &'a str,
        data: &'a [u8],
    ) -> Option<(Cow<'a, str>, &'a [u8])> {
        match self {
            Self::Curator => Some((name.into(), data)),
            // As kazoo does, which searches for the text anywhere.
            Self::KazooParty if name.contains(PARTY) => Some((String::from_utf8_lossy(data), &[])),
            Self::KazooParty => None,
            // The first dash ends the unique part, which has none.
            Self::KazooShallowParty => {
                let (_, id) = name.split_once('-')?;
                Some((id.into(), &[]))
            }
        }
    }
}

/// What kazoo's `Party` appends to the unique part of a name.
const PARTY: &str = "__party__";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Layout; 3] = [
        Layout::Curator,
        Layout::KazooParty,
        Layout::KazooShallowParty,
    ];

    #[test]
    fn nodes_are_named_as_by_the_originals() {
        let unique = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
        for (layout, payload, name, data) in [
            (Layout::Curator, "p", "host-1", "p"),
            (
                Layout::KazooParty,
                "",
                "0123456789abcdef0123456789abcdef__party__",
                "host-1",
            ),
            (
                Layout::KazooShallowParty,
                "",
                "0123456789abcdef0123456789abcdef-host-1",
                "0",
            ),
        ] {
            let node = layout.node("host-1", payload.into(), unique).unwrap();
            assert_eq!((&*node.name, &*node.data), (name, data.as_bytes()));
        }
    }

    #[test]
    fn what_a_layout_cannot_have_is_refused() {
        for layout in ALL {
            let refused = |id: &str, payload: &str| layout.node(id, payload.into(), 1).is_err();
            assert_eq!(refused("a/b", ""), layout != Layout::KazooParty);
            assert_eq!(refused("", ""), layout == Layout::Curator);
            assert_eq!(refused("a", "p"), layout != Layout::Curator);
        }
        assert_eq!(Layout::KazooParty.parse("0-a", b"a"), None);
        assert_eq!(Layout::KazooShallowParty.parse("0__party__", b""), None);
    }

    proptest! {
        #[test]
        fn member_is_parsed_as_it_was_named(id in "[^/]{1,20}", payload: Vec<u8>, unique: u128) {
            for layout in ALL {
                let payload = if layout.has_payloads() { payload.clone() } else { Vec::new() };
                let node = layout.node(&id, payload.clone(), unique).unwrap();
                let parsed = layout.parse(&node.name, &node.data).unwrap();
                prop_assert_eq!(parsed, (Cow::from(&id), &*payload));
            }
        }

        #[test]
        fn no_foreign_node_panics(name: String, data: Vec<u8>) {
            for layout in ALL {
                drop(layout.parse(&name, &data));
            }
        }
    }
}
