//! The leader, the follower, and the requests in flight.

use std::collections::VecDeque;

use crate::layout::Kind;

/// A change that the leader has committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum TreeChange {
    Created(Node),
    Deleted {
        number: usize,
    },
    /// One node was deleted and another one created, in one transaction.
    Replaced {
        number: usize,
        node: Node,
    },
    /// A session ended, with all its nodes.
    Ended {
        owner: usize,
    },
    /// The empty path of the queue was removed, and the next create makes another one.
    Reaped,
}

/// A node of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) owner: usize,
    pub(super) kind: Kind,
    /// Unique; see [`sequence`].
    pub(super) number: usize,
}

/// Returns the sequence number in the name of a node. It starts again when the path of the queue is another one.
pub(super) const fn sequence(number: usize) -> usize {
    number % PER_PATH
}

/// No scenario has as many nodes below one path.
const PER_PATH: usize = 100;

/// A write request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Request {
    Create(Kind),
    Delete {
        number: usize,
    },
    /// Deletes a node and creates one.
    Replace {
        number: usize,
        kind: Kind,
    },
}

/// The two servers. States with equal trees are equal, however they came about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Servers {
    trees: [Tree; COUNT],
    /// The changes that the leader has applied and the follower has not.
    ahead: VecDeque<TreeChange>,
    /// The requests that each client has sent and the leader has not committed.
    requests: Vec<VecDeque<Request>>,
    created: usize,
}

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Tree {
    nodes: Vec<Node>,
    /// Whether the session of each client is alive.
    alive: Vec<bool>,
}

/// The number of servers.
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

    /// Returns whether this server considers a session alive.
    pub(super) fn is_alive_at(&self, server: usize, client: usize) -> bool {
        self.trees[server].alive[client]
    }

    pub(super) fn has_request(&self, client: usize) -> bool {
        !self.requests[client].is_empty()
    }

    pub(super) fn send(&mut self, client: usize, request: Request) {
        self.requests[client].push_back(request);
    }

    /// Refuses requests in flight, since the leader knows the session at another server now.
    pub(super) fn refuse_older(&mut self, client: usize) {
        self.requests[client].clear();
    }

    /// Executes the oldest request of a client, unless its session is over.
    pub(super) fn commit(&mut self, client: usize) {
        let Some(request) = self.requests[client].pop_front() else {
            return;
        };
        if !self.is_alive_at(LEADER, client) {
            return;
        }
        match request {
            Request::Create(kind) => {
                let node = self.new_node(client, kind);
                self.change(TreeChange::Created(node));
            }
            Request::Replace { number, kind } if self.is_at(LEADER, number) => {
                let node = self.new_node(client, kind);
                self.change(TreeChange::Replaced { number, node });
            }
            // Deleting a missing node changes nothing.
            Request::Delete { number } if self.is_at(LEADER, number) => {
                self.change(TreeChange::Deleted { number });
            }
            Request::Delete { .. } | Request::Replace { .. } => {}
        }
    }

    fn new_node(&mut self, owner: usize, kind: Kind) -> Node {
        let number = self.created;
        self.created += 1;
        Node {
            owner,
            kind,
            number,
        }
    }

    /// Ends a session, and refuses its requests in flight.
    pub(super) fn expire(&mut self, client: usize) {
        self.requests[client].clear();
        self.change(TreeChange::Ended { owner: client });
    }

    /// Returns whether the path of the queue is empty and had nodes.
    pub(super) fn can_be_reaped(&self) -> bool {
        self.trees[LEADER].nodes.is_empty() && sequence(self.created) > 0
    }

    /// Removes the path of the queue, as a server removes an empty container.
    pub(super) fn reap(&mut self) {
        self.created = self.created - sequence(self.created) + PER_PATH;
        self.change(TreeChange::Reaped);
    }

    fn change(&mut self, change: TreeChange) {
        self.trees[LEADER].apply(change);
        self.ahead.push_back(change);
    }

    pub(super) fn can_follow(&self) -> bool {
        !self.ahead.is_empty()
    }

    pub(super) fn follow(&mut self) {
        if let Some(change) = self.ahead.pop_front() {
            self.trees[FOLLOWER].apply(change);
        }
    }

    /// Returns how many changes a server is ahead of the follower.
    pub(super) fn lead(&self, server: usize) -> usize {
        if server == LEADER {
            self.ahead.len()
        } else {
            0
        }
    }

    /// Returns whether a server has applied all changes of the leader: what a `sync` waits for.
    pub(super) fn has_caught_up(&self, server: usize) -> bool {
        server == LEADER || self.ahead.is_empty()
    }

    pub(super) fn nodes_at(&self, server: usize) -> &[Node] {
        &self.trees[server].nodes
    }

    /// Returns the number of a client's node at a server.
    pub(super) fn node_of(&self, client: usize, server: usize) -> Option<usize> {
        let mut nodes = self.nodes_at(server).iter();
        let own = nodes.find(|node| node.owner == client)?;
        Some(own.number)
    }

    /// Returns whether a node with this number exists at a server.
    pub(super) fn is_at(&self, server: usize, number: usize) -> bool {
        let mut nodes = self.nodes_at(server).iter();
        nodes.any(|node| node.number == number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.trees.iter().all(|tree| tree.nodes.is_empty())
    }
}

impl Tree {
    fn apply(&mut self, change: TreeChange) {
        match change {
            TreeChange::Created(node) => self.nodes.push(node),
            TreeChange::Deleted { number } => self.nodes.retain(|node| node.number != number),
            TreeChange::Replaced { number, node } => {
                self.nodes.retain(|node| node.number != number);
                self.nodes.push(node);
            }
            TreeChange::Ended { owner } => {
                self.nodes.retain(|node| node.owner != owner);
                self.alive[owner] = false;
            }
            TreeChange::Reaped => {}
        }
    }
}
