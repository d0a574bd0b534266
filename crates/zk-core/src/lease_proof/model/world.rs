//! The servers, the link of one session, and its proof, with everything that may happen next.

mod act;
mod key;

use std::time::Instant;

use super::{STEP, Scene};
use crate::lease_proof::LeaseProof;
use crate::transport::ServerRole;

/// A state that the scene reaches. All times are in steps.
#[expect(
    clippy::struct_excessive_bools,
    reason = "faults that occur in every combination"
)]
#[derive(Debug, Clone)]
pub(super) struct World {
    pub(super) now: u8,
    left: Budget,
    /// When the leader of the quorum last heard of the session, or took over.
    heard: u8,
    /// The timeout with which it counts.
    timeout: u8,
    expiry: Expiry,
    link: Option<Server>,
    /// Whether the leader on our side of the ensemble was deposed, without knowing it.
    is_deposed: bool,
    /// Whether the leader on our side is stopped.
    is_stopped: bool,
    /// Whether our follower and its leader exchange no messages, which all arrive later.
    is_cut: bool,
    /// When the leader pings our follower next, in steps in which it can.
    next_ping: u8,
    /// When the oldest touch in our follower's table was recorded.
    recorded: Option<u8>,
    /// Whether the last touch that was recorded was omitted from its report.
    was_omitted: bool,
    /// The proposals of the leader on our side that are not committed, oldest first.
    proposals: Vec<Proposer>,
    /// How many of them were acknowledged before the leader was deposed.
    acknowledged: usize,
    /// The newest transaction that the leader on our side has committed.
    committed: i8,
    /// The newest transaction that our server has applied.
    applied: i8,
    requests: Vec<Pending>,
    next_sync: u8,
    breaks: u64,
    proof: LeaseProof,
}

/// How often each thing still happens.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    pub(super) reads: i8,
    pub(super) syncs: i8,
    pub(super) writes: i8,
    /// Writes of another session.
    pub(super) others: i8,
    pub(super) stops: i8,
    pub(super) cuts: i8,
    pub(super) depositions: i8,
    pub(super) breaks: i8,
    pub(super) omissions: i8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Leader,
    Follower,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Listed,
    /// Removed from the list; marked as closing within this many steps in which the leader runs.
    Removed {
        left: u8,
    },
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proposer {
    Ours,
    Other,
}

/// A `sync` or a write without a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pending {
    kind: Kind,
    sent: u8,
    stage: Stage,
    /// Whether it is one of the regular `sync`s, which take no longer than they must.
    is_regular: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Sync,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The session waits for a link.
    Unsent,
    AtServer,
    /// A `sync` waits for this many proposals.
    AtLeader(usize),
    /// The server replied when it had applied this transaction.
    Replied(i8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Tick,
    /// A read with its reply.
    Read,
    Send(Kind),
    RegularSync,
    /// The leader on our side processes a request.
    Process(usize),
    /// A reply arrives.
    Deliver(usize),
    /// Another session's write is proposed.
    Propose,
    /// The leader on our side commits its oldest proposal.
    Commit,
    Ping {
        omits: bool,
    },
    Stop,
    Resume,
    Cut,
    Heal,
    /// Another leader takes over. The old one has received acknowledgements of all proposals, or of none.
    Depose {
        is_acknowledged: bool,
    },
    Break {
        is_seen: bool,
    },
    /// The session is connected to a server.
    Attach {
        server: Server,
        is_deposed: bool,
        next_ping: u8,
    },
    /// The leader of the quorum removes the session from its list.
    Remove,
    /// It marks the session as closing.
    Close,
}

impl World {
    pub(super) fn new(scene: &Scene, base: Instant, next_ping: u8) -> Self {
        let mut proof = LeaseProof {
            flaw: scene.flaw,
            ..LeaseProof::opened(STEP * scene.timeout.into(), base)
        };
        if scene.knows_role {
            proof.connected_to(role(scene.server));
        }
        Self {
            now: 0,
            left: scene.budget,
            heard: 0,
            timeout: scene.timeout,
            expiry: Expiry::Listed,
            link: Some(scene.server),
            is_deposed: scene.starts_deposed,
            is_stopped: false,
            is_cut: false,
            next_ping,
            recorded: None,
            was_omitted: false,
            proposals: Vec::new(),
            acknowledged: 0,
            committed: 0,
            applied: 0,
            requests: Vec::new(),
            next_sync: scene.sync_every,
            breaks: 0,
            proof,
        }
    }

    /// Returns whether the session is kept for as long as the proof says, on a clock of the same rate.
    pub(super) fn is_sound(&self, base: Instant) -> bool {
        let kept_until = base + STEP * (u32::from(self.heard) + u32::from(self.timeout));
        let heard = self.proof.heard.expect("the quorum knows the session");
        heard + self.proof.timeout <= kept_until
    }

    /// Returns whether the proof ends later than at first.
    pub(super) fn is_extended(&self, base: Instant) -> bool {
        self.proof.heard.is_some_and(|heard| heard > base)
    }

