use super::super::Checker;
use super::super::history_builder::{HistoryBuilder, unjudged, valid, violated};
use super::*;
use crate::Op;

fn mutex(builder: &HistoryBuilder) -> Verdict {
    Linearizable::mutex().check(&builder.history())
}

#[test]
fn a_lock_that_two_hold_has_no_order() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 7);
    s.release("a", 20..35);
    s.acquire("b", 5..30, 9);
    s.release("b", 40..45);
    let verdict = mutex(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("operations"), 4);
    s.acquire("c", 0..39, 10);
    let verdict = mutex(&s);
    violated(&verdict, &["not linearizable: 1 2 5 3"]);
    assert_eq!(
        verdict.violations[0].sentence,
        "b: acquire /x (ok, token 9) has no place in any order of the operations on /x; \
         the longest order has 3 of 6, and these last"
    );
}

#[test]
fn too_few_steps_or_operations_judge_nothing() {
    let mut s = HistoryBuilder::new();
    s.unknown("a", &Op::acquire("/x"), 0..5);
    unjudged(&mutex(&s), "no acquire that was granted");
    s.acquire("a", 0..10, 7);
    s.acquire("b", 0..20, 9);
    let hasty: Checker = "linearizable:budget=1".parse().unwrap();
    unjudged(&hasty.check(&s.history()), "1 steps were not enough");
}
