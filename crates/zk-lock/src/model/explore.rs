//! Explores scenarios, and checks that the exploration finds known flaws of the protocol.

use stateright::Checker;

use super::*;

const EXCLUSIVE_AT_LEADER: (Kind, usize) = (Kind::Exclusive, 0);
const EXCLUSIVE_AT_FOLLOWER: (Kind, usize) = (Kind::Exclusive, 1);
const SHARED_AT_LEADER: (Kind, usize) = (Kind::Shared, 0);
const SHARED_AT_FOLLOWER: (Kind, usize) = (Kind::Shared, 1);

fn scenario(clients: &[(Kind, usize)], cuts: u8, lapses: u8, drops: u8) -> Scenario {
    Scenario {
        clients: clients.to_vec(),
        cuts,
        lapses,
        drops,
        turns: 1,
        yields: 0,
        reaps: 0,
        flaw: Flaw::None,
    }
}

/// Explores the scenario and checks all properties, and that it has so many states.
fn holds(what: &str, states: usize, scenario: Scenario) {
    let checker = scenario.checker().threads(2).spawn_bfs().join();
    println!(
        "{what}: {} states, {} steps between them, at most {} in a row",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "states of {what}");
}

/// Explores the scenario with a flaw and checks that it breaks the property.
fn breaks(property: &'static str, flaw: Flaw, scenario: Scenario) {
    let scenario = Scenario { flaw, ..scenario };
    let checker = scenario.checker().threads(2).spawn_bfs().join();
    let how = checker.discovery(property);
    let how = how.unwrap_or_else(|| panic!("{flaw:?} was not found"));
    println!("{flaw:?} breaks \"{property}\": {:?}", how.into_actions());
}

#[test]
fn two_exclude_each_other_over_a_cut_a_lapse_and_a_drop() {
    holds(
        "two clients, one cut, one lapse, one drop",
        86_568,
        scenario(&[EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER], 1, 1, 1),
    );
}

#[test]
fn a_search_without_sync_is_found() {
    // The connection breaks after the create, and the next server has not applied it yet.
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_LEADER];
    breaks(
        NO_WAITER_IS_STUCK,
        Flaw::SearchesWithoutSync,
        scenario(&clients, 1, 0, 0),
    );
}

#[test]
fn a_watch_kept_over_a_broken_connection_is_found() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NO_WAITER_IS_STUCK,
        Flaw::KeepsWatchOverCut,
        scenario(&clients, 1, 0, 0),
    );
}

#[test]
fn a_node_left_by_a_dropped_acquire_is_found() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NO_NODE_IS_LEFT,
        Flaw::LeavesDropped,
        scenario(&clients[..1], 0, 0, 1),
    );
    breaks(
        NO_WAITER_IS_STUCK,
        Flaw::LeavesDropped,
        scenario(&clients, 0, 0, 1),
    );
}

#[test]
fn a_grant_without_a_session_lease_is_found() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        EXCLUSIVE,
        Flaw::GrantsWithoutLease,
        scenario(&clients, 0, 1, 0),
    );
}

#[test]
fn a_deletion_taken_for_a_grant_too_early_is_found() {
    let clients = [
        EXCLUSIVE_AT_LEADER,
        EXCLUSIVE_AT_FOLLOWER,
        EXCLUSIVE_AT_LEADER,
    ];
    breaks(
        EXCLUSIVE,
        Flaw::TakesOverBlindly,
        scenario(&clients, 0, 0, 1),
    );
}

#[test]
fn a_watch_on_a_deleted_node_is_found() {
    let clients = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NO_WAITER_IS_STUCK,
        Flaw::WatchesBlindly,
        scenario(&clients, 0, 0, 0),
    );
}

/// Two clients that acquire the lock twice each, below a path that may be removed in between.
fn two_turns(cuts: u8, reaps: u8) -> Scenario {
    Scenario {
        turns: 2,
        reaps,
        ..scenario(&[EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER], cuts, 0, 0)
    }
}

#[test]
fn turns_without_a_list_exclude_each_other() {
    holds(
        "two turns of two clients, two reaps",
        9_649,
        two_turns(0, 2),
    );
    holds(
        "two turns of two clients, a cut, a reap",
        108_554,
        two_turns(1, 1),
    );
    let three_turns = Scenario {
        turns: 3,
        ..two_turns(0, 1)
    };
    holds("three turns of two clients, a reap", 33_673, three_turns);
}

