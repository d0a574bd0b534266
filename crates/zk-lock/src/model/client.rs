//! A client that acquires the lock, yields it and releases it, following the protocol of the code.

use super::Flaw;
use super::servers::{Node, Request, Servers, sequence};
use crate::layout::{Kind, Layout};
use crate::order::{self, Lookahead, QueuePosition};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) kind: Kind,
    /// The server it is attached to.
    pub(super) server: Option<usize>,
    /// How far the most recent server that it has read from was ahead of the follower.
    pub(super) seen: usize,
    pub(super) is_valid: bool,
    pub(super) phase: Phase,
    /// How many turns are left, with this one.
    turns: u8,
    /// How often it yields the lock before it releases it.
    yields: u8,
    /// Whether others were behind it when it last listed the queue; not recorded once it yields no more.
    saw_waiters: bool,
    /// The number of its node, in this turn or the last one, if it is known to have been alone then. Its connection has
    /// not been lost since.
    alone: Option<usize>,
    /// Whether the watch on the path is armed.
    watches_path: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// The create is in flight.
    Creating,
    /// The connection broke before the reply to the create.
    InDoubt,
    /// In the queue, about to list it.
    Enlisted {
        own: usize,
    },
    /// About to watch its predecessor, and possibly the contender ahead of that one.
    Behind {
        own: usize,
        ahead: WatchTargets,
    },
    /// Waits for the event. `is_armed`: the server will send it.
    Watching {
        own: usize,
        ahead: WatchTargets,
        is_armed: bool,
    },
    /// No contender is ahead; about to check that its session is alive.
    First {
        own: usize,
    },
    /// First, with a session that may be over.
    Proving {
        own: usize,
    },
    Holding {
        own: usize,
    },
    /// The transaction that hands the lock over is in flight.
    Yielding {
        own: usize,
    },
    /// The connection broke before the reply to that transaction.
    YieldInDoubt {
        own: usize,
    },
    /// Dropped, with a node that may exist; about to search for it.
    Abandoned,
    /// About to delete its node.
    Leaving {
        own: usize,
    },
    /// The delete is in flight.
    Deleting {
        own: usize,
    },
    /// Released or dropped, with no node left.
    Done,
    /// Knows that its session is over.
    Lost,
}

/// What a waiter watches, and what it will know when the watch fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WatchTargets {
    predecessor: usize,
    lookahead: Option<usize>,
    /// Whether the deletion of the predecessor grants it the lock.
    is_next: bool,
}

impl WatchTargets {
    fn is_there(self, servers: &Servers, server: usize) -> bool {
        let lookahead = self.lookahead.is_none_or(|one| servers.is_at(server, one));
        lookahead && servers.is_at(server, self.predecessor)
    }
}

impl Client {
    pub(super) fn new(kind: Kind, server: usize, turns: u8, yields: u8) -> Self {
        Self {
            kind,
            server: Some(server),
            seen: 0,
            is_valid: true,
            phase: Phase::Idle,
            turns,
            yields,
            saw_waiters: false,
            alone: None,
            watches_path: true,
        }
    }

