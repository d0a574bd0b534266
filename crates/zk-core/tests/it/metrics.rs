//! What a session reports to the facade `metrics`, on a real server.

use zk_testkit::metrics::Recorder;

use crate::{MAX_WAIT, connect_for, with_ensemble};

#[tokio::test]
async fn a_restart_of_the_server_is_seen_in_the_metrics() {
    let recorder = Recorder::install();
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        session.create("/a", "").await.unwrap();
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        server.start().unwrap();
        session.get("/a").timeout(MAX_WAIT).await.unwrap();
        session.close().await.unwrap();
    })
    .await;
    let reported = recorder.snapshot().into_iter();
    let reported: Vec<_> = reported
        .map(|metric| format!("{} {}", metric.name, metric.labels.join(" ")))
        .collect();
    for expected in [
        "zk_operation_duration_seconds operation=create outcome=ok",
        "zk_operation_duration_seconds operation=get outcome=ok",
        "zk_connection_losses_total ",
        "zk_sessions state=suspended",
        "zk_sessions_ended_total reason=closed",
    ] {
        let is_there = reported.iter().any(|line| line == expected);
        assert!(is_there, "{expected}: {reported:#?}");
    }
}
