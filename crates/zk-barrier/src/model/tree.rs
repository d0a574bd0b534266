//! The nodes of a barrier at the leader and at a follower.

use std::collections::VecDeque;

/// What identifies a member's node: its owner, and the transaction that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MemberId {
    pub(super) owner: usize,
    pub(super) czxid: i64,
}

impl MemberId {
    /// Returns the name of the node. Names are in order of the owners, as good as any.
    pub(super) fn name(self) -> String {
        format!("{}-{}", self.owner, self.czxid)
    }
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Tree {
    /// The newest transaction that it has applied.
    pub(super) zxid: i64,
    pub(super) round: u8,
    /// The transaction that opened the round, and the opener.
    pub(super) opening: Option<(i64, MemberId)>,
    pub(super) withdrawals: i32,
    pub(super) members: Vec<MemberId>,
}

impl Tree {
    pub(super) fn has(&self, member: MemberId) -> bool {
        self.members.contains(&member)
    }
}

/// The two servers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Servers {
    /// What the follower has applied, and the states of the leader since.
    states: VecDeque<Tree>,
}

pub(super) const LEADER: usize = 0;
pub(super) const FOLLOWER: usize = 1;

impl Servers {
    pub(super) fn new() -> Self {
        Self {
            states: VecDeque::from([Tree {
                zxid: 0,
                round: 0,
                opening: None,
                withdrawals: 0,
                members: Vec::new(),
            }]),
        }
    }

    pub(super) fn leader(&self) -> &Tree {
        self.states.back().expect("there is always a state")
    }

    pub(super) fn at(&self, server: usize) -> &Tree {
        if server == LEADER {
            self.leader()
        } else {
            self.states.front().expect("there is always a state")
        }
    }

    pub(super) fn can_follow(&self) -> bool {
        self.states.len() > 1
    }

    pub(super) fn follow(&mut self) {
        self.states.pop_front();
    }

    /// Executes a transaction; returns its number if it changed something.
    pub(super) fn execute(&mut self, change: impl FnOnce(&mut Tree) -> bool) -> Option<i64> {
        let mut tree = self.leader().clone();
        tree.zxid += 1;
        let zxid = tree.zxid;
        change(&mut tree).then(|| {
            self.states.push_back(tree);
            zxid
        })
    }

    /// Deletes a member, if it exists.
    pub(super) fn delete(&mut self, member: MemberId) -> Option<i64> {
        self.execute(|tree| {
            let is_there = tree.has(member);
            tree.members.retain(|other| *other != member);
            is_there
        })
    }

    pub(super) fn end_session(&mut self, owner: usize) {
        self.execute(|tree| {
            let before = tree.members.len();
            tree.members.retain(|member| member.owner != owner);
            tree.members.len() != before
        });
    }
}
