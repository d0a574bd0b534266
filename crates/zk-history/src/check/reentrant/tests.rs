use super::super::sketch::{Sketch, counted, unjudged, valid, violated};
use super::*;
use crate::Op;

fn check(sketch: &Sketch) -> Verdict {
    ReentrantMutex::default().check(&sketch.history())
}

// covers: H9
#[test]
fn the_holder_may_acquire_again_with_its_token() {
    let mut s = Sketch::new();
    s.acquire("a", 0..10, 7);
    s.acquire("a", 12..13, 7);
    s.release("a", 20..25);
    s.release("a", 30..35);
    s.acquire("b", 5..32, 9);
    s.release("b", 40..45);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(counted(&verdict, "re-entries"), 1);
}

#[test]
fn a_lock_is_free_only_after_the_last_release() {
    let mut s = Sketch::new();
    s.acquire("a", 0..10, 7);
    s.acquire("a", 12..13, 7);
    s.release("a", 20..25);
    s.acquire("b", 5..26, 9);
    s.release("a", 30..35);
    s.release("b", 40..45);
    violated(&check(&s), &["overlap: 1 4"]);
}

#[test]
fn a_lock_is_free_only_after_the_last_release_whatever_the_order() {
    let mut s = Sketch::new();
    let first = s.acquire("a", 0..10, 7);
    s.acquire("a", 12..13, 7);
    let (path, of) = ("/x".to_owned(), Some(first));
    s.ok("a", &Op::Release { path, of }, 20..25, ());
    s.acquire("b", 5..26, 9);
    s.release("a", 30..35);
    s.release("b", 40..45);
    violated(&check(&s), &["overlap: 1 4"]);
}

#[test]
fn another_token_on_re_entry_is_found() {
    let mut s = Sketch::new();
    s.acquire("a", 0..10, 7);
    s.acquire("a", 12..13, 8);
    s.release("a", 20..25);
    s.release("a", 30..35);
    violated(&check(&s), &["token changed: 1 2"]);
}

#[test]
fn the_same_token_after_the_lock_was_free_is_found() {
    let mut s = Sketch::new();
    s.acquire("a", 0..10, 7);
    s.release("a", 20..25);
    s.acquire("a", 30..40, 7);
    s.release("a", 50..55);
    violated(&check(&s), &["token used twice: 1 3"]);
}

#[test]
fn one_release_too_many_is_found() {
    let mut s = Sketch::new();
    s.acquire("a", 0..10, 7);
    s.acquire("a", 12..13, 7);
    for at in [20, 30, 40] {
        s.release("a", at..at + 1);
    }
    violated(&check(&s), &["released twice: 5"]);
}

#[test]
fn tasks_of_one_process_are_not_one_holder() {
    let mut s = Sketch::new();
    s.acquire("a/1", 0..10, 7);
    s.acquire("a/2", 12..13, 8);
    s.release("a/1", 20..25);
    s.release("a/2", 30..35);
    violated(&check(&s), &["overlap: 1 2"]);
}

#[test]
fn without_a_grant_nothing_is_judged() {
    let mut s = Sketch::new();
    s.ok("a", &Op::read("/x"), 0..1, ());
    unjudged(&check(&s), "no acquire");
}
