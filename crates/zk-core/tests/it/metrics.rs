//! What a session reports to the facade `metrics`, on a real server.

use metrics_util::debugging::DebuggingRecorder;

use crate::{MAX_WAIT, connect_for, with_ensemble};

#[tokio::test]
async fn a_restart_of_the_server_is_seen_in_the_metrics() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
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
    let mut reported = Vec::new();
    for (key, ..) in snapshotter.snapshot().into_vec() {
        let labels = key.key().labels().map(metrics::Label::value);
        let labels = labels.collect::<Vec<_>>().join(" ");
        reported.push(format!("{} {labels}", key.key().name()));
    }
    for expected in [
        "zk_operation_duration_seconds create ok",
        "zk_operation_duration_seconds get ok",
        "zk_connection_losses_total ",
        "zk_sessions suspended",
        "zk_sessions_ended_total closed",
    ] {
        let is_there = reported.iter().any(|line| line == expected);
        assert!(is_there, "{expected}: {reported:#?}");
    }
}
