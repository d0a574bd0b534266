use proptest::prelude::*;

use super::super::sketch::{Sketch, counted, unjudged, valid, violated};
use super::*;
use crate::Answer;

fn check(sketch: &Sketch) -> Verdict {
    Versions::default().check(&sketch.history())
}

fn converges(sketch: &Sketch) -> Verdict {
    Versions::default()
        .with_convergence()
        .check(&sketch.history())
}

fn read(s: &mut Sketch, client: &str, version: u64, time: std::ops::Range<u64>) -> u64 {
    s.ok(client, &Op::read("/c"), time, Answer::version(version))
}

fn saw(s: &mut Sketch, client: &str, version: u64, at: u64) -> u64 {
    let path = "/c".to_owned();
    s.ok(client, &Op::Saw { path }, at..at, Answer::version(version))
}

// covers: H9
#[test]
fn versions_that_grow_or_stay_are_fine() {
    let mut s = Sketch::new();
    s.ok("w", &Op::write("/c", 1), 0..5, Answer::version(10));
    read(&mut s, "a", 10, 6..7);
    saw(&mut s, "a", 10, 8);
    read(&mut s, "b", 9, 9..10);
    s.ok("w", &Op::write("/c", 2), 10..15, Answer::version(12));
    saw(&mut s, "a", 12, 16);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "versions"), 6);
}

// covers: H9
#[test]
fn a_version_that_went_back_is_found() {
    let mut s = Sketch::new();
    saw(&mut s, "a", 10, 8);
    saw(&mut s, "a", 12, 9);
    read(&mut s, "b", 10, 10..11);
    read(&mut s, "a", 11, 10..11);
    let verdict = check(&s);
    violated(&verdict, &["went back: 2 4"]);
    assert_eq!(
        verdict.violations[0].sentence,
        "a was shown version 11 of /c after version 12"
    );
}

#[test]
fn who_wrote_sees_no_less_than_that() {
    let mut s = Sketch::new();
    s.ok("a", &Op::write("/c", 1), 0..5, Answer::version(10));
    read(&mut s, "a", 9, 6..7);
    violated(&check(&s), &["went back: 1 2"]);
}

#[test]
fn reads_that_overlap_and_other_paths_have_no_order() {
    let mut s = Sketch::new();
    read(&mut s, "a", 10, 0..7);
    read(&mut s, "a", 9, 7..8);
    s.ok("a", &Op::read("/d"), 9..10, Answer::version(1));
    valid(&check(&s));
    // A listener is told of one after the other.
    saw(&mut s, "b", 10, 20);
    saw(&mut s, "b", 9, 21);
    violated(&check(&s), &["went back: 4 5"]);
}

#[test]
fn who_has_not_seen_the_last_version_is_found() {
    let mut s = Sketch::new();
    saw(&mut s, "a", 10, 1);
    saw(&mut s, "b", 10, 1);
    s.ok("w", &Op::write("/c", 2), 10..15, Answer::version(12));
    saw(&mut s, "a", 12, 16);
    for process in ["a", "b", "w"] {
        s.end(process, 100);
    }
    valid(&check(&s));
    let verdict = converges(&s);
    violated(&verdict, &["not converged: 3 2"]);
    assert_eq!(counted(&verdict, "clients that look"), 2);
}

#[test]
fn a_watcher_that_was_killed_need_not_see_the_last_version() {
    let mut s = Sketch::new();
    saw(&mut s, "a", 10, 1);
    s.ok("w", &Op::write("/c", 2), 10..15, Answer::version(12));
    let verdict = converges(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "clients that did not end in order"), 1);
}

#[test]
fn an_unknown_write_that_somebody_saw_is_the_last_one() {
    let mut s = Sketch::new();
    s.ok("w", &Op::write("/c", 2), 0..5, Answer::version(12));
    s.unknown("w", &Op::write("/c", 3), 6..7);
    saw(&mut s, "a", 12, 8);
    saw(&mut s, "b", 14, 8);
    s.end("a", 100);
    s.end("b", 100);
    violated(&converges(&s), &["not converged: 4 3"]);
}

#[test]
fn without_a_version_nothing_is_judged() {
    let mut s = Sketch::new();
    s.ok("a", &Op::read("/c"), 0..1, Answer::value(3));
    unjudged(&check(&s), "no answer with a version");
}

proptest! {
    /// The sweep and a look at all pairs say the same.
    #[test]
    fn it_finds_something_exactly_if_a_pair_goes_back(
        reads in prop::collection::vec((0..2_u8, 0..40_u64, 1..9_u64, 0..6_u64), 2..9),
    ) {
        let mut s = Sketch::new();
        for (client, from, lasts, version) in &reads {
            read(&mut s, &format!("p{client}"), *version, *from..from + lasts);
        }
        let back = reads.iter().filter(|late| reads.iter().any(|early| {
            early.0 == late.0 && early.1 + early.2 < late.1 && late.3 < early.3
        })).count();
        prop_assert_eq!(check(&s).found, back as u64);
    }
}
