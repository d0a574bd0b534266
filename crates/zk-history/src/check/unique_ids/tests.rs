use proptest::prelude::*;

use super::super::sketch::{Sketch, counted, unjudged, valid, violated};
use super::*;
use crate::Answer;

fn check(sketch: &Sketch) -> Verdict {
    UniqueIds::default().check(&sketch.history())
}

fn made(s: &mut Sketch, client: &str, ids: &[u64], time: std::ops::Range<u64>) -> u64 {
    let ids = Answer::ids(ids.iter().copied());
    s.ok(client, &Op::new_id("/ids"), time, ids)
}

// covers: H9
#[test]
fn ids_that_differ_are_fine() {
    let mut s = Sketch::new();
    made(&mut s, "a", &[1, 2, 3], 0..10);
    made(&mut s, "b", &[5, 4], 0..10);
    s.unknown("b", &Op::new_id("/ids"), 11..12);
    s.ok("c", &Op::new_id("/others"), 0..10, Answer::ids([1]));
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "ids"), 6);
    assert_eq!(counted(&verdict, "calls unknown"), 1);
}

// covers: H9
#[test]
fn an_id_that_two_made_is_found() {
    let mut s = Sketch::new();
    made(&mut s, "a", &[1, 2, 3], 0..10);
    made(&mut s, "b", &[4, 5], 0..10);
    made(&mut s, "b", &[6, 2, 7, 1], 11..12);
    let verdict = check(&s);
    violated(&verdict, &["made twice: 1 3", "made twice: 1 3"]);
    assert_eq!(
        verdict.violations[0].sentence,
        "1 of /ids was made by a and by b"
    );
}

#[test]
fn an_id_that_one_call_made_twice_is_found() {
    let mut s = Sketch::new();
    made(&mut s, "a", &[1, 2, 1], 0..10);
    violated(&check(&s), &["made twice: 1 1"]);
}

#[test]
fn ids_that_sink_are_found_where_they_have_to_rise() {
    let rising = UniqueIds::default().with_rising();
    let mut s = Sketch::new();
    made(&mut s, "a", &[10, 20], 0..10);
    made(&mut s, "b", &[5], 20..30);
    made(&mut s, "a", &[15], 10..15);
    valid(&rising.check(&s.history()));
    made(&mut s, "a", &[16], 11..15);
    violated(&rising.check(&s.history()), &["not rising: 1 4"]);
    valid(&check(&s));
    let mut s = Sketch::new();
    made(&mut s, "a", &[2, 1], 0..10);
    violated(&rising.check(&s.history()), &["not rising: 1"]);
}

#[test]
fn without_an_id_nothing_is_judged() {
    let mut s = Sketch::new();
    s.failed("a", &Op::new_id("/ids"), 0..1);
    unjudged(&check(&s), "no id");
}

proptest! {
    #[test]
    fn repeated_ids_are_those_that_are_there_more_than_once(ids in prop::collection::vec(0..20_u64, 0..30)) {
        let mut expected: Vec<u64> = (0..20)
            .filter(|id| ids.iter().filter(|other| *other == id).count() > 1)
            .collect();
        expected.sort_unstable();
        prop_assert_eq!(repeated(&mut ids.clone()), expected);
    }
}
