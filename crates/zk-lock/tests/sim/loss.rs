//! Losing the session, the node, or the connection.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_lock::{AcquireError, LockLoss, ReleaseError, RunError};
use zk_sim::{Ensemble, matching};

use crate::{OURS, PATH, held_and_waited_for, left, lock, pass, soon};

#[tokio::test(start_paused = true)]
async fn an_expired_holder_is_notified_and_the_next_is_granted() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    ensemble.expire(one.id());
    let loss = soon("the loss is reported", held.lost()).await;
    assert_eq!(
        (loss, loss.class()),
        (LockLoss::SessionLost, ErrorClass::Fatal)
    );
    assert!(!held.is_valid());
    let guard = soon("the next one is granted", waiting)
        .await
        .unwrap()
        .unwrap();
    let error = held.release().await.unwrap_err();
    assert!(
        matches!(
            error,
            ReleaseError::Lost {
                loss: LockLoss::SessionLost,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(left(&ensemble), [guard.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_expires_ends_with_an_error() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    ensemble.expire(other.id());
    let error = soon("the waiter ends", waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );
    assert_eq!(left(&ensemble), [held.path().name().unwrap()]);
    let error = lock(&other).try_acquire().await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fatal);
}

/// The central guarantee: a holder that is cut off stops relying on its lock before the ensemble grants it to the next.
#[tokio::test(start_paused = true)]
async fn a_cut_off_holder_lapses_before_the_next_is_granted() {
    for held_for in [0, 1, 3, 7, 20] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let (held, mut waiting) = held_and_waited_for(&one, &other).await;
        pass(Duration::from_secs(held_for)).await;
        assert!(held.is_valid());
        ensemble.session(one.id()).partition();
        tokio::select! {
            biased;
            guard = &mut waiting => panic!("granted while the first one relies on its lock: {guard:?}"),
            loss = held.lost() => assert_eq!(loss, LockLoss::SessionLeaseExpired),
        }
        assert!(!held.is_valid());
        let guard = soon("the next one is granted", waiting)
            .await
            .unwrap()
            .unwrap();
        assert!(guard.is_valid() && !held.is_valid());
        assert!(guard.fencing_token() > held.fencing_token());
        assert_eq!(
            soon("the loss is final", async {
                loop {
                    match held.lost().await {
                        LockLoss::SessionLeaseExpired => pass(Duration::from_millis(100)).await,
                        loss => break loss,
                    }
                }
            })
            .await,
            LockLoss::SessionLost
        );
    }
}

#[tokio::test(start_paused = true)]
async fn closing_the_session_ends_the_lock_before_it_is_confirmed() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    // Replies behind a held one stay in flight, the acknowledgement among them.
    let answers = ensemble.on(matching::gets(PATH)).session(one.id()).hold();
    let reader = one.clone();
    let read = tokio::spawn(async move { reader.get(PATH).await });
    answers.happened().await;
    let closer = one.clone();
    let closing = tokio::spawn(async move { closer.close().await });
    let guard = soon("the next one is granted", waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(guard.is_valid() && !closing.is_finished());
    assert!(!held.is_valid());
    let loss = tokio::time::timeout(Duration::ZERO, held.lost()).await;
    assert_eq!(loss, Ok(LockLoss::SessionLost));
    let error = lock(&one).try_acquire().await.unwrap_err();
    assert!(
        matches!(error, AcquireError::SessionLost { .. }),
        "{error:?}"
    );

    answers.withdraw();
    soon("it is closed", closing).await.unwrap().unwrap();
    drop(read.await);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_survives_a_short_break_is_valid_again() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let guard = lock(&session).acquire().await.unwrap();
    pass(Duration::from_secs(5)).await;
    ensemble.session(session.id()).partition();
    assert_eq!(
        soon("the proof runs out", guard.lost()).await,
        LockLoss::SessionLeaseExpired
    );
    ensemble.session(session.id()).heal();
    if ensemble.session(session.id()).is_alive() {
        soon("the proof is renewed", async {
            while !guard.is_valid() {
                pass(Duration::from_millis(10)).await;
            }
        })
        .await;
        guard.release().await.unwrap();
        assert!(left(&ensemble).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn run_drops_its_body_when_the_session_lease_expires() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let running = lock(&session);
    let running = tokio::spawn(async move { running.run(|_| std::future::pending::<()>()).await });
    pass(Duration::from_secs(1)).await;
    assert_eq!(left(&ensemble).len(), 1);
    ensemble.session(session.id()).partition();
    let error = soon("the body is dropped", running)
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(error, RunError::Lost(LockLoss::SessionLeaseExpired)),
        "{error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_waiter_fails_at_its_next_wake_up() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let (held, waiting) = held_and_waited_for(&one, &other).await;
    let queue = left(&ensemble);
    let theirs = queue
        .iter()
        .find(|name| Some(name.as_str()) != held.path().name())
        .unwrap();
    let path = format!("{PATH}/{theirs}");
    one.delete(&path).await.unwrap();
    held.release().await.unwrap();
    let error = soon("the waiter is notified", waiting)
        .await
        .unwrap()
        .unwrap_err();
    assert!(
        matches!(&error, AcquireError::NodeDeleted { path: lost } if lost.as_str() == path),
        "{error:?}"
    );
    assert_eq!(error.class(), ErrorClass::Recoverable);
    assert!(left(&ensemble).is_empty());
}

/// The node is deleted between its create and the list behind it, by a very quick client.
#[tokio::test(start_paused = true)]
async fn a_node_deleted_before_the_first_list_is_no_lock() {
    let ensemble = Ensemble::new(3);
    let (one, admin) = (ensemble.connect().await, ensemble.connect().await);
    let list = ensemble
        .on(matching::lists(PATH))
        .session(one.id())
        .from(1)
        .lose_request();
    let acquiring = lock(&one);
    let acquiring = tokio::spawn(async move { acquiring.acquire().await });
    list.happened().await;
    pass(Duration::from_secs(1)).await;
    for name in left(&ensemble) {
        admin.delete(format!("{PATH}/{name}")).await.unwrap();
    }
    list.release();
    let ended = tokio::time::timeout(Duration::from_secs(9), acquiring).await;
    assert!(!matches!(&ended, Ok(Ok(Ok(_)))), "{ended:?}");
}

/// A restarted process finds the node of its former session, which is not its own.
#[tokio::test(start_paused = true)]
async fn the_node_of_an_earlier_session_is_not_taken_over() {
    let ensemble = Ensemble::new(3);
    let former = ensemble.connect().await;
    let ghost = lock(&former).acquire().await.unwrap();
    ensemble.session(former.id()).partition();
    let session = ensemble.connect().await;
    assert!(lock(&session).try_acquire().await.unwrap().is_none());
    let started = tokio::time::Instant::now();
    let guard = soon("the old node is deleted", lock(&session).acquire())
        .await
        .unwrap();
    assert!(
        started.elapsed() > Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    assert!(!ghost.is_valid() && guard.is_valid());
    assert_ne!(guard.path(), ghost.path());
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_valid_when_granted_after_any_wait() {
    for wait in [0, 3, 9, 15, 100] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let (held, waiting) = held_and_waited_for(&one, &other).await;
        pass(Duration::from_secs(wait)).await;
        held.release().await.unwrap();
        let guard = soon("the waiter is granted the lock", waiting)
            .await
            .unwrap()
            .unwrap();
        assert!(guard.is_valid(), "after {wait} s");
        assert!(guard.valid_until().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_noticed_whichever_monitor_request_is_lost() {
    for nth in 1..4 {
        let ensemble = Ensemble::new(3);
        let (session, admin) = (ensemble.connect().await, ensemble.connect().await);
        let lost = ensemble.on(matching::exists(OURS)).nth(nth).lose_reply();
        let guard = lock(&session).acquire().await.unwrap();
        for write in 0..3 {
            pass(Duration::from_millis(200)).await;
            admin.set(guard.path(), format!("{write}")).await.unwrap();
        }
        admin.delete(guard.path()).await.unwrap();
        assert_eq!(
            soon("the loss is reported", guard.lost()).await,
            LockLoss::NodeDeleted
        );
        assert_eq!(lost.count(), 1);
    }
}
