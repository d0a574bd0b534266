use proptest::prelude::*;

use super::super::history_builder::{HistoryBuilder, unjudged, valid, violated};
use super::super::{Linearizable, Verdict};
use super::*;
use crate::{Op, Outcome, ReturnValue};

fn check(builder: &HistoryBuilder) -> Verdict {
    FencedMutex::default().check(&builder.history())
}

#[test]
fn one_after_the_other_is_fine() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.acquire("b", 5..30, 9);
    s.release("a", 20..35);
    s.release("b", 40..45);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("grants"), 2);
}

#[test]
fn two_at_a_time_are_found() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.acquire("b", 5..19, 9);
    s.release("a", 20..35);
    let verdict = check(&s);
    violated(&verdict, &["overlap: 1 2"]);
    let sentence = &verdict.violations[0].sentence;
    assert_eq!(
        sentence,
        "b (token 9) was granted /x while a (token 7) still relied on it: both did for 1 ns"
    );
}

#[test]
fn the_overlap_of_a_long_holder_is_found_behind_short_ones() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 1);
    s.acquire("b", 0..20, 2);
    s.release("b", 30..35);
    s.acquire("c", 0..40, 3);
    s.release("c", 50..55);
    s.release("a", 60..65);
    violated(&check(&s), &["overlap: 1 2", "overlap: 1 4"]);
}

#[test]
fn a_release_that_has_begun_ends_what_its_holder_relies_on() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.unknown("a", &Op::release("/x"), 20..90);
    s.acquire("b", 5..30, 9);
    s.release("b", 40..45);
    s.failed("c", &Op::acquire("/x"), 0..100);
    valid(&check(&s));
}

#[test]
fn a_holder_that_knew_of_its_loss_is_no_holder() {
    let mut s = HistoryBuilder::new();
    let lost = s.acquire("a", 0..10, 7);
    s.until(lost, 25);
    s.acquire("b", 5..30, 9);
    s.failed("a", &Op::release("/x"), 40..45);
    s.release("b", 50..55);
    valid(&check(&s));
    s.until(lost, 31);
    violated(&check(&s), &["overlap: 1 2"]);
}

#[test]
fn a_process_relies_on_its_grant_until_its_last_sign() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.acquire("b", 5..30, 9);
    s.release("b", 50..55);
    valid(&check(&s));
    valid(&Linearizable::mutex().check(&s.history()));
    s.ok("a", &Op::read("/y"), 31..32, ());
    violated(&check(&s), &["overlap: 1 2"]);
}

#[test]
fn a_token_that_sinks_is_found() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.release("a", 20..25);
    s.acquire("b", 5..30, 6);
    s.release("b", 40..45);
    violated(&check(&s), &["token not higher: 1 3"]);
}

#[test]
fn a_token_that_two_have_is_found() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.release("a", 20..25);
    s.acquire("b", 5..30, 7);
    s.release("b", 40..45);
    violated(&check(&s), &["token used twice: 1 3"]);
}

#[test]
fn a_grant_seen_after_its_loss_breaks_no_order() {
    let mut s = HistoryBuilder::new();
    let late = s.acquire("a", 0..50, 5);
    s.until(late, 10);
    s.acquire("b", 0..30, 7);
    s.release("b", 60..65);
    valid(&check(&s));
    valid(&Linearizable::mutex().check(&s.history()));
    let later = s.acquire("c", 0..70, 6);
    s.until(later, 10);
    valid(&check(&s));
}

#[test]
fn unknown_tokens_and_unknown_acquires_are_no_violation() {
    let mut s = HistoryBuilder::new();
    s.unknown("c", &Op::acquire("/x"), 0..100);
    s.ok("a", &Op::acquire("/x"), 0..10, ());
    s.release("a", 20..25);
    s.acquire("b", 5..30, 6);
    s.release("b", 40..45);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("acquires unknown"), 1);
}

#[test]
fn a_release_that_succeeds_twice_is_found() {
    let mut s = HistoryBuilder::new();
    let grant = s.acquire("a", 0..10, 7);
    s.release("a", 20..25);
    s.release("a", 30..35);
    s.release("b", 40..45);
    violated(&check(&s), &["released twice: 3", "released twice: 4"]);
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    let again = Op::Release {
        path: "/x".into(),
        of: Some(grant),
    };
    s.ok("a", &again, 20..25, ());
    s.ok("a", &again, 30..35, ());
    violated(&check(&s), &["released twice: 2 3"]);
}

#[test]
fn a_release_may_be_tried_again() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.unknown("a", &Op::release("/x"), 20..25);
    s.release("a", 30..35);
    s.acquire("b", 5..26, 9);
    s.release("b", 40..45);
    valid(&check(&s));
}

