//! What sessions report to the facade `metrics`, under paused time.

use std::time::Duration;

use zk_core::{ErrorKind, describe_metrics};
use zk_sim::{Ensemble, matching};
use zk_testkit::metrics::{Recorder, Unit, Value};

use crate::pass;

/// Returns the metrics since the last call, each as `name{label=value,..} value`, with the number of values of a
/// histogram.
fn reported(recorder: &Recorder) -> Vec<String> {
    let snapshot = recorder.snapshot().into_iter();
    let mut reported: Vec<_> = snapshot
        .map(|metric| {
            let value = match metric.value {
                Value::Counter(count) => count.to_string(),
                Value::Gauge(value) => value.to_string(),
                Value::Histogram(values) => format!("{} values", values.len()),
            };
            format!("{}{{{}}} {value}", metric.name, metric.labels.join(","))
        })
        .collect();
    reported.sort();
    reported
}

#[tokio::test(start_paused = true)]
async fn operations_and_states_are_reported() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;

    session.create("/a", "").await.expect("it is created");
    session.create("/a", "").await.expect_err("it is there");
    let _watched = session.exists("/a").watched().await.expect("it is there");
    let lost = ensemble.on(matching::gets("/a")).lose_reply();
    session.get("/a").await.expect("it is read again");
    assert_eq!(lost.count(), 1);
    assert_eq!(
        reported(&recorder),
        [
            "zk_connection_losses_total{} 1",
            "zk_operation_duration_seconds{operation=create,outcome=ok} 1 values",
            "zk_operation_duration_seconds{operation=create,outcome=refused} 1 values",
            "zk_operation_duration_seconds{operation=exists,outcome=ok} 1 values",
            "zk_operation_duration_seconds{operation=get,outcome=ok} 1 values",
            "zk_retries_total{} 1",
            "zk_sessions{state=connected} 1",
            "zk_sessions{state=suspended} 0",
            "zk_watches_total{} 1",
        ]
    );

    ensemble.expire(session.id());
    let error = session.get("/a").await.expect_err("the session is over");
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    pass(Duration::from_millis(1)).await;
    let reported = reported(&recorder);
    for expected in [
        "zk_operation_duration_seconds{operation=get,outcome=session_over} 1 values",
        "zk_sessions_ended_total{reason=expired} 1",
    ] {
        assert!(
            reported.iter().any(|line| line == expected),
            "{expected}: {reported:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_duration_includes_all_attempts_and_pauses() {
    let recorder = Recorder::install();
    describe_metrics();
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let held = ensemble.on(matching::gets("/a")).hold();
    let released = async {
        pass(Duration::from_secs(2)).await;
        held.release();
    };
    let (read, ()) = tokio::join!(session.get("/a").into_future(), released);
    read.expect_err("there is none");
    let mut took = Vec::new();
    for metric in recorder.snapshot() {
        if metric.name == "zk_operation_duration_seconds"
            && let Value::Histogram(values) = metric.value
        {
            assert_eq!(metric.unit, Some(Unit::Seconds));
            assert!(metric.is_described);
            took.extend(values);
        }
    }
    assert!(
        matches!(took[..], [seconds] if (2.0..2.5).contains(&seconds)),
        "{took:?}"
    );
}
