//! A model of the wait queue, explored in every interleaving.
//!
//! Clients, servers and the network are reduced to what the protocol depends on. The decision who is granted the lock
//! is made by [`order::position_with_lookahead`](crate::order::position_with_lookahead), the function that the code
//! uses. The model has:
//!
//! - Two servers: the leader, and a follower that has applied a prefix of the leader's changes. A client reads at the
//!   server it is attached to, and attaches to no server that is behind what it has seen.
//! - Write requests, which are in flight to the leader until they are committed, in the order in which their client
//!   sent them. If the client's connection breaks, they stay in flight until the client attaches again. From then on
//!   the leader knows the session at its new server and refuses requests from the old one.
//! - Sessions that the leader has ended. On a lagging follower, and for its clients, they are still alive.
//! - Replies and events, which are delivered once the client's server has applied the change, and never over a broken
//!   connection. The session's clean-up searches for a node by its unique name after a `sync`.
//! - A holder that yields: if others are in the queue, one transaction deletes its node and creates another one.
//! - The path of the queue, an empty container that a server may remove: the numbers start again then. A client that was
//!   alone in the queue relies on its next number, and on a watch on the path, whose event comes in order.
//! - The window of the session lease: the leader ends a session only when its client no longer relies on it. The window
//!   has tests of its own.
//!
//! Not modelled: deletions by other clients, numbers near the end of the counter, restarts of servers.

mod client;
mod explore;
mod servers;

use stateright::{Model, Property};

use self::client::{Client, Phase};
use self::servers::{LEADER, Servers};
use crate::layout::Kind;