#[test]
fn with_order_grants_out_of_order_are_found() {
    let mut s = HistoryBuilder::new();
    let answer = |token, sequence: i32| ReturnValue::token(token).with_sequence(sequence);
    s.ok("a", &Op::acquire("/x"), 0..10, answer(1, 4));
    s.release("a", 20..25);
    s.ok("b", &Op::acquire("/x"), 0..30, answer(2, 3));
    s.release("b", 40..45);
    valid(&check(&s));
    let ordered = FencedMutex::default().with_order();
    violated(&ordered.check(&s.history()), &["out of order: 1 3"]);
}

#[test]
fn each_lock_is_judged_by_itself() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.ok("b", &Op::acquire("/y"), 0..10, ReturnValue::token(3));
    s.release("a", 20..25);
    s.ok("b", &Op::release("/y"), 20..25, ());
    valid(&check(&s));
}

#[test]
fn without_a_grant_nothing_is_judged() {
    let mut s = HistoryBuilder::new();
    s.unknown("c", &Op::acquire("/x"), 0..100);
    unjudged(&check(&s), "no acquire that was granted");
}

/// Turns of a correct lock: the client, and the time of each step.
fn turns() -> impl Strategy<Value = Vec<(u8, u64, u64, u64, u64)>> {
    prop::collection::vec((0..4_u8, 0..50_u64, 1..20_u64, 1..20_u64, 1..20_u64), 2..30)
}

/// Grants each some time after the previous holder began to release.
fn working(turns: &[(u8, u64, u64, u64, u64)]) -> HistoryBuilder {
    let mut s = HistoryBuilder::new();
    let (mut free, mut token) = (100, 0);
    for (client, waited, delayed, held, released) in turns {
        let client = format!("p{client}");
        token += 1 + delayed % 3;
        let granted = free + delayed;
        s.acquire(&client, free.saturating_sub(*waited)..granted, token);
        let given_back = granted + held;
        s.release(&client, given_back..given_back + released);
        free = given_back + 1 + released / 2;
    }
    s
}

proptest! {
    #[test]
    fn a_lock_that_works_passes(turns in turns()) {
        valid(&check(&working(&turns)));
    }

    #[test]
    fn swapped_tokens_are_found(turns in turns(), at in any::<prop::sample::Index>()) {
        let mut history = working(&turns).history();
        let grants: Vec<usize> = (0..history.calls.len())
            .filter(|at| matches!(history.calls[*at].op, Op::Acquire { .. }))
            .collect();
        let mut by_return = grants.clone();
        by_return.sort_by_key(|at| history.calls[*at].returned);
        let first = at.index(by_return.len() - 1);
        let (a, b) = (by_return[first], by_return[first + 1]);
        let outcome = history.calls[a].outcome.clone();
        history.calls[a].outcome = std::mem::replace(&mut history.calls[b].outcome, outcome);
        prop_assert!(FencedMutex::default().check(&history).found > 0);
    }

    #[test]
    fn a_release_that_is_left_out_is_found(turns in turns(), at in any::<prop::sample::Index>()) {
        // Its holder is alive at the end, and relied on it until then.
        let mut s = working(&turns);
        for client in 0..4 {
            s.ok(&format!("p{client}"), &Op::read("/y"), 100_000..100_001, ());
        }
        let mut history = s.history();
        let releases: Vec<usize> = (0..history.calls.len())
            .filter(|at| matches!(history.calls[*at].op, Op::Release { .. }))
            .collect();
        let last = history.calls.iter().filter(|call| matches!(call.op, Op::Acquire { .. }))
            .map(|call| call.returned).max().unwrap();
        let at = releases[at.index(releases.len())];
        prop_assume!(history.calls[at].returned < last);
        history.calls.remove(at);
        prop_assert!(FencedMutex::default().check(&history).found > 0);
    }

    /// Two independent algorithms agree on every history, correct or not.
    #[test]
    fn the_sweep_and_the_search_for_an_order_agree(
        calls in prop::collection::vec((0..3_u8, 0..60_u64, 1..12_u64, 1..12_u64, 1..12_u64, 0..4_u8), 1..7),
    ) {
        let mut s = HistoryBuilder::new();
        for (token, (client, at, delayed, held, released, end)) in (1..).zip(calls) {
            // Separate tasks: each releases its own grant.
            let client = format!("p{client}/{token}");
            // No two times of one kind are equal.
            let at = at * 100 + token;
            let granted = at + delayed * 100;
            let grant = s.acquire(&client, at..granted, token);
            let free = granted + held * 100;
            let op = Op::Release { path: "/x".into(), of: Some(grant) };
            let time = free + 50..free + 50 + released * 100;
            let _: u64 = match end {
                0 => s.ok(&client, &op, time, ()),
                1 => s.unknown(&client, &op, time),
                2 => s.call(&client, &op, time, Outcome::Failed { reason: String::new() }),
                _ => continue,
            };
        }
        let history = s.history();
        let sweep = FencedMutex::default().check(&history);
        let search = Linearizable::mutex().check(&history);
        prop_assert_eq!(sweep.is_valid(), search.is_valid(), "{}\n{}", sweep, search);
    }
}
