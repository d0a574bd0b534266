//! What elections report to the facade `metrics`, under paused time.

use std::ops::ControlFlow;
use std::time::Duration;

use zk_leader::describe_metrics;
use zk_sim::Ensemble;
use zk_testkit::metrics::{Names, Recorder, assert_described};

use crate::{latch, pass, selector, soon, until_waiting};

const NAMES: Names = &[
    ("zk_leader_participants", "participants"),
    ("zk_leader_leadership_duration_seconds", "leadership"),
];

/// What elections reported since the last call: the participants of each state that has some, and the whole seconds
/// that leaderships lasted.
fn reported(recorder: &Recorder) -> Vec<String> {
    recorder.reported("zk_leader", NAMES)
}

#[tokio::test(start_paused = true)]
async fn participants_and_leaderships_are_reported() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);

    // A selector counts from its creation on, also if it is never run.
    let unused = selector(&one);
    assert_eq!(reported(&recorder), ["participants state=joining 1"]);
    drop(unused);
    assert_eq!(reported(&recorder), <[&str; 0]>::default());

    // A latch that leads, one that waits, and then takes over.
    let first = latch(&one).join();
    soon("it leads", first.leading()).await.unwrap();
    let second = latch(&other).join();
    until_waiting(second.handle()).await;
    assert_eq!(
        reported(&recorder),
        [
            "participants state=leading 1",
            "participants state=waiting 1"
        ]
    );
    pass(Duration::from_millis(10_500)).await;
    drop(first);
    soon("the other leads", second.leading()).await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "leadership reason=resigned [10.0]",
            "participants state=leading 1"
        ]
    );

    // Its node is deleted: the leadership ends, and another begins.
    pass(Duration::from_millis(4500)).await;
    let lease = second.lease().unwrap();
    one.delete(lease.path()).await.unwrap();
    soon("the loss is noticed", lease.lost()).await;
    soon("it leads again", second.leading()).await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "leadership reason=node_deleted [4.0]",
            "participants state=leading 1"
        ]
    );
    pass(Duration::from_millis(2500)).await;
    soon("it leaves", second.leave()).await;
    assert_eq!(reported(&recorder), ["leadership reason=resigned [2.0]"]);

    // A selector leads as long as its task runs.
    let mut rounds = 0;
    let run = selector(&one).run(|_| {
        rounds += 1;
        let is_last = rounds == 2;
        async move {
            pass(Duration::from_millis(3500)).await;
            if is_last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        }
    });
    soon("the task breaks", run).await.unwrap();
    assert_eq!(
        reported(&recorder),
        ["leadership reason=resigned [3.0, 3.0]"]
    );

    // The session is lost.
    let last = latch(&one).join();
    soon("it leads", last.leading()).await.unwrap();
    pass(Duration::from_millis(1500)).await;
    ensemble.expire(one.id());
    soon("it ends", last.ended()).await;
    let after = reported(&recorder);
    assert!(
        after == ["leadership reason=session_lost [1.0]"]
            || after == ["leadership reason=node_deleted [1.0]"],
        "{after:?}"
    );
}

#[test]
fn descriptions_name_the_metrics_and_their_units() {
    assert_described(describe_metrics, NAMES);
}
