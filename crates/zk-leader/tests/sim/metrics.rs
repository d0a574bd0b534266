//! What elections report to the facade `metrics`, under paused time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use zk_leader::describe_metrics;
use zk_sim::Ensemble;

use crate::{latch, pass, selector, soon, until_waiting};

/// The participants by state: a snapshot contains only what was added since the one before.
type Gauges = BTreeMap<String, f64>;

/// What elections reported since the last call: the participants of each state that has some, and the whole seconds
/// that leaderships lasted.
fn reported(snapshotter: &Snapshotter, gauges: &mut Gauges) -> Vec<String> {
    let mut reported = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let (_, key) = key.into_parts();
        let labels: Vec<_> = key
            .labels()
            .map(|label| (label.key(), label.value()))
            .collect();
        match (key.name(), &labels[..], value) {
            ("zk_leader_participants", [("state", state)], DebugValue::Gauge(count)) => {
                *gauges.entry((*state).to_owned()).or_default() += *count;
            }
            (
                "zk_leader_leadership_duration_seconds",
                [("reason", reason)],
                DebugValue::Histogram(values),
            ) => {
                let values: Vec<_> = values.iter().map(|value| value.floor()).collect();
                if !values.is_empty() {
                    reported.push(format!("led {values:?}, {reason}"));
                }
            }
            (name, labels, value) => {
                assert!(
                    !name.starts_with("zk_leader"),
                    "{name} {labels:?} {value:?}"
                );
            }
        }
    }
    for (state, count) in gauges {
        assert!(*count >= 0.0, "{state}: {count}");
        if *count > 0.0 {
            reported.push(format!("{count} {state}"));
        }
    }
    reported.sort();
    reported
}

#[tokio::test(start_paused = true)]
async fn participants_and_leaderships_are_reported() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let mut gauges = Gauges::new();
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);

    // A selector counts from its creation on, also if it is never run.
    let unused = selector(&one);
    assert_eq!(reported(&snapshotter, &mut gauges), ["1 joining"]);
    drop(unused);
    assert_eq!(reported(&snapshotter, &mut gauges), <[&str; 0]>::default());

    // A latch that leads, one that waits, and then takes over.
    let first = latch(&one).join();
    soon("it leads", first.leading()).await.unwrap();
    let second = latch(&other).join();
    until_waiting(second.handle()).await;
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["1 leading", "1 waiting"]
    );
    pass(Duration::from_millis(10_500)).await;
    drop(first);
    soon("the other leads", second.leading()).await.unwrap();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["1 leading", "led [10.0], resigned"]
    );

    // Its node is deleted: the leadership ends, and another begins.
    pass(Duration::from_millis(4500)).await;
    let lease = second.lease().unwrap();
    one.delete(lease.path()).await.unwrap();
    soon("the loss is noticed", lease.lost()).await;
    soon("it leads again", second.leading()).await.unwrap();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["1 leading", "led [4.0], node_deleted"]
    );
    pass(Duration::from_millis(2500)).await;
    soon("it leaves", second.leave()).await;
    assert_eq!(reported(&snapshotter, &mut gauges), ["led [2.0], resigned"]);

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
        reported(&snapshotter, &mut gauges),
        ["led [3.0, 3.0], resigned"]
    );

    // The session is lost.
    let last = latch(&one).join();
    soon("it leads", last.leading()).await.unwrap();
    pass(Duration::from_millis(1500)).await;
    ensemble.expire(one.id());
    soon("it ends", last.ended()).await;
    let after = reported(&snapshotter, &mut gauges);
    assert!(
        after == ["led [1.0], session_lost"] || after == ["led [1.0], node_deleted"],
        "{after:?}"
    );
}

#[test]
fn descriptions_name_the_metrics_and_their_units() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        describe_metrics();
        metrics::gauge!("zk_leader_participants").set(0.0);
        metrics::histogram!("zk_leader_leadership_duration_seconds").record(0.0);
    });
    let described = snapshotter.snapshot().into_vec();
    assert_eq!(described.len(), 2);
    for (key, unit, description, value) in described {
        let expected = match value {
            DebugValue::Histogram(_) => metrics::Unit::Seconds,
            _ => metrics::Unit::Count,
        };
        assert_eq!(unit, Some(expected), "{key:?}");
        assert!(description.is_some(), "{key:?}");
    }
}
