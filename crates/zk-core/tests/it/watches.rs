//! One-shot watches: what they tell, and what becomes of them.

use std::time::Duration;

use zk_core::{ConnectionState, Session, SessionEnd, WatchEvent};
use zk_harness::Ensemble;

use crate::{
    MAX_WAIT, connect, connect_for, is_ready, server_of, until, watches_of, with_ensemble,
    with_three, within,
};

#[tokio::test(flavor = "multi_thread")]
async fn watches_tell_what_happened() {
    with_ensemble(async |ensemble| {
        let (outer, other) = (connect(ensemble).await, connect(ensemble).await);
        outer.create("/ns/a", "").parents().await.unwrap();
        let session = outer.with_namespace("/ns").unwrap();

        let (_, _, mut data) = session.get("/a").watched().await.unwrap();
        let (found, mut present) = session.exists("/a").watched().await.unwrap();
        assert!(found.is_some());
        let (names, _, mut children) = session.list("/a").watched().await.unwrap();
        assert!(names.is_empty());
        let (found, mut absent) = session.exists("/b").watched().await.unwrap();
        assert_eq!(found, None);

        other.set("/ns/a", "x").await.unwrap();
        assert_eq!(data.changed().await, WatchEvent::DataChanged);
        assert_eq!(present.changed().await, WatchEvent::DataChanged);
        other.create("/ns/a/x", "").await.unwrap();
        assert_eq!(children.changed().await, WatchEvent::ChildrenChanged);
        other.create("/ns/b", "").await.unwrap();
        assert_eq!(absent.changed().await, WatchEvent::Created);
        assert_eq!(
            absent.changed().await,
            WatchEvent::Created,
            "and says so again"
        );

        other.delete("/ns/a/x").await.unwrap();
        let (_, _, mut data) = session.get("/a").watched().await.unwrap();
        let (_, mut present) = session.exists("/a").watched().await.unwrap();
        let (_, _, mut children) = session.list("/a").watched().await.unwrap();
        other.delete("/ns/a").await.unwrap();
        for watch in [&mut data, &mut present, &mut children] {
            assert_eq!(watch.changed().await, WatchEvent::Deleted);
        }
        assert!(session.get("/a").watched().await.unwrap_err().is_no_node());
        assert_eq!(session.counters().watches, 7);

        let (_, _, mut last) = session.get("/b").watched().await.unwrap();
        session.close().await.unwrap();
        assert_eq!(last.changed().await, WatchEvent::SessionLost);
    })
    .await;
}

/// A supervisor looks at the state when the body fails for the sake of such a watch.
#[tokio::test(flavor = "multi_thread")]
async fn session_is_lost_when_a_watch_reports_its_loss() {
    let ensemble = Ensemble::builder().servers(1).proxied(true).start().await;
    let ensemble = ensemble.expect("a server starts");
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..SESSIONS {
        let session = connect(&ensemble).await;
        for _ in 0..10 {
            let (_, mut watch) = session.exists("/a").watched().await.unwrap();
            let session = session.clone();
            waiting.spawn(async move { (watch.changed().await, session.state()) });
        }
        ensemble.expire(session.id().as_i64()).await.unwrap();
    }
    let received = within(MAX_WAIT, "the watches tell", waiting.join_all()).await;
    let lost = ConnectionState::Lost(SessionEnd::Expired);
    let expected = (WatchEvent::SessionLost, lost);
    assert_eq!(received, vec![expected; 10 * SESSIONS]);
    ensemble.down().await.expect("the server goes down");
}

const SESSIONS: usize = 30;

