//! A client that acquires the lock once and releases it, as the code does.

use super::Flaw;
use super::servers::Node;
use super::servers::Request;
use super::servers::Servers;
use crate::layout::Kind;
use crate::layout::Layout;
use crate::order;
use crate::order::Outlook;
use crate::order::Place;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) kind: Kind,
    /// The server it is attached to.
    pub(super) server: Option<usize>,
    /// By how much the servers that it has had answers of were ahead of the follower.
    pub(super) seen: usize,
    pub(super) is_trusted: bool,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    /// The create has left.
    Creating,
    /// The link broke before the answer to the create.
    InDoubt,
    /// In the queue, about to look at it.
    Enlisted {
        own: usize,
    },
    /// About to watch the one before it, and maybe the one before that.
    Behind {
        own: usize,
        ahead: Watched,
    },
    /// Waits for the event; `is_armed` if the server would send it.
    Watching {
        own: usize,
        ahead: Watched,
        is_armed: bool,
    },
    /// Nobody is before it; about to make sure that its session is alive.
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
    /// Dropped, with a node that may be there: about to look for it.
    Abandoned,
    /// About to delete its node.
    Leaving {
        own: usize,
    },
    /// The delete has left.
    Deleting {
        own: usize,
    },
    /// Held it and gave it back, or was dropped, and nothing of it is left.
    Done,
    /// Knows that its session is over.
    Lost,
}

/// Whom a waiter watches, and what it will know from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Watched {
    predecessor: usize,
    before_it: Option<usize>,
    /// Whether it is its turn when the predecessor has gone.
    is_next: bool,
}

impl Watched {
    fn is_there(self, servers: &Servers, server: usize) -> bool {
        let before_it = self.before_it.is_none_or(|one| servers.is_at(server, one));
        before_it && servers.is_at(server, self.predecessor)
    }
}

impl Client {
    pub(super) fn new(kind: Kind, server: usize) -> Self {
        Self {
            kind,
            server: Some(server),
            seen: 0,
            is_trusted: true,
            phase: Phase::Idle,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Done | Phase::Lost)
    }

    /// Whether it would act under the lock now.
    pub(super) fn relies_on_it(&self) -> bool {
        matches!(self.phase, Phase::Holding { .. }) && self.is_trusted
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
            Phase::Creating | Phase::InDoubt => Phase::Abandoned,
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
        self.phase = match self.phase {
            Phase::Creating => Phase::InDoubt,
            // The client sets its watches again when it attaches, and is told what happened meanwhile.
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

    /// Whether it can do anything by itself: an answer or an event is there, or it waits for none.
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
            | Phase::Holding { .. }
            | Phase::Leaving { .. } => true,
            Phase::Creating => servers.node_of(me, server).is_some(),
            // A `sync` is answered when the server has caught up, and behind what was sent before it.
            Phase::InDoubt | Phase::Abandoned => {
                (servers.has_caught_up(server) && !servers.has_request(me))
                    || flaw == Flaw::LooksWithoutSync
            }
            Phase::Watching {
                ahead, is_armed, ..
            } => is_armed && !ahead.is_there(servers, server),
            Phase::Proving { .. } => self.is_trusted,
            Phase::Deleting { own } => !servers.has_request(me) && !servers.is_at(server, own),
            Phase::Done | Phase::Lost => false,
        }
    }

    /// Does what it [can](Self::can_step), and returns the request that leaves with that.
    pub(super) fn step(&mut self, me: usize, servers: &Servers, flaw: Flaw) -> Option<Request> {
        let server = self.server?;
        if !servers.is_alive_at(server, me) {
            // The server tells it, and nothing else.
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
                    Phase::Enlisted { own }
                } else {
                    request = Some(Request::Create(self.kind));
                    Phase::Creating
                }
            }
            Phase::Enlisted { own } => look(own, servers.nodes_at(server)),
            Phase::Behind { own, ahead } => {
                let is_there = ahead.is_there(servers, server);
                if is_there || flaw == Flaw::WatchesBlindly {
                    Phase::Watching {
                        own,
                        ahead,
                        is_armed: is_there,
                    }
                } else {
                    Phase::Enlisted { own }
                }
            }
            // Without a look at the queue.
            Phase::Watching { own, ahead, .. }
                if !servers.is_at(server, ahead.predecessor)
                    && (ahead.is_next || flaw == Flaw::TakesOverBlindly) =>
            {
                Phase::First { own }
            }
            Phase::Watching { own, .. } | Phase::Proving { own } => Phase::Enlisted { own },
            Phase::First { own } if flaw == Flaw::GrantsUntrusted => {
                self.is_trusted = true;
                Phase::Holding { own }
            }
            Phase::First { own } if self.is_trusted => Phase::Holding { own },
            Phase::First { own } => Phase::Proving { own },
            Phase::Holding { own } | Phase::Leaving { own } => {
                request = Some(Request::Delete { number: own });
                Phase::Deleting { own }
            }
            Phase::Abandoned => match servers.node_of(me, server) {
                Some(own) => Phase::Leaving { own },
                None => Phase::Done,
            },
            Phase::Deleting { .. } | Phase::Done | Phase::Lost => Phase::Done,
        };
        self.seen = self.seen.max(servers.lead(server));
        if self.is_over() {
            self.end(self.phase);
        }
        request
    }

    /// Nothing of it makes a difference any more.
    fn end(&mut self, phase: Phase) {
        *self = Self {
            phase,
            ..Self::new(self.kind, 0)
        };
    }
}

/// Looks at the queue, and decides with the function that the code uses.
fn look(own: usize, nodes: &[Node]) -> Phase {
    let children: Vec<String> = nodes.iter().map(name).collect();
    let own_name = nodes.iter().find(|node| node.number == own).map(name);
    let own_name = own_name.expect("nobody else deletes it, and no server that is behind is read");
    let number = |of: &str| {
        let found = nodes.iter().find(|node| name(node) == of);
        found.expect("it is one of the children").number
    };
    let (place, outlook) = order::view(&children, &own_name, Layout::curator());
    match place {
        Place::First => Phase::First { own },
        Place::Behind { predecessor, .. } => Phase::Behind {
            own,
            ahead: Watched {
                predecessor: number(predecessor),
                before_it: match outlook {
                    Outlook::After(before_it) => Some(number(before_it)),
                    Outlook::Next | Outlook::Unknown => None,
                },
                is_next: outlook == Outlook::Next,
            },
        },
        place => unreachable!("numbers are far from their end: {place:?}"),
    }
}

/// As the layout has it, with an id that sorts the other way round.
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
    format!("_c_{}-{marker}{number:010}", 9 - owner)
}
