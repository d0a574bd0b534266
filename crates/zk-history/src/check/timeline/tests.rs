use super::super::history_builder::HistoryBuilder;
use super::super::report::judge;
use super::super::{Checker, FencedMutex};
use super::*;
use crate::Op;

const MS: u64 = 1_000_000;

#[test]
fn two_holders_are_two_bars() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..100 * MS, 7);
    s.acquire("worker-2", 110 * MS..160 * MS, 9);
    s.release("a", 200 * MS..201 * MS);
    s.release("worker-2", 260 * MS..261 * MS);
    s.fault("kill", "server 1", 5, Some(6));
    let history = s.history();
    let report = judge(&history, &[Checker::from(FencedMutex::default())]);
    insta::assert_snapshot!(report.to_text(&history), @r"
    4 operations (0 with an unknown outcome) of 2 processes in 261.0 ms, 1 fault

    fenced-mutex  violated      grants 2

    fenced-mutex 1 of 1: overlap
      worker-2 (token 9) was granted /x while a (token 7) still relied on it: both did for 40.0 ms
        a: acquire /x: ok, token 7         ·█████████████████████████                    builder:3
        worker-2: acquire /x: ok, token 9      ············█████████████████████████     builder:5
                         at the same time                  ▔▔▔▔▔▔▔▔▔▔
                                           +92.0 ms                           +268.0 ms
    ");
}

#[test]
fn durations_are_read_best_in_their_unit() {
    for (nanos, text) in [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.0 µs"),
        (1_999, "1.9 µs"),
        (12_345_678, "12.3 ms"),
        (1_002_000_000, "1.002 s"),
        (3_600_000_000_000, "3600.000 s"),
    ] {
        assert_eq!(seconds(nanos), text);
    }
}

#[test]
fn moments_at_both_ends_of_all_time_are_drawn() {
    let mut s = HistoryBuilder::new();
    s.ok("a", &Op::take("/q"), 0..u64::MAX, ());
    let history = s.history();
    let evidence = [Evidence::of(&history.calls[0])];
    let text = of(&evidence, &history);
    assert!(text.contains('█'), "{text}");
    assert_eq!(of(&[], &history), "");
}

#[test]
fn long_labels_are_shortened() {
    assert_eq!(shortened("äöü", 3), "äöü");
    assert_eq!(shortened("äöüß", 3), "äö…");
}