    /// Returns whether its new node is alone in the queue, as far as its last turn proves it.
    fn is_alone(&self, own: usize, flaw: Flaw) -> bool {
        let Some(last) = self.alone else {
            return false;
        };
        // The event of the watch would have come before the reply to the create.
        let is_same_path = own - sequence(own) == last - sequence(last);
        let is_known_path = self.watches_path && flaw != Flaw::IgnoresNewPath;
        if is_known_path && !is_same_path {
            return false;
        }
        if flaw == Flaw::SkipsNumbers {
            return sequence(own) > sequence(last);
        }
        sequence(own) == sequence(last) + 1
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Lost)
    }

    /// Returns whether it would act under the lock now.
    pub(super) fn relies_on_it(&self) -> bool {
        matches!(self.phase, Phase::Holding { .. }) && self.is_valid
    }

    pub(super) fn may_be_dropped(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Idle
                | Phase::Abandoned
                | Phase::Leaving { .. }
                | Phase::Deleting { .. }
                | Phase::Done
                | Phase::Lost
        )
    }

    pub(super) fn abandon(&mut self, flaw: Flaw) {
        self.phase = match self.phase {
            _ if flaw == Flaw::LeavesDropped => return self.end(Phase::Done),
            Phase::Creating
            | Phase::InDoubt
            | Phase::Yielding { .. }
            | Phase::YieldInDoubt { .. } => Phase::Abandoned,
            Phase::Enlisted { own }
            | Phase::Behind { own, .. }
            | Phase::Watching { own, .. }
            | Phase::First { own }
            | Phase::Proving { own }
            | Phase::Holding { own } => Phase::Leaving { own },
            other => other,
        };
    }

    pub(super) fn cut(&mut self, flaw: Flaw) {
        self.server = None;
        if flaw == Flaw::KeepsPathWatchOverCut {
            self.watches_path = false;
        } else {
            self.alone = None;
        }
        self.phase = match self.phase {
            Phase::Creating => Phase::InDoubt,
            Phase::Yielding { own } if flaw == Flaw::KeepsLockAfterLostYield => {
                self.yields = 0;
                Phase::Holding { own }
            }
            Phase::Yielding { own } => Phase::YieldInDoubt { own },
            // The client sets its watches again when it attaches, and receives the events it missed.
            Phase::Watching { own, ahead, .. } if flaw == Flaw::KeepsWatchOverCut => {
                Phase::Watching {
                    own,
                    ahead,
                    is_armed: false,
                }
            }
            Phase::Deleting { own } => Phase::Leaving { own },
            other => other,
        };
    }

    /// Returns whether it can take a step: a reply or an event is there, or it waits for none.
    pub(super) fn can_step(&self, me: usize, servers: &Servers, flaw: Flaw) -> bool {
        let Some(server) = self.server else {
            return false;
        };
        if !servers.is_alive_at(server, me) {
            return true;
        }
        match self.phase {
            Phase::Idle
            | Phase::Enlisted { .. }
            | Phase::Behind { .. }
            | Phase::First { .. }
            | Phase::Leaving { .. } => true,
            // If no other contender waits, it keeps the lock only while its session is certainly alive.
            Phase::Holding { own } => {
                self.yields == 0 || self.is_valid || self.is_wanted(own, servers.nodes_at(server))
            }
            Phase::Creating => servers.node_of(me, server).is_some(),
            // A `sync` is answered once the server has caught up and has handled all earlier requests.
            Phase::InDoubt | Phase::YieldInDoubt { .. } | Phase::Abandoned => {
                (servers.has_caught_up(server) && !servers.has_request(me))
                    || flaw == Flaw::SearchesWithoutSync
            }
            Phase::Watching {
                ahead, is_armed, ..
            } => is_armed && !ahead.is_there(servers, server),
            Phase::Proving { .. } => self.is_valid,
            Phase::Yielding { own } => servers.node_of(me, server).is_some_and(|new| new != own),
            Phase::Deleting { own } => !servers.has_request(me) && !servers.is_at(server, own),
            Phase::Done | Phase::Lost => false,
        }
    }

    /// Takes the step that it [can](Self::can_step) take, and returns the request that it sends.
    pub(super) fn step(&mut self, me: usize, servers: &Servers, flaw: Flaw) -> Option<Request> {
        let server = self.server?;
        if !servers.is_alive_at(server, me) {
            // The server only reports that the session is over.
            self.end(Phase::Lost);
            return None;
        }
        let mut request = None;
        self.phase = match self.phase {
            Phase::Idle => {
                request = Some(Request::Create(self.kind));
                Phase::Creating
            }
            Phase::Creating | Phase::InDoubt => {
                if let Some(own) = servers.node_of(me, server) {
                    if self.is_alone(own, flaw) {
                        self.alone = Some(own);
                        Phase::First { own }
                    } else {
                        self.alone = None;
                        Phase::Enlisted { own }
                    }
                } else {
                    request = Some(Request::Create(self.kind));
                    Phase::Creating
                }
            }
            Phase::Enlisted { own } => {
                let nodes = servers.nodes_at(server);
                if nodes.len() == 1 {
                    self.alone = Some(own);
                }
                self.saw_waiters = self.yields > 0 && has_waiters(own, nodes);
                next_phase(own, nodes)
            }
            Phase::Behind { own, ahead } => {
                let is_there = ahead.is_there(servers, server);
                if is_there || flaw == Flaw::WatchesBlindly {
                    Phase::Watching {
                        own,
                        ahead,
                        is_armed: is_there,
                    }
                } else if ahead.is_next || flaw == Flaw::TakesOverBlindly {
                    // Its own node exists, as the server considers the session alive.
                    Phase::First { own }
                } else {
                    Phase::Enlisted { own }
                }
            }
            // Without listing the queue.
            Phase::Watching { own, ahead, .. }
                if !servers.is_at(server, ahead.predecessor)
                    && (ahead.is_next || flaw == Flaw::TakesOverBlindly) =>
            {
                Phase::First { own }
            }
            Phase::Watching { own, .. } | Phase::Proving { own } => Phase::Enlisted { own },
            Phase::First { own } if flaw == Flaw::GrantsWithoutLease => {
                self.is_valid = true;
                Phase::Holding { own }
            }
            Phase::First { own } if self.is_valid => Phase::Holding { own },
            Phase::First { own } => Phase::Proving { own },
            Phase::Holding { own } if self.yields > 0 => {
                self.yields -= 1;
                if self.is_wanted(own, servers.nodes_at(server)) {
                    self.alone = None;
                    self.saw_waiters = false;
                    request = Some(self.replace(own));
                    Phase::Yielding { own }
                } else {
                    Phase::Holding { own }
                }
            }
            Phase::YieldInDoubt { .. } if flaw == Flaw::RejoinsWithoutSearch => {
                request = Some(Request::Create(self.kind));
                Phase::Creating
            }
            Phase::Yielding { own } | Phase::YieldInDoubt { own } => {
                match servers.node_of(me, server) {
                    Some(new) if new != own => Phase::Enlisted { own: new },
                    _ => {
                        request = Some(self.replace(own));
                        Phase::Yielding { own }
                    }
                }
            }
            Phase::Holding { own } | Phase::Leaving { own } => {
                request = Some(Request::Delete { number: own });
                Phase::Deleting { own }
            }
            Phase::Abandoned => match servers.node_of(me, server) {
                Some(own) => Phase::Leaving { own },
                None => Phase::Done,
            },
            Phase::Deleting { .. } if self.turns > 1 && self.is_valid => {
                self.turns -= 1;
                Phase::Idle
            }
            Phase::Deleting { .. } | Phase::Done | Phase::Lost => Phase::Done,
        };
        self.seen = self.seen.max(servers.lead(server));
        if self.is_over() {
            self.end(self.phase);
        }
        request
    }

    /// Resets all fields that no longer matter, so that equal states are equal.
    fn end(&mut self, phase: Phase) {
        *self = Self {
            phase,
            ..Self::new(self.kind, 0, 0, 0)
        };
    }

    /// Returns whether a yield hands the lock over.
    fn is_wanted(&self, own: usize, nodes: &[Node]) -> bool {
        self.saw_waiters || has_waiters(own, nodes)
    }

    fn replace(&self, own: usize) -> Request {
        Request::Replace {
            number: own,
            kind: self.kind,
        }
    }
}