// With one thread no reply arrives while a call is polled.
#[tokio::test]
async fn dropped_watches_are_taken_back() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        session.create("/a", "").await.unwrap();
        let (_, _, one) = session.get("/a").watched().await.unwrap();
        let (_, _, two) = session.get("/a").watched().await.unwrap();
        let (_, _, three) = session.list("/a").watched().await.unwrap();
        let (_, four) = session.exists("/b").watched().await.unwrap();
        assert_eq!(
            watches_of(ensemble).await,
            3,
            "two of them are one for the server"
        );
        drop(one);
        drop((three, four));
        until("only the watch on the data is left", async || {
            watches_of(ensemble).await == 1
        })
        .await;
        drop(two);
        until("no watch is left", async || watches_of(ensemble).await == 0).await;
        // A call that is dropped while the answer is on its way leaves none either.
        for _ in 0..20 {
            let mut call = session.get("/a").watched().into_future();
            assert!(!is_ready(&mut call).await);
        }
        session.get("/a").await.unwrap();
        until("no watch is left", async || watches_of(ensemble).await == 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_survives_the_server_that_set_it() {
    with_three(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        let server = server_of(ensemble, &session).await;
        // It goes on while that server pauses.
        let servers = ensemble.servers().iter();
        let others = servers.filter(|one| one.id() != server.id());
        let others: Vec<_> = others.map(|one| one.client_address().to_string()).collect();
        let other = Session::builder(others.join(",")).session_timeout(MAX_WAIT);
        let other = other.connect().await.unwrap();
        for path in ["/changed", "/gone", "/parent", "/later"] {
            session.create(path, "").await.unwrap();
        }
        let (_, _, mut changed) = session.get("/changed").watched().await.unwrap();
        let (_, _, mut gone) = session.get("/gone").watched().await.unwrap();
        let (_, _, mut parent) = session.list("/parent").watched().await.unwrap();
        let (_, mut come) = session.exists("/come").watched().await.unwrap();
        let (_, _, mut later) = session.get("/later").watched().await.unwrap();

        // Who has seen the nodes can tell what became of a write to them whose answer is lost.
        other.sync("/").with_quorum().await.unwrap();
        other.stat("/later").await.unwrap();

        // The first server pauses, so that the session receives no events meanwhile.
        server.pause().await.unwrap();
        let max_wait = MAX_WAIT;
        let set = other.set("/changed", "x").timeout(max_wait);
        set.await.unwrap();
        other.delete("/gone").timeout(max_wait).await.unwrap();
        other
            .create("/parent/x", "")
            .timeout(max_wait)
            .await
            .unwrap();
        other.create("/come", "").timeout(max_wait).await.unwrap();
        server.kill().await.unwrap();

        for (watch, event) in [
            (&mut changed, WatchEvent::DataChanged),
            (&mut gone, WatchEvent::Deleted),
            (&mut parent, WatchEvent::ChildrenChanged),
            (&mut come, WatchEvent::Created),
        ] {
            let received = within(max_wait, "the watch fires", watch.changed()).await;
            assert_eq!(received, event);
        }
        assert!(session.counters().connection_losses > 0);
        // One that nothing happened to is still set.
        let early = tokio::time::timeout(Duration::from_millis(100), later.changed()).await;
        assert!(early.is_err(), "nothing happened to it: {early:?}");
        other.set("/later", "x").timeout(max_wait).await.unwrap();
        assert_eq!(
            within(max_wait, "the watch fires", later.changed()).await,
            WatchEvent::DataChanged
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_watches_than_fit_one_request_survive_a_break() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        let other = connect_for(ensemble, MAX_WAIT).await;
        let name = |number: usize| format!("/{number:01023}");
        let mut watches = Vec::new();
        for number in 0..300 {
            watches.push(session.exists(name(number)).watched().await.unwrap().1);
        }
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        server.start().unwrap();
        for (number, watch) in watches.iter_mut().enumerate() {
            let create = other.create(name(number), "").timeout(MAX_WAIT);
            create.await.unwrap();
            assert_eq!(
                within(MAX_WAIT, "the watch fires", watch.changed()).await,
                WatchEvent::Created
            );
        }
        assert!(session.counters().connection_losses > 0);
    })
    .await;
}
