use proptest::prelude::*;

use super::super::history_builder::{HistoryBuilder, broken, unjudged, valid, violated};
use super::*;
use crate::{Op, ReturnValue};

fn check(builder: &HistoryBuilder) -> Verdict {
    ReadWriteLock::default().check(&builder.history())
}

fn read(s: &mut HistoryBuilder, client: &str, time: std::ops::Range<u64>, token: u64) -> u64 {
    s.ok(
        client,
        &Op::acquire_shared("/x"),
        time,
        ReturnValue::token(token),
    )
}

#[test]
fn readers_share_and_a_writer_is_alone() {
    let mut s = HistoryBuilder::new();
    read(&mut s, "a", 0..10, 7);
    read(&mut s, "b", 0..11, 6);
    s.release("a", 20..25);
    s.release("b", 21..26);
    s.acquire("c", 0..22, 9);
    s.release("c", 30..35);
    read(&mut s, "a", 0..40, 11);
    s.release("a", 50..55);
    let verdict = check(&s);
    valid(&verdict);
    assert_eq!(verdict.counted("grants to readers"), 3);
}

#[test]
fn a_writer_among_readers_is_found() {
    let mut s = HistoryBuilder::new();
    read(&mut s, "a", 0..10, 7);
    read(&mut s, "b", 0..11, 8);
    s.acquire("c", 0..22, 9);
    s.release("a", 20..25);
    s.release("b", 30..35);
    s.release("c", 40..45);
    violated(&check(&s), &["overlap: 2 3"]);
}

#[test]
fn a_reader_beside_a_writer_is_found_behind_another_reader() {
    let mut s = HistoryBuilder::new();
    s.acquire("c", 0..10, 5);
    read(&mut s, "a", 0..22, 7);
    read(&mut s, "b", 0..23, 8);
    s.release("c", 30..35);
    s.release("a", 40..45);
    s.release("b", 40..45);
    violated(&check(&s), &["overlap: 1 2", "overlap: 1 3"]);
}

#[test]
fn a_reader_upgraded_beside_another_reader_is_found() {
    let mut s = HistoryBuilder::new();
    read(&mut s, "a", 0..10, 7);
    read(&mut s, "b", 0..11, 8);
    s.acquire("b", 0..22, 9);
    s.release("a", 30..35);
    s.release("b", 40..45);
    s.release("b", 50..55);
    violated(&check(&s), &["overlap: 1 3"]);
}

#[test]
fn two_writers_are_found() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..10, 5);
    s.acquire("b", 0..11, 6);
    s.release("a", 30..35);
    s.release("b", 40..45);
    violated(&check(&s), &["overlap: 1 2"]);
}

#[test]
fn a_writer_may_read_on_when_it_stops_to_write() {
    let mut s = HistoryBuilder::new();
    let write = s.acquire("a", 0..10, 5);
    read(&mut s, "a", 15..16, 6);
    let of = Some(write);
    let path = "/x".to_owned();
    s.ok("a", &Op::Release { path, of }, 20..25, ());
    read(&mut s, "b", 0..30, 7);
    s.release("a", 40..45);
    s.release("b", 40..45);
    valid(&check(&s));
    s.acquire("c", 0..35, 8);
    s.release("c", 50..55);
    let rules = broken(&check(&s));
    assert_eq!(rules.len(), 1, "{rules:?}");
    assert!(
        rules[0].starts_with("overlap:") && rules[0].ends_with(" 7"),
        "{rules:?}"
    );
}

#[test]
fn tokens_rise_from_and_to_writers_only() {
    let mut s = HistoryBuilder::new();
    read(&mut s, "a", 0..10, 7);
    s.release("a", 11..12);
    read(&mut s, "b", 0..20, 6);
    s.release("b", 21..22);
    valid(&check(&s));
    s.acquire("c", 0..30, 5);
    s.release("c", 31..32);
    violated(&check(&s), &["token not higher: 1 5"]);
    let mut s = HistoryBuilder::new();
    s.acquire("c", 0..30, 5);
    s.release("c", 31..32);
    read(&mut s, "a", 0..40, 4);
    s.release("a", 41..42);
    violated(&check(&s), &["token not higher: 1 3"]);
}

#[test]
fn without_a_grant_nothing_is_judged() {
    unjudged(&check(&HistoryBuilder::new()), "no acquire");
}

proptest! {
    /// The sweep finds a violation exactly if some pair is one.
    #[test]
    fn an_overlap_is_found_exactly_if_there_is_one(
        holds in prop::collection::vec((0..3_u8, any::<bool>(), 1..40_u64, 1..20_u64), 1..9),
    ) {
        let mut s = HistoryBuilder::new();
        let mut spans = Vec::new();
        for (token, (client, shared, from, held)) in (1_u64..).zip(&holds) {
            let client = format!("p{client}");
            let op = if *shared { Op::acquire_shared("/x") } else { Op::acquire("/x") };
            // Without tokens, which other tests cover.
            let grant = s.ok(&client, &op, 0..*from, ());
            let path = "/x".to_owned();
            s.ok(&client, &Op::Release { path, of: Some(grant) }, from + held..1000 + token, ());
            spans.push((client, *shared, *from, from + held));
        }
        let wrong = spans.iter().enumerate().any(|(at, one)| spans[..at].iter().any(|other| {
            one.0 != other.0 && !(one.1 && other.1) && one.2.max(other.2) < one.3.min(other.3)
        }));
        prop_assert_eq!(check(&s).found > 0, wrong);
    }
}
