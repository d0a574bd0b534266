use proptest::prelude::*;

use super::super::history_builder::{HistoryBuilder, unjudged, valid, violated};
use super::*;
use crate::Op;

fn check(permits: u32, builder: &HistoryBuilder) -> Verdict {
    Semaphore::new(permits).check(&builder.history())
}

fn take(s: &mut HistoryBuilder, client: &str, time: std::ops::Range<u64>, permits: u32) -> u64 {
    s.ok(client, &Op::acquire_permits("/x", permits), time, ())
}

#[test]
fn as_many_as_there_are_permits_may_be_held() {
    let mut s = HistoryBuilder::new();
    take(&mut s, "a", 0..10, 2);
    take(&mut s, "b", 0..11, 1);
    s.release("a", 20..25);
    take(&mut s, "c", 0..21, 2);
    s.release("b", 30..35);
    s.release("c", 30..35);
    let verdict = check(3, &s);
    valid(&verdict);
    assert_eq!(verdict.counted("most permits at a time"), 3);
    violated(&check(2, &s), &["too many: 1 2", "too many: 2 4"]);
}

#[test]
fn several_permits_at_once_count_as_many() {
    let mut s = HistoryBuilder::new();
    take(&mut s, "a", 0..10, 1);
    take(&mut s, "b", 0..11, 3);
    s.release("a", 20..25);
    s.release("b", 20..25);
    let verdict = check(3, &s);
    violated(&verdict, &["too many: 1 2"]);
    assert_eq!(
        verdict.violations[0].sentence,
        "b was granted 3 of /x while 1 were relied on: 4 together, and there are 3"
    );
}

#[test]
fn one_client_may_hold_several_leases() {
    let mut s = HistoryBuilder::new();
    take(&mut s, "a", 0..10, 1);
    take(&mut s, "a", 0..11, 1);
    s.release("a", 20..25);
    take(&mut s, "a", 20..26, 1);
    s.release("a", 30..35);
    s.release("a", 40..45);
    valid(&check(2, &s));
    violated(&check(1, &s), &["too many: 1 2", "too many: 1 4"]);
}

#[test]
fn without_a_grant_nothing_is_judged() {
    unjudged(&check(1, &HistoryBuilder::new()), "no acquire");
}

proptest! {
    /// The sweep agrees with a count at each time.
    #[test]
    fn too_many_are_found_exactly_if_there_are(
        holds in prop::collection::vec((1..40_u64, 1..20_u64, 1..4_u32), 1..9),
        permits in 1..8_u32,
    ) {
        let mut s = HistoryBuilder::new();
        for (client, (from, held, count)) in holds.iter().enumerate() {
            let client = format!("p{client}");
            take(&mut s, &client, 0..*from, *count);
            s.release(&client, from + held..1000);
        }
        let most = (0..60).map(|at| {
            let held = holds.iter().filter(|(from, held, _)| (*from..from + held).contains(&at));
            held.map(|(_, _, count)| *count).sum::<u32>()
        }).max().unwrap();
        let verdict = check(permits, &s);
        prop_assert_eq!(verdict.found > 0, most > permits);
        prop_assert_eq!(verdict.counted("most permits at a time"), u64::from(most));
    }
}
