//! The leader, the follower, and what is on its way to them.

use std::collections::VecDeque;

use crate::layout::Kind;

/// A change that the leader has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Change {
    Created(Node),
    Deleted {
        number: usize,
    },
    /// A session ended, with all that belonged to it.
    Ended {
        owner: usize,
    },
}

/// A node of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) owner: usize,
    pub(super) kind: Kind,
    pub(super) number: usize,
}

/// A request that changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Create(Kind),
    Delete { number: usize },
}

/// The two servers. What both have carried out is not told apart by how it came about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Servers {
    trees: [Tree; COUNT],
    /// What the leader has carried out and the follower has not.
    ahead: VecDeque<Change>,
    /// What each client has sent and the leader has not committed.
    requests: Vec<VecDeque<Request>>,
    created: usize,
}

/// What a server has.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tree {
    nodes: Vec<Node>,
    /// Whether the sessions of the clients are alive.
    alive: Vec<bool>,
}

/// How many servers there are.
pub(super) const COUNT: usize = 2;
pub(super) const LEADER: usize = 0;
pub(super) const FOLLOWER: usize = 1;

impl Servers {
    pub(super) fn new(clients: usize) -> Self {
        let tree = Tree {
            nodes: Vec::new(),
            alive: vec![true; clients],
        };
        Self {
            trees: [tree.clone(), tree],
            ahead: VecDeque::new(),
            requests: vec![VecDeque::new(); clients],
            created: 0,
        }
    }

    /// Whether a session is alive, as far as this server knows.
    pub(super) fn is_alive_at(&self, server: usize, client: usize) -> bool {
        self.trees[server].alive[client]
    }

    pub(super) fn has_request(&self, client: usize) -> bool {
        !self.requests[client].is_empty()
    }

    pub(super) fn send(&mut self, client: usize, request: Request) {
        self.requests[client].push_back(request);
    }

    /// The leader knows the session at another place now.
    pub(super) fn refuse_older(&mut self, client: usize) {
        self.requests[client].clear();
    }

    /// Carries out the oldest request of a client, unless its session is over.
    pub(super) fn commit(&mut self, client: usize) {
        let Some(request) = self.requests[client].pop_front() else {
            return;
        };
        if !self.is_alive_at(LEADER, client) {
            return;
        }
        match request {
            Request::Create(kind) => {
                self.change(Change::Created(Node {
                    owner: client,
                    kind,
                    number: self.created,
                }));
                self.created += 1;
            }
            // A node that is gone is not there to be deleted.
            Request::Delete { number } if self.is_at(LEADER, number) => {
                self.change(Change::Deleted { number });
            }
            Request::Delete { .. } => {}
        }
    }

    /// Ends a session, and refuses what is on its way.
    pub(super) fn expire(&mut self, client: usize) {
        self.requests[client].clear();
        self.change(Change::Ended { owner: client });
    }

    fn change(&mut self, change: Change) {
        self.trees[LEADER].carry_out(change);
        self.ahead.push_back(change);
    }

    pub(super) fn can_follow(&self) -> bool {
        !self.ahead.is_empty()
    }

    pub(super) fn follow(&mut self) {
        if let Some(change) = self.ahead.pop_front() {
            self.trees[FOLLOWER].carry_out(change);
        }
    }

    /// By how much a server is ahead of the follower.
    pub(super) fn lead(&self, server: usize) -> usize {
        if server == LEADER {
            self.ahead.len()
        } else {
            0
        }
    }

    /// Whether a server has carried out all that the leader has: what a `sync` waits for.
    pub(super) fn has_caught_up(&self, server: usize) -> bool {
        server == LEADER || self.ahead.is_empty()
    }

    pub(super) fn nodes_at(&self, server: usize) -> &[Node] {
        &self.trees[server].nodes
    }

    /// The number of a client's node at a server.
    pub(super) fn node_of(&self, client: usize, server: usize) -> Option<usize> {
        let mut nodes = self.nodes_at(server).iter();
        let own = nodes.find(|node| node.owner == client)?;
        Some(own.number)
    }

    /// Whether there is a node with this number at a server.
    pub(super) fn is_at(&self, server: usize, number: usize) -> bool {
        let mut nodes = self.nodes_at(server).iter();
        nodes.any(|node| node.number == number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees.iter().all(|tree| tree.nodes.is_empty())
    }
}

impl Tree {
    fn carry_out(&mut self, change: Change) {
        match change {
            Change::Created(node) => self.nodes.push(node),
            Change::Deleted { number } => self.nodes.retain(|node| node.number != number),
            Change::Ended { owner } => {
                self.nodes.retain(|node| node.owner != owner);
                self.alive[owner] = false;
            }
        }
    }
}
