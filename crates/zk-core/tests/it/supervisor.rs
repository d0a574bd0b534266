//! The next session for an application that wants one.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use zk_core::ConnectError;
use zk_core::RetryPolicy;
use zk_core::Session;
use zk_core::SuperviseError;

use crate::connect;
use crate::eventually;
use crate::with_ensemble;
use crate::within;

// covers: C6
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
                        // The session is lost while this is under way: an operation says so, maybe before its link does.
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
            Err(SuperviseError::Body(error)) => assert!(error.is_node_exists(), "{error}"),
            Err(other) => panic!("{other:?}"),
        }
        assert!(runs.load(Ordering::SeqCst) >= 1);
        assert!(first.lock().unwrap().is_some());
    })
    .await;
}

// covers: C6
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
        let SuperviseError::Body(error) = error else {
            panic!("{error:?}");
        };
        assert!(error.is_no_node());
        // So is a session that the body has closed itself, with the policy's consent.
        let error = builder
            .supervise(RetryPolicy::never(), async |session| {
                session.close().await?;
                std::future::pending::<Result<(), zk_core::Error>>().await
            })
            .await
            .unwrap_err();
        assert!(matches!(error, SuperviseError::SessionLost), "{error:?}");
    })
    .await;
}

// covers: C1 C6
#[tokio::test(flavor = "multi_thread")]
async fn session_that_cannot_be_opened_ends_it_at_once_or_when_the_policy_gives_up() {
    let never = async |_: Session| -> Result<(), zk_core::Error> { panic!("there is no session") };
    let start = Instant::now();
    let bad = Session::builder("127.0.0.1:1").session_timeout(Duration::ZERO);
    let error = bad
        .supervise(RetryPolicy::default(), never)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            SuperviseError::Connect(ConnectError::InvalidOption { .. })
        ),
        "{error:?}"
    );
    assert!(start.elapsed() < Duration::from_secs(1));

    let nobody = Session::builder("127.0.0.1:1").connect_timeout(Duration::from_millis(200));
    let policy = RetryPolicy::constant(Duration::from_millis(100)).at_most(2);
    let error = nobody.supervise(policy, never).await.unwrap_err();
    assert!(
        matches!(error, SuperviseError::Connect(ConnectError::Unanswered(_))),
        "{error:?}"
    );
    let took = start.elapsed();
    assert!(
        took >= Duration::from_millis(350) && took < Duration::from_secs(5),
        "{took:?}"
    );
}

// covers: C6
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
        eventually("the node is there", async || {
            observer.exists("/me").await.unwrap().is_some()
        })
        .await;
        task.abort();
        eventually("the node is gone", async || {
            observer.exists("/me").await.unwrap().is_none()
        })
        .await;
    })
    .await;
}
