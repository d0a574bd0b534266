//! What users of a session need not know of the client below it.

use std::time::Duration;

use zk_core::{ConnectionState, Session};

use crate::{MAX_WAIT, connect, connect_for, is_ready, passes_through, until, with_ensemble};

/// However a connection breaks, a write in flight is not taken for one that was refused or never sent.
#[tokio::test(flavor = "multi_thread")]
async fn writes_in_flight_at_a_kill_are_repeated_or_unknown() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        let server = ensemble.server(1).unwrap();
        let mut calls: Vec<_> = (0..50)
            .map(|number| {
                let data = format!("{number}");
                let create = session.create(format!("/{number}"), data).idempotent();
                create.timeout(MAX_WAIT).into_future()
            })
            .collect();
        let sequential = session.create("/s-", "").sequential();
        let mut sequential = sequential.timeout(MAX_WAIT).into_future();
        server.pause().await.unwrap();
        for call in &mut calls {
            assert!(!is_ready(call).await);
        }
        assert!(!is_ready(&mut sequential).await);
        server.kill().await.unwrap();
        server.start().unwrap();
        for (number, call) in calls.into_iter().enumerate() {
            call.await.unwrap();
            let (data, stat) = session.get(format!("/{number}")).await.unwrap();
            assert_eq!((data, stat.version), (number.to_string().into(), 0));
        }
        let error = sequential.await.unwrap_err();
        assert!(error.is_outcome_unknown() && !error.is_fatal(), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operation_that_is_never_polled_is_never_sent() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        drop(session.create("/a", ""));
        drop(session.create("/b", "").into_future());
        drop(session.transaction().create("/c", "").commit());
        assert_eq!(session.list("/").await.unwrap().0, ["zookeeper"]);
    })
    .await;
}

/// Requests of one tick are in flight together, and are carried out in their order.
#[tokio::test]
async fn requests_of_one_tick_are_carried_out_in_their_order() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        session.create("/dir", "").await.unwrap();
        for round in 0..50 {
            let (made, listed) = tokio::join!(
                session.create("/dir/n-", "").sequential().into_future(),
                session.list("/dir").into_future(),
            );
            made.unwrap();
            assert_eq!(listed.unwrap().0.len(), round + 1);
        }
        // The server counts more than one request of this session at a time: they do not wait for one another.
        let server = ensemble.server(1).unwrap();
        server.pause().await.unwrap();
        let mut calls: Vec<_> = (0..100)
            .map(|_| session.get("/dir").into_future())
            .collect();
        for call in &mut calls {
            assert!(!is_ready(call).await);
        }
        server.resume().await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
    })
    .await;
}

/// The state of the client is its latest one: flaps between two looks are counted nevertheless.
#[tokio::test(flavor = "multi_thread")]
async fn each_break_is_seen_as_suspended() {
    with_ensemble(async |ensemble| {
        let session = connect_for(ensemble, MAX_WAIT).await;
        let mut changes = session.state_changes();
        passes_through(&mut changes, &[ConnectionState::Connected]).await;
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        server.start().unwrap();
        // No read of the state before the link is restored.
        session.get("/").timeout(MAX_WAIT).await.unwrap();
        assert!(session.counters().connection_losses > 0);
        passes_through(
            &mut changes,
            &[ConnectionState::Suspended, ConnectionState::Connected],
        )
        .await;
    })
    .await;
}

/// Handles can be dropped where there is no runtime, in another thread or after the runtime has ended.
#[test]
fn handles_can_be_dropped_without_a_runtime() {
    let runtime = || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap()
    };
    let (main, other) = (runtime(), runtime());
    main.block_on(with_ensemble(async |ensemble| {
        let observer = connect(ensemble).await;
        observer.create("/dir", "").await.unwrap();
        let session = connect(ensemble).await;
        let owned = session.create("/dir/n", "").owned().await.unwrap();
        let (_, watch) = session.exists("/w").watched().await.unwrap();
        std::thread::spawn(move || drop((owned, watch, session)))
            .join()
            .unwrap();
        until("the node is gone", async || {
            observer.list("/dir").await.unwrap().0.is_empty()
        })
        .await;

        // A session whose runtime has ended is over, and says so at once.
        let text = ensemble.connect_string();
        let (session, owned, session_lease) = tokio::task::spawn_blocking(move || {
            let made = other.block_on(async {
                let session = Session::builder(text).connect().await.unwrap();
                let owned = session
                    .create("/dir/n", "")
                    .ephemeral()
                    .owned()
                    .await
                    .unwrap();
                let session_lease = session.keep_lease();
                (session, owned, session_lease)
            });
            other.shutdown_timeout(Duration::from_secs(5));
            made
        })
        .await
        .unwrap();
        session_lease.lapsed().await;
        assert!(session.get("/").await.unwrap_err().is_fatal());
        drop(owned);
        session.settled().await;
        session.lost().await;
        drop(session);
    }));
}
