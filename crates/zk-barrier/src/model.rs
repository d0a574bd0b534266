//! A model of the double barrier with rounds, explored in every interleaving.
//!
//! Clients and servers are reduced to what the protocol depends on. What a member does next is decided by
//! [`enter_step`](crate::decision::enter_step) and [`leave_step`](crate::decision::leave_step), the functions
//! that the code uses. The model has:
//!
//! - Two servers: the leader, which executes all writes, and a follower that has applied a prefix of them. A client reads
//!   at its server, after its own writes have been applied there. A watch fires when the change is applied there.
//! - Transactions, which change the leader's tree at once or not at all.
//! - Members whose time is over, and sessions that end, at any moment. A client that lost its session enters again with
//!   another one if it has rounds left.
//!
//! Not modelled: lost replies, whose outcome the code finds out with a quorum's `sync` before it reads again; dropped
//! calls, which to others look like sessions that end; clients that move between servers; deletions by other clients.

mod client;
mod explore;
mod tree;

use stateright::{Model, Property};

use self::client::{Client, Phase};
use self::tree::{MemberId, Servers};

/// The scenario that is explored.
#[derive(Debug, Clone)]
struct Scenario {
    /// The server of each client.
    clients: Vec<usize>,
    threshold: u32,
    /// How many rounds each client enters.
    rounds: u8,
    /// How many members run out of time.
    timeouts: u8,
    /// How many sessions end.
    crashes: u8,
    /// A flaw in the protocol, to see the properties fail.
    flaw: Flaw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    /// B1: a member whose time is over leaves its node.
    LeavesNodeAtTimeout,
    /// Opens the round although a counted member has withdrawn.
    IgnoresWithdrawals,
    /// Withdraws from a round that was opened.
    WithdrawsFromOpenRound,
    /// B3: counts the state as a member.
    CountsState,
    /// B3: enters a round that was opened earlier, whether or not a member is in it.
    EntersOpenRound,
    /// Looks for a member of the beginning on its own server, which may lag.
    ValidatesByRead,
    /// Takes any member for the opener.
    ValidatesWithAnyMember,
    /// Takes the end of the opener for the end of the round.
    LeavesWithOpener,
    /// Waits for a member without checking that it is there.
    WatchesBlindly,
    /// Leaves it to members to end a round.
    WaitsForMembersOnly,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ModelState {
    servers: Servers,
    clients: Vec<Client>,
    timeouts: u8,
    crashes: u8,
    record: Record,
}

/// What has happened, for the properties.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Record {
    /// The members that were counted for each round that was opened.
    counted: Vec<Vec<MemberId>>,
    /// The members that have withdrawn.
    withdrawn: Vec<MemberId>,
    /// Whether a member passed without one that was in the round when it was opened.
    passed_alone: bool,
    /// Whether a member returned from leaving while another one was in the round.
    left_early: bool,
    /// The rounds that ended with all clients in them.
    full_rounds: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    /// The client takes its next step: it reads, or the leader executes its transaction.
    Step(usize),
    /// The follower applies the next change.
    Follow,
    /// The time of a member that waits to enter is over.
    TimeOut(usize),
    /// The client's session ends.
    Crash(usize),
}

impl Model for Scenario {
    type State = ModelState;
    type Action = Action;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState {
            servers: Servers::new(),
            clients: self
                .clients
                .iter()
                .map(|server| Client::new(*server, self.rounds))
                .collect(),
            timeouts: self.timeouts,
            crashes: self.crashes,
            record: Record::default(),
        }]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<Action>) {
        if state.servers.can_follow() {
            actions.push(Action::Follow);
        }
        for (at, client) in state.clients.iter().enumerate() {
            if client.can_step(&state.servers, self.flaw) {
                actions.push(Action::Step(at));
            }
            if state.timeouts > 0 && matches!(client.phase, Phase::Waiting { .. }) {
                actions.push(Action::TimeOut(at));
            }
            if state.crashes > 0 && client.phase != Phase::Done {
                actions.push(Action::Crash(at));
            }
        }
    }

    fn next_state(&self, before: &ModelState, action: Action) -> Option<ModelState> {
        let mut state = before.clone();
        match action {
            Action::Step(at) => {
                let ModelState {
                    servers,
                    clients,
                    record,
                    ..
                } = &mut state;
                let inside = |round| {
                    let others = before.clients.iter().enumerate();
                    others
                        .filter(|(other, client)| *other != at && client.is_inside(round))
                        .count()
                };
                clients[at].step(at, servers, record, self, &inside);
            }
            Action::Follow => state.servers.follow(),
            Action::TimeOut(at) => {
                state.timeouts -= 1;
                state.clients[at].time_out();
            }
            Action::Crash(at) => {
                state.crashes -= 1;
                state.servers.end_session(at);
                state.clients[at].crash();
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(COUNTED, |scenario: &Self, state: &ModelState| {
                let record = &state.record;
                record.counted.iter().all(|counted| {
                    counted.len() >= scenario.threshold as usize
                        && counted.iter().all(|id| !record.withdrawn.contains(id))
                })
            }),
            Property::always(NOT_ALONE, |_, state: &ModelState| {
                !state.record.passed_alone
            }),
            Property::always(NOT_EARLY, |_, state: &ModelState| !state.record.left_early),
            Property::always(NOT_STUCK, |scenario: &Self, state: &ModelState| {
                !scenario.is_quiescent(state) || scenario.may_rest(state)
            }),
            // The properties above are vacuous unless such states are reached.
            Property::sometimes(
                "all rounds are over",
                |scenario: &Self, state: &ModelState| {
                    state.record.counted.len() >= usize::from(scenario.rounds)
                        && state
                            .clients
                            .iter()
                            .all(|client| client.phase == Phase::Done)
                },
            ),
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

    /// Returns whether every client is done, or waits for a round with too few members, and only those have nodes.
    fn may_rest(&self, state: &ModelState) -> bool {
        let waits = |client: &Client| matches!(client.phase, Phase::Waiting { .. });
        let waiting = state.clients.iter().filter(|client| waits(client)).count();
        let is_over = |client: &Client| client.phase == Phase::Done || waits(client);
        state.clients.iter().all(is_over)
            && state.servers.leader().members.len() == waiting
            && waiting < self.threshold as usize
    }
}

const COUNTED: &str = "a round is opened with enough members, and none of them withdraws";
const NOT_ALONE: &str = "a member passes with one that was in the round when it was opened";
const NOT_EARLY: &str = "no member returns from leaving while another is in the round";
const NOT_STUCK: &str = "no member waits for ever, and no node is left";
