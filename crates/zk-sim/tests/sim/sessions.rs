//! Reads and writes of a session, also on lagging servers.

use std::time::Duration;

use zk_core::ErrorKind;
use zk_sim::{Ensemble, RequestOutcome, matching};

#[tokio::test(start_paused = true)]
async fn a_session_creates_reads_and_goes_with_its_ephemeral_nodes() {
    let sim = Ensemble::new(3);
    let session = sim.connect().timeout(Duration::from_secs(5)).await;
    assert_eq!(session.session_timeout(), Duration::from_secs(5));
    session.create("/a", "1").await.unwrap();
    session.create("/a/e", "2").ephemeral().await.unwrap();
    let (data, stat) = session.get("/a").await.unwrap();
    assert_eq!((&*data, stat.num_children), (b"1".as_slice(), 1));
    assert_eq!(sim.tree().paths(), ["/a", "/a/e"]);
    assert_eq!(sim.tree().node("/a/e").unwrap().owner(), Some(session.id()));
    session.close().await.unwrap();
    assert_eq!(sim.tree().paths(), ["/a"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_session_is_closed_in_the_background() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let id = session.id();
    session.create("/e", "").ephemeral().await.unwrap();
    drop(session);
    tokio::time::advance(Duration::from_millis(10)).await;
    assert!(sim.tree().paths().is_empty());
    assert!(!sim.session(id).is_alive());
}

#[tokio::test(start_paused = true)]
async fn time_passes_only_as_far_as_messages_take() {
    let sim = Ensemble::builder()
        .latency(Duration::from_millis(3))
        .build();
    let session = sim.connect().await;
    let before = tokio::time::Instant::now();
    session.create("/a", "").await.unwrap();
    assert_eq!(before.elapsed(), Duration::from_millis(6));
}

#[tokio::test(start_paused = true)]
async fn a_lagging_server_shows_nothing_new_until_a_sync_has_waited_for_it() {
    let sim = Ensemble::new(2);
    let writer = sim.connect().server(2).await;
    let reader = sim.connect().server(1).await;
    sim.server(1).lag_for(Duration::from_secs(1));
    writer.create("/a", "").await.unwrap();
    assert_eq!(reader.exists("/a").await.unwrap(), None);
    assert!(sim.server(1).tree().paths().is_empty());
    let before = tokio::time::Instant::now();
    reader.sync("/a").await.unwrap();
    assert!(before.elapsed() > Duration::from_millis(900));
    assert!(reader.exists("/a").await.unwrap().is_some());
}

/// What a real leader does: see `Sync::with_quorum`.
#[tokio::test(start_paused = true)]
async fn a_leader_that_waits_for_its_quorum_answers_the_syncs_of_its_own_clients() {
    let sim = Ensemble::new(2);
    let writer = sim.connect().server(1).await;
    let reader = sim.connect().server(2).await;
    sim.server(2).lag_for(Duration::from_secs(1));
    let started = tokio::time::Instant::now();
    let reading = async {
        reader.sync("/a").await.unwrap();
        assert_eq!(reader.exists("/a").await.unwrap(), None);
        assert!(started.elapsed() < Duration::from_millis(100));
        reader.sync("/a").with_quorum().await.unwrap();
        assert!(started.elapsed() > Duration::from_millis(900));
        assert!(reader.exists("/a").await.unwrap().is_some());
    };
    let writing = async {
        writer.create("/a", "").await.unwrap();
        assert!(started.elapsed() > Duration::from_millis(900));
    };
    tokio::join!(writing, reading);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_answered_once_its_server_has_applied_it() {
    let sim = Ensemble::new(2);
    let slow = sim.connect().server(1).await;
    let fast = sim.connect().server(2).await;
    sim.server(1).lag();
    let (created, found, seen) = tokio::join!(slow.create("/a", ""), slow.exists("/a"), async {
        let waited = tokio::time::timeout(Duration::from_secs(1), std::future::pending::<()>());
        assert!(waited.await.is_err());
        let seen = fast.exists("/a").await.unwrap();
        // This excludes the session's own requests.
        let requests = sim.requests();
        let calls = requests
            .iter()
            .filter(|seen| !matching::syncs()(&seen.request));
        assert_eq!(calls.filter(|seen| seen.answered).count(), 1);
        sim.server(1).catch_up();
        seen
    });
    created.unwrap();
    assert!(found.unwrap().is_some(), "read before the own write");
    assert!(seen.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_lags_by_a_time_applies_each_transaction_so_much_later() {
    let sim = Ensemble::new(2);
    let writer = sim.connect().server(2).await;
    sim.server(1).lag_by(Duration::from_millis(100));
    writer.create("/a", "").await.unwrap();
    tokio::time::advance(Duration::from_millis(60)).await;
    writer.create("/b", "").await.unwrap();
    assert!(sim.server(1).tree().paths().is_empty());
    tokio::time::advance(Duration::from_millis(40)).await;
    assert_eq!(sim.server(1).tree().paths(), ["/a"]);
    tokio::time::advance(Duration::from_millis(60)).await;
    assert_eq!(sim.server(1).tree().paths(), ["/a", "/b"]);
}

#[tokio::test(start_paused = true)]
async fn a_future_sends_its_request_when_it_is_first_polled() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    drop(session.create("/never", "").into_future());
    let mut sent = std::pin::pin!(session.create("/sent", "").into_future());
    let first = std::future::poll_fn(|context| {
        std::task::Poll::Ready(sent.as_mut().poll(context).is_pending())
    });
    assert!(first.await);
    // There is no second poll.
    session.sync("/").await.unwrap();
    assert_eq!(sim.tree().paths(), ["/sent"]);
    assert_eq!(sim.arrived(matching::creates("/**")), 1);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_is_all_or_nothing_and_names_the_part_that_failed() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let error = session
        .transaction()
        .create("/a", "")
        .delete("/none")
        .commit()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.failed_part()),
        (ErrorKind::NoNode, Some(1))
    );
    assert!(sim.tree().paths().is_empty());
    assert!(matches!(
        sim.requests().last().unwrap().outcome,
        RequestOutcome::Refused(_)
    ));
}

#[tokio::test(start_paused = true)]
async fn rules_of_access_keep_other_sessions_out() {
    let sim = Ensemble::new(3);
    let ann = sim.connect().digest("ann", "secret").await;
    let bob = sim.connect().digest("bob", "secret").await;
    ann.create("/hers", "x")
        .acl(zk_core::Acl::creator_only())
        .await
        .unwrap();
    assert_eq!(
        bob.get("/hers").await.unwrap_err().kind(),
        ErrorKind::NoAuth
    );
    let ann_again = sim.connect().digest("ann", "secret").await;
    ann_again.get("/hers").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn containers_and_ttl_nodes_are_reaped_on_command() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    session.create("/c", "").container().await.unwrap();
    session.create("/never-used", "").container().await.unwrap();
    session
        .create("/t", "")
        .ttl(Duration::from_secs(2))
        .await
        .unwrap();
    session.create("/c/x", "").await.unwrap();
    session.delete("/c/x").await.unwrap();
    assert_eq!(sim.reap(), 1);
    assert_eq!(sim.tree().paths(), ["/never-used", "/t"]);
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(sim.reap(), 1);
    assert_eq!(sim.tree().paths(), ["/never-used"]);
}

#[tokio::test(start_paused = true)]
async fn a_counter_near_its_end_sticks_and_in_old_servers_wraps() {
    for (counters, second) in [
        (zk_sim::Counters::Stick, "/q/b2147483647"),
        (zk_sim::Counters::Wrap, "/q/b-2147483648"),
    ] {
        let sim = Ensemble::builder().counters(counters).build();
        let session = sim.connect().await;
        session.create("/q", "").await.unwrap();
        sim.set_counter("/q", i32::MAX);
        let (first, _) = session.create("/q/a", "").sequential().await.unwrap();
        assert_eq!(first.as_str(), "/q/a2147483647");
        let (path, _) = session.create("/q/b", "").sequential().await.unwrap();
        assert_eq!(path.as_str(), second);
    }
}
