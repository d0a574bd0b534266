//! Explores scenarios, and checks that the exploration finds known flaws of the protocol.

use stateright::{Checker, HasDiscoveries};

use super::tree::{FOLLOWER, LEADER};
use super::*;

fn scenario(clients: &[usize], rounds: u8, timeouts: u8, crashes: u8) -> Scenario {
    Scenario {
        clients: clients.to_vec(),
        threshold: 2,
        rounds,
        timeouts,
        crashes,
        flaw: Flaw::None,
    }
}

/// Explores the scenario and checks all properties.
fn holds(what: &str, scenario: Scenario) {
    let checker = scenario.checker().threads(2).spawn_bfs().join();
    println!(
        "{what}: {} states, {} steps between them, at most {} in a row",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    checker.assert_properties();
}

/// Explores the scenario with a flaw and checks that it breaks the property.
fn breaks(property: &'static str, flaw: Flaw, scenario: Scenario) {
    let scenario = Scenario { flaw, ..scenario };
    let finish = HasDiscoveries::AnyOf([property].into());
    let checker = scenario.checker().threads(2).finish_when(finish);
    let checker = checker.spawn_bfs().join();
    let how = checker.discovery(property);
    let how = how.unwrap_or_else(|| panic!("{flaw:?} was not found"));
    println!("{flaw:?} breaks \"{property}\": {:?}", how.into_actions());
}

#[test]
fn two_meet_in_two_rounds_whatever_fails() {
    let two = [LEADER, FOLLOWER];
    holds("two members, two rounds", scenario(&two, 2, 0, 0));
    holds("one timeout, one crash", scenario(&two, 2, 1, 1));
}

#[test]
fn three_meet_at_a_threshold_of_two_whatever_fails() {
    let three = [LEADER, FOLLOWER, FOLLOWER];
    holds("three members, one crash", scenario(&three, 1, 0, 1));
    holds("three members, one timeout", scenario(&three, 1, 1, 0));
    holds("three members, two crashes", scenario(&three, 1, 0, 2));
}

#[test]
fn three_meet_at_a_threshold_of_three_whatever_fails() {
    let three = Scenario {
        threshold: 3,
        ..scenario(&[LEADER, FOLLOWER, FOLLOWER], 1, 1, 1)
    };
    holds("three members of three, one timeout, one crash", three);
}

#[test]
fn a_node_left_at_a_timeout_is_found() {
    let two = [LEADER, FOLLOWER];
    breaks(COUNTED, Flaw::LeavesNodeAtTimeout, scenario(&two, 1, 1, 0));
}

#[test]
fn an_ignored_withdrawal_is_found() {
    let two = [LEADER, FOLLOWER];
    breaks(COUNTED, Flaw::IgnoresWithdrawals, scenario(&two, 1, 1, 0));
}

#[test]
fn a_withdrawal_from_an_open_round_is_found() {
    let two = [LEADER, FOLLOWER];
    breaks(
        COUNTED,
        Flaw::WithdrawsFromOpenRound,
        scenario(&two, 1, 1, 0),
    );
}

#[test]
fn a_state_counted_as_a_member_is_found() {
    breaks(COUNTED, Flaw::CountsState, scenario(&[LEADER], 1, 0, 0));
}

#[test]
fn an_open_round_entered_without_members_is_found() {
    let three = [LEADER, FOLLOWER, LEADER];
    breaks(NOT_ALONE, Flaw::EntersOpenRound, scenario(&three, 1, 0, 2));
}

#[test]
fn a_lagging_proof_of_another_member_is_found() {
    let three = [LEADER, LEADER, FOLLOWER];
    breaks(NOT_ALONE, Flaw::ValidatesByRead, scenario(&three, 1, 0, 2));
}

#[test]
fn a_late_member_as_the_proof_for_another_is_found() {
    // The only member of the beginning ends, and two come late.
    let three = Scenario {
        threshold: 1,
        ..scenario(&[LEADER, LEADER, LEADER], 1, 0, 1)
    };
    let flaw = Flaw::ValidatesWithAnyMember;
    breaks(NOT_ALONE, flaw, three);
}

#[test]
fn the_end_of_an_opener_taken_for_that_of_the_round_is_found() {
    let three = [LEADER, LEADER, FOLLOWER];
    breaks(NOT_EARLY, Flaw::LeavesWithOpener, scenario(&three, 1, 0, 1));
}

#[test]
fn a_watch_on_a_member_that_is_gone_is_found() {
    let two = [LEADER, FOLLOWER];
    breaks(NOT_STUCK, Flaw::WatchesBlindly, scenario(&two, 1, 0, 1));
}

#[test]
fn a_round_whose_members_all_died_is_found() {
    let two = [LEADER, FOLLOWER];
    breaks(
        NOT_STUCK,
        Flaw::WaitsForMembersOnly,
        scenario(&two, 1, 0, 1),
    );
}
