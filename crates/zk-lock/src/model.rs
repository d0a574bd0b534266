//! A model of the wait queue, explored in every interleaving.
//!
//! Clients, servers and the network are reduced to what the protocol rests on; who is granted the lock is decided by
//! [`order::view`](crate::order::view), the function that the code uses. What is modelled:
//!
//! - Two servers: the leader, and a follower that has carried out a prefix of what the leader has. A client reads at the
//!   server it is attached to, and attaches to none that is behind what it has seen.
//! - A request that changes something is on its way to the leader until it is committed, in the order in which its client
//!   sent it. When the client's link breaks it stays on its way, until the client attaches again: then the leader knows
//!   the session at its new place and refuses what still comes from the old one.
//! - A session that the leader has ended is alive for a follower that is behind, and so for a client that is there.
//! - Answers and events are delivered when the client's server has carried out what they tell of, and never over a link
//!   that has broken. The session's own clean-up looks for a node by its unique name after a `sync`.
//! - A session is ended by the leader only when the client trusts it no longer: that is the promise of the trust window,
//!   which has tests of its own.
//!
//! Not modelled: deletions by others, numbers near their end, restarts of servers.

mod client;
mod explore;
mod servers;

use stateright::Model;
use stateright::Property;

use self::client::Client;
use self::client::Phase;
use self::servers::LEADER;
use self::servers::Servers;
use crate::layout::Kind;

/// What is explored.
#[derive(Debug, Clone)]
struct Scene {
    /// What each client wants, and the server it is attached to at first.
    clients: Vec<(Kind, usize)>,
    /// How often a link breaks, over all clients.
    cuts: u8,
    /// How often a client is not heard of for so long that it trusts its session no longer, and the leader may end it.
    lapses: u8,
    /// How many acquires are dropped.
    drops: u8,
    /// What is wrong with the protocol, to see the properties fail.
    flaw: Flaw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// Looks for its own node without `sync`.
    LooksWithoutSync,
    /// Goes on waiting for the event of a watch over a broken link.
    KeepsWatchOverCut,
    /// Leaves what a dropped acquire has made.
    LeavesDropped,
    /// Relies on the lock although the session may be over.
    GrantsUntrusted,
    /// Takes the deletion of the one before it for its grant, whoever else may be before it.
    TakesOverBlindly,
    /// Watches a node without finding out whether it is still there.
    WatchesBlindly,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    servers: Servers,
    clients: Vec<Client>,
    cuts: u8,
    lapses: u8,
    drops: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    /// The client takes its next step, by itself or because an answer or an event is delivered.
    Step(usize),
    /// The leader commits the client's oldest request.
    Commit(usize),
    /// The follower carries out the next change.
    Follow,
    /// The client's link breaks.
    Cut(usize),
    /// The client attaches to a server.
    Attach(usize, usize),
    /// The client has not heard of a quorum for too long.
    Lapse(usize),
    /// The leader ends the session.
    Expire(usize),
    /// The client proves that its session is alive.
    Prove(usize),
    /// The acquire is dropped by its caller.
    Drop(usize),
}

impl Model for Scene {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            servers: Servers::new(self.clients.len()),
            clients: self
                .clients
                .iter()
                .map(|(kind, server)| Client::new(*kind, *server))
                .collect(),
            cuts: self.cuts,
            lapses: self.lapses,
            drops: self.drops,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let servers = &state.servers;
        if servers.can_follow() {
            actions.push(Action::Follow);
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
            if client.is_trusted && state.lapses > 0 {
                actions.push(Action::Lapse(at));
            }
            if !client.is_trusted && servers.is_alive_at(LEADER, at) {
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

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
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
                state.clients[at].is_trusted = false;
            }
            Action::Expire(at) => servers.expire(at),
            Action::Prove(at) => state.clients[at].is_trusted = true,
            Action::Drop(at) => {
                state.drops -= 1;
                state.clients[at].abandon(self.flaw);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSIVE, |_, state: &State| state.is_exclusive()),
            Property::always(NOBODY_WAITS_FOR_EVER, |scene: &Self, state: &State| {
                state.clients.iter().all(Client::is_over) || !scene.is_at_rest(state)
            }),
            Property::always(NOTHING_IS_LEFT, |scene: &Self, state: &State| {
                state.servers.is_empty() || !scene.is_at_rest(state)
            }),
            // What is claimed of all states says nothing if these are never reached.
            Property::sometimes("all of them held it", |_, state: &State| {
                state
                    .clients
                    .iter()
                    .all(|client| client.phase == Phase::Done)
            }),
        ]
    }
}

impl Scene {
    /// Nothing happens any more.
    fn is_at_rest(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        actions.is_empty()
    }
}

impl State {
    /// Of those who rely on the lock, one that does not share is alone.
    fn is_exclusive(&self) -> bool {
        let holders = || self.clients.iter().filter(|client| client.relies_on_it());
        holders().count() <= 1 || holders().all(|client| client.kind == Kind::Shared)
    }
}

const EXCLUSIVE: &str = "whoever does not share is alone";
const NOBODY_WAITS_FOR_EVER: &str = "nobody waits for ever";
const NOTHING_IS_LEFT: &str = "nothing is left behind";
