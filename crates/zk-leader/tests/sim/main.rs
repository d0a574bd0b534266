//! Elections on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_leader::{
    ElectionOptions, LatchParticipant, LeaderLatch, LeaderLease, ParticipantHandle,
    ParticipantState, Selector,
};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled, soon};
use zk_testkit::sim::children;

mod breadcrumb;
mod cancellation;
mod chaos;
mod known_bugs;
mod latch;
mod layout;
mod metrics;
mod participants;
mod selector;
mod step_down;

/// The path of the election of the tests.
const PATH: &str = "/leaders/a";

fn latch(session: &Session) -> LeaderLatch {
    LeaderLatch::new(session, PATH).expect("a good path")
}

fn selector(session: &Session) -> Selector {
    Selector::new(session, PATH).expect("a good path")
}

fn options() -> ElectionOptions {
    ElectionOptions::default()
}

fn selector_with(session: &Session, options: &ElectionOptions) -> Selector {
    Selector::with_options(session, PATH, options).expect("a good path")
}

/// The children of the path of the election, as the leader has them.
fn left(ensemble: &Ensemble) -> Vec<String> {
    children(ensemble, PATH)
}

/// The node of the participant with this token.
fn node_of(ensemble: &Ensemble, handle: &ParticipantHandle) -> String {
    let token = match handle.state() {
        ParticipantState::Waiting { token } => token,
        ParticipantState::Leading(lease) => lease.fencing_token(),
        state => panic!("it has no node: {state}"),
    };
    let tree = ensemble.tree();
    let path = tree
        .nodes()
        .find(|(_, node)| node.stat().czxid.cast_unsigned() == token.as_u64());
    path.expect("its node is there").0.to_string()
}

/// Waits until the participant's state is such a one.
async fn until(
    what: &str,
    handle: &ParticipantHandle,
    is_it: impl Fn(&ParticipantState) -> bool,
) -> ParticipantState {
    let mut changes = handle.changes();
    soon(what, async {
        loop {
            let state = changes.next().await;
            let state = state.unwrap_or_else(|| panic!("it ended before this: {what}"));
            if is_it(&state) {
                return state;
            }
        }
    })
    .await
}

async fn until_waiting(handle: &ParticipantHandle) {
    until("it waits", handle, |it| {
        matches!(it, ParticipantState::Waiting { .. })
    })
    .await;
}

/// A participant that leads, and another one that waits behind it.
async fn led_and_waited_for(
    leader: &Session,
    waiter: &Session,
) -> (LatchParticipant, LeaderLease, LatchParticipant) {
    let leading = latch(leader).join();
    let lease = soon("it is the only participant", leading.leading())
        .await
        .expect("it leads");
    let waiting = latch(waiter).join();
    until_waiting(waiting.handle()).await;
    pass(Duration::from_millis(100)).await;
    assert!(!waiting.is_leader());
    (leading, lease, waiting)
}
