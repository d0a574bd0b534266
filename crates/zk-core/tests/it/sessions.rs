//! Opening, losing and ending sessions.

use std::time::{Duration, Instant};

use zk_core::wire::{Client, Config};
use zk_core::{Acl, ConnectError, ConnectString, ErrorClass, ErrorKind, Session};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, connect_for, until, with_ensemble, within};

#[tokio::test(flavor = "multi_thread")]
async fn session_is_connected_when_it_is_returned() {
    with_ensemble(async |ensemble| {
        // One of the servers named does not exist.
        let servers = format!("127.0.0.1:1,{}", ensemble.connect_string());
        let builder = Session::builder(servers).session_timeout(Duration::from_secs(5));
        let session = builder.connect().await.unwrap();
        assert_ne!(session.id().as_i64(), 0);
        assert_eq!(session.session_timeout(), Duration::from_secs(5));
        session
            .stat("/")
            .timeout(Duration::from_secs(5))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chroot_is_the_root_of_all_paths_and_must_exist() {
    with_ensemble(async |ensemble| {
        let inside = format!("{}/app/one", ensemble.connect_string());
        let missing = Session::builder(&inside).connect().await.unwrap_err();
        assert!(
            matches!(missing, ConnectError::NoChroot { .. }),
            "{missing:?}"
        );
        assert_eq!(
            missing.to_string(),
            "the chroot /app/one does not exist; connect without it and create it first"
        );

        let outer = connect(ensemble).await;
        outer.create("/app/one", "").parents().await.unwrap();
        let inner = Session::builder(&inside).connect().await.unwrap();
        let (path, _) = inner.create("/x-", "here").sequential().await.unwrap();
        assert_eq!(path.as_str(), "/x-0000000000");
        assert_eq!(outer.get("/app/one/x-0000000000").await.unwrap().0, "here");
        assert_eq!(inner.list("/").await.unwrap().0, ["x-0000000000"]);

        // The chroot goes while the session lives: an ordinary answer, not a hang.
        outer.delete("/app").recursive().await.unwrap();
        assert!(
            inner
                .create("/y/z", "")
                .parents()
                .await
                .unwrap_err()
                .is_no_node()
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_come_from_a_provider_and_a_session_is_resumed() {
    with_ensemble(async |ensemble| {
        let outer = connect(ensemble).await;
        outer.create("/app", "").await.unwrap();
        let servers: ConnectString = ensemble.connect_string().parse().unwrap();
        let builder =
            || Session::builder("nowhere.invalid/app").host_provider(servers.hosts.clone());

        let client = Client::new(servers.hosts.clone(), Config::new(MAX_WAIT));
        client.connected().await.unwrap();
        let mut config = Config::new(MAX_WAIT);
        config.resume = client.saved_session();
        let resumed = builder().config(config.clone()).connect().await.unwrap();
        let id = config.resume.as_ref().unwrap().id;
        assert_eq!(resumed.id().as_i64(), id);
        let (path, stat) = resumed.create("/own", "").ephemeral().await.unwrap();
        assert_eq!(resumed.server_path(&path).as_str(), "/app/own");
        assert_eq!(stat.ephemeral_owner, Some(resumed.id()));
        resumed.close().await.unwrap();
        assert_eq!(outer.exists("/app/own").await.unwrap(), None);
        let ended = builder().config(config).connect().await.unwrap_err();
        assert!(matches!(ended, ConnectError::NotResumed), "{ended:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn close_returns_when_the_server_has_ended_the_session() {
    with_ensemble(async |ensemble| {
        let (observer, session) = (connect(ensemble).await, connect(ensemble).await);
        let (_, stat) = session.create("/mine", "").ephemeral().await.unwrap();
        assert_eq!(stat.ephemeral_owner, Some(session.id()));
        let clone = session.clone();
        session.close().await.unwrap();
        assert_eq!(observer.exists("/mine").await.unwrap(), None);

        clone.lost().await;
        let error = clone.get("/").await.unwrap_err();
        assert_eq!(
            (error.kind(), error.class()),
            (ErrorKind::SessionClosed, ErrorClass::Fatal)
        );
        clone.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_clone_ends_the_session() {
    with_ensemble(async |ensemble| {
        let (observer, session) = (connect(ensemble).await, connect(ensemble).await);
        session.create("/mine", "").ephemeral().await.unwrap();
        drop(session.clone());
        assert!(observer.exists("/mine").await.unwrap().is_some());
        drop(session);
        until("the ephemeral node is gone", async || {
            observer.exists("/mine").await.unwrap().is_none()
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digest_credentials_open_what_they_protect() {
    with_ensemble(async |ensemble| {
        let builder = Session::builder(ensemble.connect_string()).digest_auth("alice", "hunter2");
        let alice = builder.connect().await.unwrap();
        alice
            .create("/private", "data")
            .acl(Acl::creator_only())
            .await
            .unwrap();
        let (acl, _) = alice.acl("/private").await.unwrap();
        let [entry] = acl.entries() else {
            panic!("one entry expected: {acl:?}")
        };
        assert_eq!(entry.scheme(), "digest");
        assert!(entry.id().starts_with("alice:"), "{entry:?}");

        let stranger = connect(ensemble).await;
        for (error, message) in [
            (
                stranger.get("/private").await.unwrap_err(),
                "get /private: not permitted; it needs READ on the node",
            ),
            (
                stranger.set("/private", "").await.unwrap_err(),
                "set /private: not permitted; it needs WRITE on the node",
            ),
            (
                stranger.create("/private/x", "").await.unwrap_err(),
                "create /private/x: not permitted; it needs CREATE on the parent",
            ),
        ] {
            assert_eq!(
                (error.kind(), error.to_string().as_str()),
                (ErrorKind::NoAuth, message)
            );
        }

        alice
            .set_acl("/private", Acl::read_only())
            .version(0)
            .await
            .unwrap();
        assert_eq!(stranger.get("/private").await.unwrap().0, "data");
        for text in [format!("{alice:?}"), format!("{:?}", alice.get("/private"))] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_say_so_when_no_server_is_left() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        let start = Instant::now();
        let read = session.get("/").timeout(Duration::from_secs(1)).await.unwrap_err();
        let write = session.create("/late", "").timeout(Duration::from_secs(1)).await.unwrap_err();
        let took = start.elapsed();
        assert!(took < session.operation_timeout(), "took {took:?}");
        assert_eq!((read.class(), write.kind()), (ErrorClass::Recoverable, ErrorKind::NotConnected));
        assert_eq!(
            write.to_string(),
            format!(
                "create /late: not sent, the session was not connected (waited 1s for a connection to {})",
                ensemble.connect_string()
            )
        );

        // What was reported as not sent is not sent when the server is back, and the session goes on.
        server.start().unwrap();
        assert_eq!(session.exists("/late").timeout(MAX_WAIT).await.unwrap(), None);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hung_server_makes_a_write_unknown_and_a_connect_fail_in_time() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        let server = ensemble.server(1).unwrap();
        server.pause().await.unwrap();
        let error = session
            .create("/a", "")
            .timeout(Duration::from_secs(1))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.attempts()),
            (ErrorKind::OutcomeUnknown, 1)
        );

        // The last second of it is for finding out what is wrong.
        let builder =
            Session::builder(ensemble.connect_string()).connect_timeout(Duration::from_secs(8));
        let error = within(MAX_WAIT, "an error", builder.connect()).await;
        let error = error.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("accepted the connection but does not reply (hung or paused?)"),
            "{error}"
        );

        // The write had left: it happens when the server goes on.
        server.resume().await.unwrap();
        until("the node is there", async || {
            session.exists("/a").await.is_ok_and(|stat| stat.is_some())
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn write_after_close_was_certainly_not_applied() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let (closed, late) =
            tokio::join!(session.close(), session.create("/late", "").into_future());
        closed.expect("the server acknowledges");
        let late = late.unwrap_err();
        assert_eq!(
            (late.kind(), late.attempts(), late.is_outcome_unknown()),
            (ErrorKind::SessionClosed, 0, false)
        );
    })
    .await;
}

#[tokio::test]
async fn short_session_timeout_does_not_break_the_connection() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .min_session_timeout(Duration::from_secs(30))
        .start()
        .await
        .expect("a server starts");
    let session = Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_millis(100))
        .connect()
        .await
        .expect("the server grants more than was asked for");
    // A stop as short as this one is everyday life on a busy server.
    let server = ensemble.server(1).expect("there is one");
    server.pause().await.expect("it stops");
    let mut write = std::pin::pin!(session.create("/slow", "").into_future());
    let early = tokio::time::timeout(Duration::from_millis(300), &mut write).await;
    server.resume().await.expect("it goes on");
    assert!(early.is_err(), "no server replies: {early:?}");
    write.await.expect("the connection is still the same");
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_credentials_fail_the_connect() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .property("DigestAuthenticationProvider.enabled", "false");
    let ensemble = ensemble.start().await.expect("a server starts");
    let builder = Session::builder(ensemble.connect_string()).digest_auth("user", "secret");
    let connected = within(MAX_WAIT, "the server's refusal", builder.connect()).await;
    let error = connected.map(|session| session.state()).unwrap_err();
    assert!(matches!(error, ConnectError::AuthFailed), "{error}");
    ensemble.down().await.expect("the server goes down");
}
