//! The members of a group at one moment, and the difference between two moments.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

use bytes::Bytes;
use zk_core::SessionId;

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The id that it joined with.
    pub id: String,
    /// Its payload; empty in layouts without payloads.
    pub payload: Bytes,
    /// The session that it is a member with.
    pub session: SessionId,
    /// The name of its node.
    pub name: String,
    /// The transaction that created its node. It orders the members by age.
    pub czxid: i64,
    /// The transaction that last changed its payload.
    pub mzxid: i64,
}

/// The members of a group at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    /// Ordered by id, then by name.
    members: Vec<Member>,
    is_synchronized: bool,
}

/// A difference between the members of two moments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberChange {
    /// A member joined, or left and joined again.
    Joined(Member),
    /// A member left, or its session ended.
    Left(Member),
    /// The payload of a member was written.
    PayloadChanged {
        /// The member before.
        old: Member,
        /// The member after.
        new: Member,
    },
}

impl Members {
    pub(crate) fn new(mut members: Vec<Member>, is_synchronized: bool) -> Self {
        members.sort_unstable_by(|a, b| (&a.id, &a.name).cmp(&(&b.id, &b.name)));
        Self {
            members,
            is_synchronized,
        }
    }

    /// Returns whether these are all members that can be read, apart from changes on their way. Otherwise the group is
    /// being loaded, the connection is lost, or [the group cannot be listed](crate::Group::partial_read), and these are the
    /// members that were last known.
    pub fn is_synchronized(&self) -> bool {
        self.is_synchronized
    }

    /// Returns the members, ordered by id; those with equal ids by the names of their nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Returns the ids, in order. In layouts that allow it, several may be equal.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| &*member.id)
    }

    /// Returns a member with this id.
    pub fn get(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns what has changed since `earlier`. A member that left and joined again has left and joined.
    pub fn changes_since(&self, earlier: &Self) -> Vec<MemberChange> {
        let (before, now) = (earlier.by_name(), self.by_name());
        let left = earlier
            .members
            .iter()
            .filter(|one| !now.contains_key(&(&*one.name, one.czxid)));
        let mut changes: Vec<_> = left.cloned().map(MemberChange::Left).collect();
        for new in self.members.iter().cloned() {
            let old = before.get(&(&*new.name, new.czxid)).copied().cloned();
            match old {
                None => changes.push(MemberChange::Joined(new)),
                Some(old) if old.mzxid != new.mzxid => {
                    changes.push(MemberChange::PayloadChanged { old, new });
                }
                Some(_) => {}
            }
        }
        changes
    }

    /// Returns the members by the names of their nodes and the transactions that created them.
    fn by_name(&self) -> HashMap<(&str, i64), &Member> {
        let members = self.members.iter();
        members.map(|one| ((&*one.name, one.czxid), one)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, name: &str, czxid: i64, mzxid: i64) -> Member {
        Member {
            id: id.to_owned(),
            payload: Bytes::new(),
            session: SessionId::from_i64(1),
            name: name.to_owned(),
            czxid,
            mzxid,
        }
    }

    #[test]
    fn members_are_ordered_by_id_then_name() {
        let members = Members::new(
            vec![
                member("b", "1", 1, 1),
                member("a", "2", 2, 2),
                member("a", "1", 3, 3),
            ],
            true,
        );
        let order: Vec<_> = members.iter().map(|one| (&*one.id, &*one.name)).collect();
        assert_eq!(order, [("a", "1"), ("a", "2"), ("b", "1")]);
        assert_eq!(members.ids().collect::<Vec<_>>(), ["a", "a", "b"]);
        assert_eq!(members.get("a").map(|one| one.czxid), Some(3));
        assert_eq!((members.len(), members.get("c")), (3, None));
    }

    #[test]
    fn difference_tells_rejoined_members_from_changed_ones() {
        let stays = member("stays", "stays", 1, 1);
        let written = |mzxid| member("written", "written", 2, mzxid);
        let again = |czxid| member("again", "again", czxid, czxid);
        let (left, joined) = (
            member("left", "left", 4, 4),
            member("joined", "joined", 9, 9),
        );
        let before = vec![stays.clone(), written(2), again(3), left.clone()];
        let after = vec![stays, written(7), again(8), joined.clone()];
        let (before, after) = (Members::new(before, true), Members::new(after, true));
        assert_eq!(after.changes_since(&after), []);
        assert_eq!(
            after.changes_since(&before),
            [
                MemberChange::Left(again(3)),
                MemberChange::Left(left),
                MemberChange::Joined(again(8)),
                MemberChange::Joined(joined),
                MemberChange::PayloadChanged {
                    old: written(2),
                    new: written(7)
                },
            ]
        );
    }
}