    pub(super) fn is_lapsed(&self, base: Instant) -> bool {
        base + STEP * u32::from(self.now) > self.proof.until()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.expiry != Expiry::Listed
    }

    pub(super) fn actions(&self, scene: &Scene) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.expiry == Expiry::Closed && self.requests.is_empty() {
            return actions;
        }
        let left = self.left;
        if left.reads > 0 && self.can_read() {
            actions.push(Action::Read);
        }
        if left.syncs > 0 {
            actions.push(Action::Send(Kind::Sync));
        }
        if left.writes > 0 {
            actions.push(Action::Send(Kind::Write));
        }
        let is_sync_due = self.link.is_some()
            && scene.sync_every > 0
            && self.now >= self.next_sync
            && !self.requests.iter().any(|request| request.is_regular);
        if is_sync_due {
            actions.push(Action::RegularSync);
        }
        let mut must_progress = false;
        for (at, request) in self.requests.iter().enumerate() {
            let can_progress = match request.stage {
                Stage::AtServer if self.reaches_leader() => {
                    actions.push(Action::Process(at));
                    true
                }
                Stage::Replied(_) if self.link.is_some() && !self.is_cut => {
                    actions.push(Action::Deliver(at));
                    true
                }
                _ => false,
            };
            must_progress |= can_progress;
        }
        if left.others > 0 && !self.is_stopped {
            actions.push(Action::Propose);
        }
        let may_commit = !self.is_deposed || self.acknowledged > 0;
        if !self.proposals.is_empty() && !self.is_stopped && may_commit {
            actions.push(Action::Commit);
            must_progress |= self.proposals.contains(&Proposer::Ours) && !self.is_cut;
        }
        let is_ping_due = self.is_pinged() && self.next_ping == 0;
        if is_ping_due {
            actions.push(Action::Ping { omits: false });
            if left.omissions > 0 && self.recorded == Some(self.now) && !self.was_omitted {
                actions.push(Action::Ping { omits: true });
            }
        }
        if self.is_stopped {
            actions.push(Action::Resume);
        } else if left.stops > 0 {
            actions.push(Action::Stop);
        }
        if self.is_cut {
            actions.push(Action::Heal);
        } else if left.cuts > 0 && self.link == Some(Server::Follower) {
            actions.push(Action::Cut);
        }
        if left.depositions > 0 && !self.is_deposed && self.expiry != Expiry::Closed {
            for is_acknowledged in [false, true] {
                if !(is_acknowledged && self.proposals.is_empty()) {
                    actions.push(Action::Depose { is_acknowledged });
                }
            }
        }
        if self.link.is_some() && left.breaks > 0 {
            actions.extend([true, false].map(|is_seen| Action::Break { is_seen }));
        }
        if self.link.is_none() {
            self.attachments(scene, &mut actions);
        }
        let is_over = self.now >= self.heard + self.timeout;
        let mut must_close = false;
        if !self.is_quorum_stopped() {
            match self.expiry {
                Expiry::Listed if is_over => actions.push(Action::Remove),
                Expiry::Removed { left } => {
                    actions.push(Action::Close);
                    must_close = left == 0;
                }
                _ => {}
            }
        }
        if !is_sync_due && !must_progress && !is_ping_due && !must_close && self.now < scene.horizon
        {
            actions.push(Action::Tick);
        }
        actions
    }

    fn attachments(&self, scene: &Scene, actions: &mut Vec<Action>) {
        for is_deposed in [false, true] {
            let is_there = if is_deposed {
                self.is_deposed && !self.is_stopped
            } else {
                !self.is_quorum_stopped() && self.expiry != Expiry::Closed
            };
            if !is_there {
                continue;
            }
            let attach = |server, next_ping| Action::Attach {
                server,
                is_deposed,
                next_ping,
            };
            actions.push(attach(Server::Leader, 0));
            let first_pings = if is_deposed { 0..=0 } else { 0..=scene.ping };
            actions.extend(first_pings.map(|next_ping| attach(Server::Follower, next_ping)));
        }
    }

    fn is_quorum_stopped(&self) -> bool {
        self.is_stopped && !self.is_deposed
    }

    fn can_read(&self) -> bool {
        match self.link {
            Some(Server::Leader) => !self.is_stopped,
            Some(Server::Follower) => true,
            None => false,
        }
    }

    fn reaches_leader(&self) -> bool {
        let is_refused = self.expiry == Expiry::Closed && !self.is_deposed;
        self.link.is_some() && !self.is_stopped && !self.is_cut && !is_refused
    }

    /// Returns whether the leader of the quorum pings our follower at the moment.
    fn is_pinged(&self) -> bool {
        self.link == Some(Server::Follower) && !self.is_deposed && !self.is_stopped && !self.is_cut
    }
}

fn role(server: Server) -> ServerRole {
    match server {
        Server::Leader => ServerRole::Leader,
        Server::Follower => ServerRole::Learner,
    }
}
