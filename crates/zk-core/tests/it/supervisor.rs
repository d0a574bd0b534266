//! The next session for an application that wants one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zk_core::{ConnectError, ErrorKind, RetryPolicy, RunError, Session, SessionEnd, SessionsEnd};

use crate::{MAX_WAIT, connect, until, with_ensemble, within};

#[tokio::test(flavor = "multi_thread")]
async fn body_runs_again_with_a_new_session_when_one_is_lost() {
    with_ensemble(async |ensemble| {
        let runs = AtomicUsize::new(0);
        let first = std::sync::Mutex::new(None);
        let supervised = Session::builder(ensemble.connect_string())
            .session_timeout(Duration::from_secs(4))
            .supervise(
                RetryPolicy::constant(Duration::from_millis(50)),
                async |session| {
                    session.create("/me", "").ephemeral().await?;
                    if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                        *first.lock().unwrap() = Some(session.id());
                        let server = ensemble.server(1).unwrap();
                        server.kill().await.unwrap();
                        // The session is lost while this is under way: an operation says so, maybe before its link
                        // does.
                        let waiting = session
                            .get("/me")
                            .timeout(Duration::from_secs(60))
                            .into_future();
                        let error = waiting.await.unwrap_err();
                        assert!(error.is_fatal(), "{error}");
                        server.start().unwrap();
                        ensemble.wait_serving().await.unwrap();
                        // The server has kept the old node: its session begins anew with the server.
                        return Err(error);
                    }
                    assert_ne!(Some(session.id()), *first.lock().unwrap());
                    Ok::<_, zk_core::Error>("done")
                },
            );
        // The second run may find the node of the first: then it says so.
        match within(Duration::from_secs(60), "the body ends", supervised).await {
            Ok(done) => assert_eq!(done, "done"),
            Err(RunError::Body(error)) => assert!(error.is_node_exists(), "{error}"),
            Err(other) => panic!("{other:?}"),
        }
        assert!(runs.load(Ordering::SeqCst) >= 1);
        assert!(first.lock().unwrap().is_some());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_of_the_body_ends_the_supervision() {
    with_ensemble(async |ensemble| {
        let builder = Session::builder(ensemble.connect_string());
        let answer = builder
            .clone()
            .supervise(RetryPolicy::never(), async |session| {
                session.stat("/").await
            })
            .await
            .unwrap();
        assert!(answer.num_children > 0);
        // An error while the session lives is the application's own.
        let error = builder
            .clone()
            .supervise(RetryPolicy::default(), async |session| {
                session.get("/no").await
            })
            .await
            .unwrap_err();
        let RunError::Body(error) = error else {
            panic!("{error:?}");
        };
        assert!(error.is_no_node());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn application_that_closes_its_session_is_not_run_again() {
    with_ensemble(async |ensemble| {
        let observer = connect(ensemble).await;
        let again = RetryPolicy::constant(Duration::from_millis(50));
        let runs = AtomicUsize::new(0);
        let (runs, observer) = (&runs, &observer);
        let supervise = |is_ok: bool| {
            let builder = Session::builder(ensemble.connect_string());
            builder.supervise(again, move |session| async move {
                assert_eq!(runs.fetch_add(1, Ordering::SeqCst), 0);
                session.close().await.unwrap();
                assert_eq!(session.lost().await, SessionEnd::Closed);
                // It has more to do, which takes a while.
                for _ in 0..20 {
                    observer.sync("/").with_quorum().await.unwrap();
                }
                if is_ok {
                    Ok("done")
                } else {
                    Err(session.get("/").await.unwrap_err())
                }
            })
        };
        let what = "the application has ended";
        let done = within(MAX_WAIT, what, supervise(true)).await.unwrap();
        assert_eq!((done, runs.swap(0, Ordering::SeqCst)), ("done", 1));
        let error = within(MAX_WAIT, what, supervise(false)).await.unwrap_err();
        let RunError::Body(error) = error else {
            panic!("{error:?}");
        };
        assert_eq!(error.kind(), ErrorKind::SessionClosed);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_nodes_are_gone_when_supervise_returns() {
    with_ensemble(async |ensemble| {
        let observer = connect(ensemble).await;
        for is_ok in [true, false] {
            let builder = Session::builder(ensemble.connect_string());
            let supervised = builder.supervise(RetryPolicy::never(), async |session| {
                session.create("/me", "").ephemeral().await?;
                if is_ok {
                    Ok(session)
                } else {
                    session.get("/no").await.map(|_| session)
                }
            });
            // The application keeps a handle of its session, or it gives up.
            match supervised.await {
                Ok(session) => {
                    let end = within(MAX_WAIT, "the session is over", session.lost()).await;
                    assert_eq!(end, SessionEnd::Closed);
                }
                Err(RunError::Body(error)) => assert!(error.is_no_node(), "{error}"),
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(observer.exists("/me").await.unwrap(), None, "{is_ok}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_connect_ends_supervise_at_once_or_by_the_policy() {
    let never = async |_: Session| -> Result<(), zk_core::Error> { panic!("there is no session") };
    let bad = Session::builder("127.0.0.1:1").session_timeout(Duration::ZERO);
    let error = bad
        .supervise(RetryPolicy::default(), never)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            RunError::Ended(SessionsEnd::Connect(ConnectError::InvalidOption { .. }))
        ),
        "{error:?}"
    );

    let start = Instant::now();
    let unreachable = Session::builder("127.0.0.1:1").connect_timeout(Duration::from_millis(200));
    let policy = RetryPolicy::constant(Duration::from_millis(100)).at_most(2);
    let error = unreachable.supervise(policy, never).await.unwrap_err();
    assert!(
        matches!(
            error,
            RunError::Ended(SessionsEnd::Connect(ConnectError::Unanswered(_)))
        ),
        "{error:?}"
    );
    let took = start.elapsed();
    // The policy's two pauses, at the least.
    assert!(took >= Duration::from_millis(150), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_supervision_closes_the_session() {
    with_ensemble(async |ensemble| {
        let observer = connect(ensemble).await;
        let builder = Session::builder(ensemble.connect_string());
        let task = tokio::spawn(async move {
            builder
                .supervise(RetryPolicy::default(), async |session: Session| {
                    session.create("/me", "").ephemeral().await?;
                    std::future::pending::<Result<(), zk_core::Error>>().await
                })
                .await
        });
        until("the node is there", async || {
            observer.exists("/me").await.unwrap().is_some()
        })
        .await;
        task.abort();
        until("the node is gone", async || {
            observer.exists("/me").await.unwrap().is_none()
        })
        .await;
    })
    .await;
}
