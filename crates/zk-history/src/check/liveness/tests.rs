use super::super::history_builder::{HistoryBuilder, unjudged, valid, violated};
use super::*;
use crate::Op;

const SECOND: u64 = 1_000_000_000;

/// One operation every tenth of a second, for ten seconds.
fn busy() -> HistoryBuilder {
    let mut s = HistoryBuilder::new();
    for at in 0..100 {
        let at = at * SECOND / 10;
        s.ok("a", &Op::read("/x"), at..at + SECOND / 20, ());
    }
    s
}

#[test]
fn a_run_with_enough_before_and_after_is_fine() {
    let mut s = busy();
    s.fault("kill", "server 1", 5 * SECOND, Some(6 * SECOND));
    let progress = Liveness::default()
        .with_rate(10)
        .with_progress_after(1)
        .with_bound(Duration::from_millis(50));
    let verdict = progress.check(&s.history());
    valid(&verdict);
    assert_eq!(verdict.counted("a second before the first fault"), 10);
    assert_eq!(verdict.counted("succeeded after healing"), 40);
    assert_eq!(verdict.counted("ms at most without an end"), 50);
}

#[test]
fn too_few_before_the_first_fault_are_found() {
    let mut s = busy();
    s.fault("kill", "server 1", 5 * SECOND, Some(6 * SECOND));
    let verdict = Liveness::default().with_rate(11).check(&s.history());
    violated(&verdict, &["too slow: "]);
    assert_eq!(
        verdict.violations[0].sentence,
        "50 operations succeeded in the 5.000 s before the first fault, 10 a second; 11 are required"
    );
}

#[test]
fn nothing_after_healing_is_found() {
    let mut s = busy();
    s.fault("kill", "server 1", 5 * SECOND, Some(10 * SECOND));
    let progress = Liveness::default().with_progress_after(1);
    violated(
        &progress.check(&s.history()),
        &["no progress after healing: "],
    );
    s.faults.clear();
    s.fault("kill", "server 1", 5 * SECOND, None);
    unjudged(&progress.check(&s.history()), "kill server 1 never ended");
}

#[test]
fn a_wait_beyond_the_bound_without_a_fault_is_found() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..SECOND, 1);
    s.acquire("b", 0..10 * SECOND, 2);
    let bounded = |bound| {
        Liveness::default()
            .with_bound(Duration::from_secs(bound))
            .with_op("acquire")
    };
    violated(&bounded(9).check(&s.history()), &["stuck: 2"]);
    valid(&bounded(10).check(&s.history()));
    // With a fault in between it waited for four seconds, and then for three.
    s.fault("pause", "server 1", 4 * SECOND, Some(6 * SECOND));
    s.fault("kill", "server 2", 5 * SECOND, Some(7 * SECOND));
    valid(&bounded(4).check(&s.history()));
    violated(&bounded(3).check(&s.history()), &["stuck: 2"]);
}

#[test]
fn a_call_without_return_waits_until_its_process_ends() {
    let mut s = HistoryBuilder::new();
    s.acquire("a", 0..SECOND, 1);
    s.unknown("b", &Op::acquire("/x"), 0..9 * SECOND);
    let bounded = Liveness::default().with_bound(Duration::from_secs(5));
    violated(&bounded.check(&s.history()), &["stuck: 2"]);
    let mut history = s.history();
    history.calls[1].given_up = None;
    violated(&bounded.check(&history), &["stuck: 2"]);
    let killed = history.calls[1].client.process;
    history.processes[killed].last = 4 * SECOND;
    valid(&bounded.check(&history));
}

#[test]
fn a_run_in_which_nothing_succeeded_is_found() {
    let mut s = HistoryBuilder::new();
    s.failed("a", &Op::acquire("/x"), 0..1);
    s.ok("a", &Op::read("/x"), 0..1, ());
    valid(&Liveness::default().check(&s.history()));
    let acquires = Liveness::default().with_op("acquire");
    violated(&acquires.check(&s.history()), &["nothing succeeded: 1"]);
    violated(
        &Liveness::default().check(&HistoryBuilder::new().history()),
        &["nothing succeeded: "],
    );
}
