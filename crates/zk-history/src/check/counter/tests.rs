use proptest::prelude::*;

use super::super::history_builder::{HistoryBuilder, unjudged, valid, violated};
use super::*;
use crate::ReturnValue;

fn check(builder: &HistoryBuilder) -> Verdict {
    Counter::default().check(&builder.history())
}

fn add(s: &mut HistoryBuilder, by: i64, time: std::ops::Range<u64>) -> u64 {
    s.ok("w", &Op::increment("/n", by), time, ())
}

fn read(s: &mut HistoryBuilder, value: i64, time: std::ops::Range<u64>) -> u64 {
    s.ok("r", &Op::read("/n"), time, ReturnValue::value(value))
}

#[test]
fn a_read_within_the_bounds_is_fine() {
    let mut s = HistoryBuilder::new();
    read(&mut s, 0, 0..1);
    add(&mut s, 3, 2..10);
    read(&mut s, 3, 5..6);
    read(&mut s, 0, 5..6);
    read(&mut s, 0, 10..11);
    read(&mut s, 3, 11..12);
    add(&mut s, -1, 13..20);
    read(&mut s, 2, 15..16);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("reads"), 6);
}

#[test]
fn a_lost_update_is_found() {
    let mut s = HistoryBuilder::new();
    add(&mut s, 1, 2..10);
    add(&mut s, 1, 5..12);
    read(&mut s, 1, 13..14);
    let verdict = check(&s);
    violated(&verdict, &["too low: 3"]);
    assert_eq!(
        verdict.violations[0].sentence,
        "r read 1 from /n, which was between 2 and 2"
    );
}

#[test]
fn an_update_that_was_applied_twice_is_found() {
    let mut s = HistoryBuilder::new();
    add(&mut s, 1, 2..10);
    read(&mut s, 2, 13..14);
    violated(&check(&s), &["too high: 2"]);
    let mut s = HistoryBuilder::new();
    add(&mut s, -1, 2..10);
    read(&mut s, -2, 13..14);
    violated(&check(&s), &["too low: 2"]);
}

#[test]
fn an_unknown_update_counts_once_or_not_at_all() {
    for (value, rules) in [
        (1, &["too low: 3"][..]),
        (2, &[]),
        (3, &[]),
        (4, &["too high: 3"]),
    ] {
        let mut s = HistoryBuilder::new();
        add(&mut s, 2, 2..10);
        s.unknown("w", &Op::increment("/n", 1), 11..12);
        read(&mut s, value, 13..14);
        assert_eq!(super::super::history_builder::broken(&check(&s)), rules);
    }
}

#[test]
fn an_update_that_failed_counts_for_nothing() {
    let mut s = HistoryBuilder::new();
    add(&mut s, 2, 2..10);
    s.failed("w", &Op::increment("/n", 1), 11..12);
    read(&mut s, 3, 13..14);
    violated(&check(&s), &["too high: 3"]);
}

#[test]
fn a_counter_may_begin_elsewhere() {
    let mut s = HistoryBuilder::new();
    add(&mut s, 2, 2..10);
    read(&mut s, 7, 13..14);
    let counter = Counter::default().with_initial(5);
    valid(&counter.check(&s.history()));
    read(&mut s, 5, 13..14);
    violated(&counter.check(&s.history()), &["too low: 3"]);
}

#[test]
fn without_a_read_nothing_is_judged() {
    let mut s = HistoryBuilder::new();
    add(&mut s, 2, 2..10);
    unjudged(&check(&s), "no read of one");
}

proptest! {
    /// A correct counter passes, and any error in the last read is found.
    #[test]
    fn a_counter_that_works_passes_and_a_wrong_sum_is_found(
        steps in prop::collection::vec((any::<bool>(), -5..6_i64, 1..9_u64, 1..9_u64), 1..30),
        off in prop_oneof![-9..0_i64, 1..9_i64],
    ) {
        let mut s = HistoryBuilder::new();
        let (mut at, mut value) = (0, 0);
        for (reads, by, before, after) in steps {
            // It takes effect between invoke and return.
            let time = at..at + before + after;
            at += before;
            if reads {
                read(&mut s, value, time);
            } else {
                add(&mut s, by, time);
                value += by;
            }
        }
        add(&mut s, 0, at..at + 1);
        read(&mut s, value, 1000..1001);
        prop_assert!(check(&s).is_valid());
        read(&mut s, value + off, 1000..1001);
        prop_assert_eq!(check(&s).found, 1);
    }
}
