//! What is explored, and that it would be found out if the protocol were wrong.

use stateright::Checker;

use super::*;

const EXCLUSIVE_AT_LEADER: (Kind, usize) = (Kind::Exclusive, 0);
const EXCLUSIVE_AT_FOLLOWER: (Kind, usize) = (Kind::Exclusive, 1);
const SHARED_AT_LEADER: (Kind, usize) = (Kind::Shared, 0);
const SHARED_AT_FOLLOWER: (Kind, usize) = (Kind::Shared, 1);

fn scene(clients: &[(Kind, usize)], cuts: u8, lapses: u8, drops: u8) -> Scene {
    Scene {
        clients: clients.to_vec(),
        cuts,
        lapses,
        drops,
        flaw: Flaw::None,
    }
}

/// Explores all of it.
fn holds(what: &str, scene: Scene) {
    let checker = scene.checker().threads(2).spawn_bfs().join();
    println!(
        "{what}: {} states, {} steps between them, at most {} in a row",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
}

/// Explores it until the property is found broken, and tells how.
fn breaks(property: &'static str, flaw: Flaw, scene: Scene) {
    let scene = Scene { flaw, ..scene };
    let checker = scene.checker().threads(2).spawn_bfs().join();
    let how = checker.discovery(property);
    let how = how.unwrap_or_else(|| panic!("{flaw:?} was not found out"));
    println!("{flaw:?} breaks \"{property}\": {:?}", how.into_actions());
}

// covers: L1 L3 L12
#[test]
fn two_exclude_each_other_whatever_is_lost() {
    holds(
        "two clients, two cuts, two lapses, one drop",
        scene(&[EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER], 2, 2, 1),
    );
}

// covers: L1 L3 L12
#[test]
fn three_exclude_each_other_over_a_cut_a_lapse_and_a_drop() {
    let clients = [
        EXCLUSIVE_AT_LEADER,
        EXCLUSIVE_AT_FOLLOWER,
        EXCLUSIVE_AT_FOLLOWER,
    ];
    holds(
        "three clients, one cut, one lapse",
        scene(&clients, 1, 1, 0),
    );
    holds("three clients, one cut, one drop", scene(&clients, 1, 0, 1));
}

// covers: L1
#[test]
fn four_are_granted_one_after_the_other() {
    let clients = [
        EXCLUSIVE_AT_LEADER,
        EXCLUSIVE_AT_FOLLOWER,
        EXCLUSIVE_AT_FOLLOWER,
        EXCLUSIVE_AT_LEADER,
    ];
    holds("four clients, one drop", scene(&clients, 0, 0, 1));
}

// covers: L4
#[test]
fn readers_share_and_writers_do_not() {
    let clients = [SHARED_AT_LEADER, EXCLUSIVE_AT_FOLLOWER, SHARED_AT_FOLLOWER];
    holds(
        "two readers and a writer, one cut, one lapse",
        scene(&clients, 1, 1, 0),
    );
    holds(
        "two readers and a writer, one cut, one drop",
        scene(&clients, 1, 0, 1),
    );
}

#[test]
fn a_look_without_sync_is_found_out() {
    // The link breaks behind the create, and the next server has not carried it out.
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_LEADER];
    breaks(
        NOBODY_WAITS_FOR_EVER,
        Flaw::LooksWithoutSync,
        scene(&clients, 1, 0, 0),
    );
}

#[test]
fn a_watch_that_is_trusted_over_a_cut_is_found_out() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NOBODY_WAITS_FOR_EVER,
        Flaw::KeepsWatchOverCut,
        scene(&clients, 1, 0, 0),
    );
}

#[test]
fn a_node_that_a_dropped_acquire_leaves_is_found_out() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NOTHING_IS_LEFT,
        Flaw::LeavesDropped,
        scene(&clients[..1], 0, 0, 1),
    );
    breaks(
        NOBODY_WAITS_FOR_EVER,
        Flaw::LeavesDropped,
        scene(&clients, 0, 0, 1),
    );
}

#[test]
fn a_grant_to_a_session_that_may_be_over_is_found_out() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(EXCLUSIVE, Flaw::GrantsUntrusted, scene(&clients, 0, 1, 0));
}

#[test]
fn a_deletion_that_is_taken_for_a_grant_too_early_is_found_out() {
    let clients = [
        EXCLUSIVE_AT_LEADER,
        EXCLUSIVE_AT_FOLLOWER,
        EXCLUSIVE_AT_LEADER,
    ];
    breaks(EXCLUSIVE, Flaw::TakesOverBlindly, scene(&clients, 0, 0, 1));
}

#[test]
fn a_watch_of_a_node_that_has_gone_is_found_out() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NOBODY_WAITS_FOR_EVER,
        Flaw::WatchesBlindly,
        scene(&clients, 0, 0, 0),
    );
}