#[test]
fn a_number_of_another_path_is_found() {
    breaks(EXCLUSIVE, Flaw::IgnoresNewPath, two_turns(0, 1));
}

#[test]
fn a_watch_on_the_path_kept_over_a_broken_connection_is_found() {
    breaks(EXCLUSIVE, Flaw::KeepsPathWatchOverCut, two_turns(1, 1));
}

#[test]
fn a_number_after_that_of_another_contender_is_found() {
    breaks(EXCLUSIVE, Flaw::SkipsNumbers, two_turns(0, 0));
}

/// A scenario in which each client yields the lock before it releases it.
fn yielding(scenario: Scenario) -> Scenario {
    Scenario {
        yields: 1,
        ..scenario
    }
}

#[test]
fn yields_of_two_exclude_each_other_whatever_is_lost() {
    let two = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    holds(
        "yields of two clients, two cuts, one lapse",
        234_233,
        yielding(scenario(&two, 2, 1, 0)),
    );
    holds(
        "yields of two clients, one cut, one drop",
        25_351,
        yielding(scenario(&two, 1, 0, 1)),
    );
}

#[test]
fn yields_of_three_exclude_each_other() {
    let three = [
        EXCLUSIVE_AT_LEADER,
        EXCLUSIVE_AT_FOLLOWER,
        EXCLUSIVE_AT_FOLLOWER,
    ];
    holds(
        "yields of three clients, one cut",
        324_505,
        yielding(scenario(&three, 1, 0, 0)),
    );
}

#[test]
fn yields_of_readers_and_a_writer_exclude_each_other() {
    let clients = [SHARED_AT_LEADER, EXCLUSIVE_AT_FOLLOWER, SHARED_AT_FOLLOWER];
    holds(
        "yields of two readers and a writer, one cut",
        365_169,
        yielding(scenario(&clients, 1, 0, 0)),
    );
}

#[test]
fn a_lock_kept_after_a_lost_reply_to_a_yield_is_found() {
    let two = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        EXCLUSIVE,
        Flaw::KeepsLockAfterLostYield,
        yielding(scenario(&two, 1, 0, 0)),
    );
}

#[test]
fn a_yield_that_joins_again_without_a_search_is_found() {
    let two = [EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER];
    breaks(
        NO_NODE_IS_LEFT,
        Flaw::RejoinsWithoutSearch,
        yielding(scenario(&two, 1, 0, 0)),
    );
}

/// Scenarios that take some seconds each.
mod long {
    use super::*;

    #[test]
    fn two_exclude_each_other_whatever_is_lost() {
        holds(
            "two clients, two cuts, two lapses, one drop",
            914_330,
            scenario(&[EXCLUSIVE_AT_LEADER, EXCLUSIVE_AT_FOLLOWER], 2, 2, 1),
        );
    }

    #[test]
    fn three_exclude_each_other_over_a_cut_a_lapse_and_a_drop() {
        let clients = [
            EXCLUSIVE_AT_LEADER,
            EXCLUSIVE_AT_FOLLOWER,
            EXCLUSIVE_AT_FOLLOWER,
        ];
        holds(
            "three clients, one cut, one lapse",
            1_569_857,
            scenario(&clients, 1, 1, 0),
        );
        holds(
            "three clients, one cut, one drop",
            373_463,
            scenario(&clients, 1, 0, 1),
        );
    }

    #[test]
    fn four_are_granted_one_after_the_other() {
        let clients = [
            EXCLUSIVE_AT_LEADER,
            EXCLUSIVE_AT_FOLLOWER,
            EXCLUSIVE_AT_FOLLOWER,
            EXCLUSIVE_AT_LEADER,
        ];
        holds(
            "four clients, one drop",
            1_895_480,
            scenario(&clients, 0, 0, 1),
        );
    }

    #[test]
    fn readers_share_and_writers_do_not() {
        let clients = [SHARED_AT_LEADER, EXCLUSIVE_AT_FOLLOWER, SHARED_AT_FOLLOWER];
        holds(
            "two readers and a writer, one cut, one lapse",
            1_854_233,
            scenario(&clients, 1, 1, 0),
        );
        holds(
            "two readers and a writer, one cut, one drop",
            417_922,
            scenario(&clients, 1, 0, 1),
        );
    }
}
