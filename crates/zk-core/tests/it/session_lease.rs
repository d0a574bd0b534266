//! Knowing without asking that a session is alive.

use std::time::{Duration, Instant};

use zk_core::{ErrorKind, Session};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, connect_for, server_of, with_ensemble, with_three, within};

/// Connects to a follower, and knows no other server.
async fn connect_to_follower(ensemble: &Ensemble, timeout: Duration) -> Session {
    let leader = ensemble.wait_leader(MAX_WAIT).await.unwrap().id();
    let mut servers = ensemble.servers().iter();
    let follower = servers.find(|server| server.id() != leader).unwrap();
    let builder = Session::builder(follower.client_address().to_string());
    builder.session_timeout(timeout).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_session_keeps_its_lease_when_the_leader_dies() {
    with_three(async |ensemble| {
        // The third of it that is left at any time outlasts an election.
        let timeout = Duration::from_secs(30);
        let session = connect_for(ensemble, timeout).await;
        let session_lease = session.keep_lease();
        assert!(session_lease.is_valid());
        let first = session_lease.valid_until().unwrap();
        // No proof lasts for that long.
        let watch_over_a_timeout = async || {
            let lapse = tokio::time::timeout(timeout, session_lease.lapsed()).await;
            assert!(lapse.is_err(), "it lapsed, {:?}", session.counters());
        };
        watch_over_a_timeout().await;
        assert!(session_lease.valid_until().unwrap() > first);
        ensemble
            .wait_leader(MAX_WAIT)
            .await
            .unwrap()
            .kill()
            .await
            .unwrap();
        watch_over_a_timeout().await;
        assert!(session_lease.is_valid() && session.counters().connection_losses > 0);
        // An existing proof is returned without waiting.
        session_lease.renewed(Duration::ZERO).await.unwrap();
    })
    .await;
}

/// By the server's own counters.
#[tokio::test(flavor = "multi_thread")]
async fn idle_session_sends_pings_only() {
    with_ensemble(async |ensemble| {
        let timeout = Duration::from_secs(6);
        let session = connect_for(ensemble, timeout).await;
        let server = ensemble.server(1).unwrap();
        let begun = Instant::now();
        let before = server.srvr().await.unwrap();
        let idle = tokio::time::timeout(timeout, session.lost()).await;
        assert!(idle.is_err(), "{idle:?}");
        let after = server.srvr().await.unwrap();
        assert_eq!(after.zxid, before.zxid, "the quorum carried something out");
        // One per fifth of the time that was needed, and what the harness asks.
        let most = 2 + begun.elapsed().as_millis() / (timeout / 5).as_millis();
        let received = u128::from(after.received - before.received);
        assert!((2..=most).contains(&received), "{received}, {most}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_lapses_within_a_timeout_of_silence_and_is_renewed() {
    with_ensemble(async |ensemble| {
        // The session is given up two fifths of it after the lapse.
        let timeout = Duration::from_secs(10);
        let session = connect_for(ensemble, timeout).await;
        let session_lease = session.keep_lease();
        let server = ensemble.server(1).unwrap();
        server.pause().await.unwrap();
        let stopped = Instant::now();
        within(MAX_WAIT, "the proof lapses", session_lease.lapsed()).await;
        assert!(!session_lease.is_valid());
        // By the clock, however late this task is.
        assert!(session_lease.valid_until().unwrap() < stopped + timeout);
        let error = session_lease
            .renewed(Duration::from_millis(200))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        server.resume().await.unwrap();
        // A server that stood still may expire the session when it goes on, or not.
        match session_lease.renewed(MAX_WAIT).await {
            Ok(()) => assert!(session_lease.is_valid()),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::SessionExpired);
                session_lease.lapsed().await;
                assert_eq!(session_lease.valid_until(), None);
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_session_lease_expires_but_can_be_renewed() {
    with_ensemble(async |ensemble| {
        let timeout = Duration::from_secs(6);
        let session = connect_for(ensemble, timeout).await;
        drop(session.keep_lease());
        let session_lease = within(MAX_WAIT, "the proof of the opening ends", async {
            loop {
                let until = session.valid_until().expect("it is alive");
                if until <= Instant::now() {
                    break session.keep_lease();
                }
                tokio::time::timeout_at(until.into(), std::future::pending::<()>())
                    .await
                    .ok();
            }
        })
        .await;
        session_lease.renewed(MAX_WAIT).await.unwrap();
        assert!(session_lease.is_valid());
    })
    .await;
}

/// The ephemeral node of a session whose server dies and that cannot reach another one.
#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_node_exists_while_the_session_lease_is_valid() {
    with_three(async |ensemble| {
        let timeout = Duration::from_secs(6);
        let observer = connect(ensemble).await;
        for round in 0..3 {
            // It knows one server only, a follower.
            let session = connect_to_follower(ensemble, timeout).await;
            let follower = server_of(ensemble, &session).await;
            let path = format!("/{round}");
            session.create(path.as_str(), "").ephemeral().await.unwrap();
            observer.sync("/").with_quorum().await.unwrap();
            let session_lease = session.keep_lease();
            // Begin the silence at another point between two of the leader's pings each time.
            let moment = timeout / 2 + Duration::from_millis(70) * round;
            tokio::time::timeout(moment, session.lost())
                .await
                .unwrap_err();
            follower.kill().await.unwrap();
            let watched = async {
                loop {
                    let (stat, mut watch) = observer
                        .exists(path.as_str())
                        .watched()
                        .timeout(MAX_WAIT)
                        .await
                        .unwrap();
                    if stat.is_none() {
                        return Instant::now();
                    }
                    watch.changed().await;
                }
            };
            let gone = within(MAX_WAIT, "the node goes", watched).await;
            // What the proof said at its last: no answer comes after the kill, so that it does not move any more.
            let until = session_lease.valid_until();
            assert!(
                until.is_none_or(|until| until <= gone),
                "{until:?} {gone:?}"
            );
            follower.start().unwrap();
            ensemble.wait_serving().await.unwrap();
        }
    })
    .await;
}

/// By the servers' own count of transactions. Without commits of its own or of others, a lease ends within a timeout.
#[tokio::test(flavor = "multi_thread")]
async fn lease_on_a_follower_needs_no_commit_while_another_session_writes() {
    with_three(async |ensemble| {
        let timeout = Duration::from_secs(8);
        let session = connect_to_follower(ensemble, timeout).await;
        let writer = connect_for(ensemble, Duration::from_secs(30)).await;
        writer.create("/written", "").await.unwrap();
        let session_lease = session.keep_lease();
        // The session writes while it does not know the role of its server, and after a pause of the machine.
        let without_its_writes = async {
            let (mut last, mut since) = (0, Instant::now());
            while since.elapsed() <= timeout * 5 / 4 {
                let next = tokio::time::timeout(timeout / 20, std::future::pending::<()>());
                next.await.unwrap_err();
                let zxid = writer.set("/written", "").await.unwrap().mzxid;
                if zxid != last + 1 || !session_lease.is_valid() {
                    since = Instant::now();
                }
                last = zxid;
            }
        };
        within(
            3 * MAX_WAIT,
            "a timeout without its writes",
            without_its_writes,
        )
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_goes_on_with_the_shorter_timeout_of_another_server() {
    with_three(async |ensemble| {
        let timeout = Duration::from_secs(30);
        let shorter = Duration::from_secs(10);
        let session = connect_for(ensemble, timeout).await;
        let owned = session.create("/owned", "").owned().await.unwrap();
        let session_lease = session.keep_lease();
        let first = server_of(ensemble, &session).await.id();
        for server in ensemble.servers().iter().filter(|one| one.id() != first) {
            let file = server.directory().join(format!("zoo-{}.cfg", server.id()));
            let config = std::fs::read_to_string(&file).unwrap();
            let lines = config.lines();
            let limit = format!("maxSessionTimeout={}", shorter.as_millis());
            let lines = lines.filter(|line| !line.starts_with("maxSessionTimeout="));
            let lines: Vec<_> = lines.chain([limit.as_str()]).collect();
            std::fs::write(&file, lines.join("\n")).unwrap();
            server.restart().await.unwrap();
            within(MAX_WAIT, "the servers serve", ensemble.wait_serving())
                .await
                .unwrap();
        }
        ensemble.server(first).unwrap().kill().await.unwrap();
        let moved = async {
            while session.session_timeout() != shorter {
                session
                    .exists(owned.path())
                    .timeout(MAX_WAIT)
                    .await
                    .unwrap();
            }
        };
        within(MAX_WAIT, "the session moves", moved).await;
        let within_timeout = Instant::now() + shorter;
        assert!(session_lease.valid_until().unwrap() < within_timeout);
        session_lease.renewed(MAX_WAIT).await.unwrap();
        assert!(session_lease.is_valid());
        assert!(session_lease.valid_until().unwrap() < Instant::now() + shorter);
        owned.delete().await.unwrap();
    })
    .await;
}