/// Lists the queue, and decides with the function that the code uses.
fn next_phase(own: usize, nodes: &[Node]) -> Phase {
    let children: Vec<String> = nodes.iter().map(name).collect();
    let own_name = nodes.iter().find(|node| node.number == own).map(name);
    let own_name =
        own_name.expect("no other client deletes the node, and no lagging server is read");
    let number = |of: &str| {
        let found = nodes.iter().find(|node| name(node) == of);
        found.expect("the name is one of the children").number
    };
    let (position, lookahead) =
        order::position_with_lookahead(&children, &own_name, Layout::curator());
    match position {
        QueuePosition::First => Phase::First { own },
        QueuePosition::Behind { predecessor, .. } => Phase::Behind {
            own,
            ahead: WatchTargets {
                predecessor: number(predecessor),
                lookahead: match lookahead {
                    Lookahead::After(lookahead) => Some(number(lookahead)),
                    Lookahead::Next | Lookahead::Unknown => None,
                },
                is_next: lookahead == Lookahead::Next,
            },
        },
        position => unreachable!("numbers are far from their end: {position:?}"),
    }
}

/// Lists the queue, and decides with the function that the code uses whether others wait for this client.
fn has_waiters(own: usize, nodes: &[Node]) -> bool {
    let children: Vec<String> = nodes.iter().map(name).collect();
    let own = nodes.iter().find(|node| node.number == own);
    let own = own.expect("no other client deletes the node, and no lagging server is read");
    order::has_waiters(&children, &name(own), Layout::curator())
}

/// Returns the node's name in the layout, with an id in reverse order.
fn name(node: &Node) -> String {
    let Node {
        owner,
        kind,
        number,
    } = node;
    let marker = match kind {
        Kind::Exclusive => "lock-",
        Kind::Shared => "__READ__",
    };
    let number = sequence(*number);
    format!("_c_{}-{marker}{number:010}", 9 - owner)
}