/// The scenario that is explored.
#[derive(Debug, Clone)]
struct Scenario {
    /// The kind of each client, and the server it is attached to at first.
    clients: Vec<(Kind, usize)>,
    /// How often a connection breaks, among all clients.
    cuts: u8,
    /// How often a client is cut off for so long that it no longer relies on its session, and the leader may end it.
    lapses: u8,
    /// How many acquires are dropped.
    drops: u8,
    /// How often each client acquires the lock, one after the other.
    turns: u8,
    /// How often each client yields the lock, between its first acquire and its first release.
    yields: u8,
    /// How often the empty path of the queue is removed.
    reaps: u8,
    /// A flaw in the protocol, to see the properties fail.
    flaw: Flaw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Searches for its own node without `sync`.
    SearchesWithoutSync,
    /// Keeps waiting for a watch over a broken connection.
    KeepsWatchOverCut,
    /// Leaves the node of a dropped acquire.
    LeavesDropped,
    /// Grants the lock without a valid session lease.
    GrantsWithoutLease,
    /// Takes the lock when its predecessor is deleted, even if other contenders are ahead.
    TakesOverBlindly,
    /// Watches a node without checking that it still exists.
    WatchesBlindly,
    /// Takes the number after that of its last turn for a proof that it is alone, also on another path.
    IgnoresNewPath,
    /// Relies on the watch on the path over a broken connection.
    KeepsPathWatchOverCut,
    /// Takes any number above that of its last turn for a proof that it is alone.
    SkipsNumbers,
    /// Takes a lost reply to a yield for a refusal, and continues to hold the lock.
    KeepsLockAfterLostYield,
    /// Joins the queue again after a lost reply to a yield, without searching for its nodes.
    RejoinsWithoutSearch,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelState {
    servers: Servers,
    clients: Vec<Client>,
    cuts: u8,
    lapses: u8,
    drops: u8,
    reaps: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    /// The client takes its next step, by itself or because a reply or an event is delivered.
    Step(usize),
    /// The leader commits the client's oldest request.
    Commit(usize),
    /// The follower applies the next change.
    Follow,
    /// The client's connection breaks.
    Cut(usize),
    /// The client attaches to a server.
    Attach(usize, usize),
    /// The client has had no proof from a quorum for too long.
    Lapse(usize),
    /// The leader ends the session.
    Expire(usize),
    /// The client proves that its session is alive.
    Prove(usize),
    /// The acquire is dropped by its caller.
    Drop(usize),
    /// The empty path of the queue is removed.
    Reap,
}

impl Model for Scenario {
    type State = ModelState;
    type Action = Action;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState {
            servers: Servers::new(self.clients.len()),
            clients: self
                .clients
                .iter()
                .map(|(kind, server)| Client::new(*kind, *server, self.turns, self.yields))
                .collect(),
            cuts: self.cuts,
            lapses: self.lapses,
            drops: self.drops,
            reaps: self.reaps,
        }]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<Action>) {
        let servers = &state.servers;
        if servers.can_follow() {
            actions.push(Action::Follow);
        }
        if state.reaps > 0 && servers.can_be_reaped() {
            actions.push(Action::Reap);
        }
        for (at, client) in state.clients.iter().enumerate() {
            if servers.has_request(at) {
                actions.push(Action::Commit(at));
            }
            if client.is_over() {
                continue;
            }
            if client.can_step(at, servers, self.flaw) {
                actions.push(Action::Step(at));
            }
            match client.server {
                Some(_) if state.cuts > 0 => actions.push(Action::Cut(at)),
                Some(_) => {}
                None => actions.extend(
                    (0..servers::COUNT)
                        .filter(|server| servers.lead(*server) >= client.seen)
                        .map(|server| Action::Attach(at, server)),
                ),
            }
            if client.is_valid && state.lapses > 0 {
                actions.push(Action::Lapse(at));
            }
            if !client.is_valid && servers.is_alive_at(LEADER, at) {
                actions.push(Action::Expire(at));
                if client.server.is_some() {
                    actions.push(Action::Prove(at));
                }
            }
            if state.drops > 0 && client.may_be_dropped() {
                actions.push(Action::Drop(at));
            }
        }
    }

    fn next_state(&self, before: &ModelState, action: Action) -> Option<ModelState> {
        let mut state = before.clone();
        let servers = &mut state.servers;
        match action {
            Action::Step(at) => {
                let request = state.clients[at].step(at, servers, self.flaw);
                if let Some(request) = request {
                    servers.send(at, request);
                }
            }
            Action::Commit(at) => servers.commit(at),
            Action::Follow => {
                servers.follow();
                for client in &mut state.clients {
                    client.seen = client.seen.saturating_sub(1);
                }
            }
            Action::Cut(at) => {
                state.cuts -= 1;
                state.clients[at].cut(self.flaw);
            }
            Action::Attach(at, server) => {
                servers.refuse_older(at);
                state.clients[at].server = Some(server);
            }
            Action::Lapse(at) => {
                state.lapses -= 1;
                state.clients[at].is_valid = false;
            }
            Action::Expire(at) => servers.expire(at),
            Action::Prove(at) => state.clients[at].is_valid = true,
            Action::Drop(at) => {
                state.drops -= 1;
                state.clients[at].abandon(self.flaw);
            }
            Action::Reap => {
                state.reaps -= 1;
                servers.reap();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &ModelState| state.is_exclusive()),
            Property::always(NO_WAITER_IS_STUCK, |scenario: &Self, state: &ModelState| {
                state.clients.iter().all(Client::is_over) || !scenario.is_quiescent(state)
            }),
            Property::always(NO_NODE_IS_LEFT, |scenario: &Self, state: &ModelState| {
                state.servers.is_empty() || !scenario.is_quiescent(state)
            }),
            // The properties above are vacuous unless such states are reached.
            Property::sometimes("all clients held the lock", |_, state: &ModelState| {
                state
                    .clients
                    .iter()
                    .all(|client| client.phase == Phase::Done)
            }),
        ]
    }
}

impl Scenario {
    /// Returns whether no action is possible any more.
    fn is_quiescent(&self, state: &ModelState) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        actions.is_empty()
    }
}

impl ModelState {
    /// Returns whether an exclusive holder is the only holder.
    fn is_exclusive(&self) -> bool {
        let holders = || self.clients.iter().filter(|client| client.relies_on_it());
        holders().count() <= 1 || holders().all(|client| client.kind == Kind::Shared)
    }
}

const EXCLUSIVE: &str = "an exclusive holder is alone";
const NO_WAITER_IS_STUCK: &str = "no waiter waits forever";
const NO_NODE_IS_LEFT: &str = "no node is left behind";
