use proptest::prelude::*;

use super::super::sketch::{Sketch, counted, unjudged, valid, violated};
use super::*;
use crate::Answer;

fn check(sketch: &Sketch) -> Verdict {
    SetFull::default().check(&sketch.history())
}

fn fresh(sketch: &Sketch) -> Verdict {
    SetFull::default()
        .with_fresh_reads()
        .check(&sketch.history())
}

fn add(s: &mut Sketch, element: i32, time: std::ops::Range<u64>) -> u64 {
    s.ok("w", &Op::add("/s", element), time, ())
}

fn read(s: &mut Sketch, elements: &[i32], time: std::ops::Range<u64>) -> u64 {
    let elements = Answer::items(elements.iter().copied());
    s.ok("r", &Op::read_all("/s"), time, elements)
}

// covers: H9
#[test]
fn what_was_added_and_stays_is_fine() {
    let mut s = Sketch::new();
    add(&mut s, 1, 0..10);
    read(&mut s, &[1], 5..6);
    add(&mut s, 2, 11..20);
    read(&mut s, &[1], 15..25);
    read(&mut s, &[2, 1], 26..30);
    let verdict = fresh(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "ok"), 2);
}

// covers: H9
#[test]
fn an_element_that_is_missing_at_the_end_is_found_lost() {
    let mut s = Sketch::new();
    add(&mut s, 1, 0..10);
    add(&mut s, 2, 0..10);
    read(&mut s, &[1, 2], 11..15);
    read(&mut s, &[2], 26..30);
    violated(&check(&s), &["lost: 1 4"]);
}

#[test]
fn an_element_that_was_missing_for_a_while_is_stale() {
    let mut s = Sketch::new();
    add(&mut s, 1, 0..10);
    read(&mut s, &[1], 11..15);
    read(&mut s, &[], 16..18);
    read(&mut s, &[1], 26..30);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "stale"), 1);
    violated(&fresh(&s), &["stale: 1 3"]);
}

#[test]
fn an_unknown_add_counts_from_when_it_was_first_read() {
    let mut s = Sketch::new();
    s.unknown("w", &Op::add("/s", 1), 0..10);
    s.unknown("w", &Op::add("/s", 2), 0..10);
    read(&mut s, &[], 11..15);
    valid(&check(&s));
    read(&mut s, &[1], 16..18);
    let verdict = fresh(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "adds without effect"), 1);
    assert_eq!(counted(&verdict, "never read"), 1);
    read(&mut s, &[], 26..30);
    violated(&check(&s), &["lost: 1 5"]);
}

#[test]
fn an_element_that_nobody_added_is_found() {
    let mut s = Sketch::new();
    add(&mut s, 1, 0..10);
    s.failed("w", &Op::add("/s", 2), 0..10);
    read(&mut s, &[1, 2, 3], 11..15);
    violated(&check(&s), &["unexpected: 2 3", "unexpected: 3"]);
    let mut s = Sketch::new();
    read(&mut s, &[1], 0..5);
    add(&mut s, 1, 6..10);
    violated(&check(&s), &["unexpected: 2 1"]);
}

#[test]
fn an_element_twice_in_one_read_is_found() {
    let mut s = Sketch::new();
    add(&mut s, 1, 0..10);
    read(&mut s, &[1, 1], 11..15);
    violated(&check(&s), &["twice in one read: 2"]);
}

#[test]
fn without_a_read_nothing_is_judged() {
    let mut s = Sketch::new();
    add(&mut s, 1, 0..10);
    unjudged(&check(&s), "no read of all");
}

proptest! {
    /// The counts are those of a look at each element in each read.
    #[test]
    fn elements_are_counted_as_they_are(
        seen in prop::collection::vec(prop::collection::vec(any::<bool>(), 4), 1..8),
    ) {
        let mut s = Sketch::new();
        for element in 0..4 {
            let at = 100 * u64::try_from(element).unwrap();
            add(&mut s, element, at..at + 250);
        }
        let times: Vec<u64> = (0..seen.len() as u64).map(|at| at * 100 + 50).collect();
        for (seen, at) in seen.iter().zip(&times) {
            // None is read before its add began.
            let elements: Vec<i32> = (0..4)
                .filter(|element| seen[usize::try_from(*element).unwrap()])
                .filter(|element| 100 * u64::try_from(*element).unwrap() <= at + 60)
                .collect();
            read(&mut s, &elements, *at..at + 60);
        }
        let (mut ok, mut stale, mut lost, mut never) = (0, 0, 0, 0);
        for element in 0..4_usize {
            let began = 100 * element as u64;
            let there = |read: usize| seen[read][element] && began <= times[read] + 60;
            let first = (0..seen.len()).filter(|read| there(*read)).map(|read| times[read] + 60).min();
            let known = first.unwrap_or(u64::MAX).min(began + 250);
            let after: Vec<bool> = (0..seen.len()).filter(|read| times[*read] > known).map(there).collect();
            match (after.last(), after.iter().all(|there| *there)) {
                (None, _) => never += 1,
                (Some(true), true) => ok += 1,
                (Some(true), false) => stale += 1,
                (Some(false), _) => lost += 1,
            }
        }
        let verdict = fresh(&s);
        let counts = ["ok", "stale", "lost", "never read"].map(|what| counted(&verdict, what));
        prop_assert_eq!(counts, [ok, stale, lost, never], "{}", verdict);
        prop_assert_eq!(verdict.found, stale + lost);
    }
}
