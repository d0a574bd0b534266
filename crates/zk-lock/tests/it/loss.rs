//! Losing a lock.

use zk_core::ErrorClass;
use zk_lock::{AcquireError, FairLock, LockLoss, ReleaseError};

use crate::{connect, soon, until_enlisted, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_notices_that_its_node_was_deleted() {
    with_ensemble(async |ensemble| {
        let (session, admin) = (connect(ensemble).await, connect(ensemble).await);
        let lock = FairLock::new(&session, "/a").unwrap();
        // Before the node is watched, and after its data changed and it was watched again.
        for is_watched in [false, true] {
            let guard = lock.acquire().await.unwrap();
            if is_watched {
                let server = ensemble.server(1).unwrap();
                crate::eventually("the node is watched", async || {
                    server.wchs().await.is_ok_and(|wchs| wchs.watches == 1)
                })
                .await;
                admin.set(guard.path(), "__REVOKE__").await.unwrap();
            }
            admin.delete(guard.path()).await.unwrap();
            assert_eq!(
                soon("the loss is reported", guard.lost()).await,
                LockLoss::NodeDeleted
            );
            assert!(!guard.is_valid());
            assert_eq!(guard.valid_until(), None);
            let error = guard.release().await.unwrap_err();
            assert!(
                matches!(
                    error,
                    ReleaseError::Lost {
                        loss: LockLoss::NodeDeleted,
                        ..
                    }
                ),
                "{error:?}"
            );
        }
        // A release right after the deletion notices it by itself.
        let guard = lock.acquire().await.unwrap();
        let lost = guard.lost();
        admin.delete(guard.path()).await.unwrap();
        let error = guard.release().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Recoverable);
        assert!(
            error
                .to_string()
                .ends_with("another client deleted the lock's node"),
            "{error}"
        );
        soon("the future of a dropped guard", lost).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_resolves_when_the_guard_is_released_or_dropped() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let lock = FairLock::new(&session, "/a").unwrap();
        let guard = lock.acquire().await.unwrap();
        let lost = tokio::spawn(guard.lost());
        guard.release().await.unwrap();
        assert_eq!(
            soon("the loss is reported", lost).await.unwrap(),
            LockLoss::Released
        );
        let guard = lock.acquire().await.unwrap();
        let lost = guard.lost();
        drop(guard);
        assert_eq!(soon("the loss is reported", lost).await, LockLoss::Released);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_ends_holders_and_waiters() {
    with_ensemble(async |ensemble| {
        let (session, other) = (connect(ensemble).await, connect(ensemble).await);
        let lock = FairLock::new(&session, "/a").unwrap();
        let guard = lock.acquire().await.unwrap();
        let waiter = lock.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        until_enlisted(&other, "/a", 2).await;

        session.close().await.unwrap();
        assert_eq!(
            soon("the loss is reported", guard.lost()).await,
            LockLoss::SessionLost
        );
        assert!(!guard.is_valid());
        let error = guard.release().await.unwrap_err();
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
        let error = soon("the waiter ends", waiting).await.unwrap().unwrap_err();
        assert!(
            matches!(error, AcquireError::SessionLost { .. }),
            "{error:?}"
        );
        assert_eq!(error.class(), ErrorClass::Fatal);
        let error = lock.acquire().await.unwrap_err();
        assert!(
            matches!(error, AcquireError::SessionLost { source: Some(_) }),
            "{error:?}"
        );

        let guard = FairLock::new(&other, "/a")
            .unwrap()
            .acquire()
            .await
            .unwrap();
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_off_holder_stops_in_time() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let guard = FairLock::new(&session, "/a")
            .unwrap()
            .acquire()
            .await
            .unwrap();
        let server = ensemble.server(1).unwrap();
        server.pause().await.unwrap();
        let paused = std::time::Instant::now();
        let until = guard.valid_until().unwrap();
        assert_eq!(
            soon("the proof runs out", guard.lost()).await,
            LockLoss::SessionLeaseExpired
        );
        assert!(!guard.is_valid());
        assert!(std::time::Instant::now() >= until);
        // By the clock, however late this task is.
        assert!(until < paused + session.session_timeout());
        server.resume().await.unwrap();

        // Either the session survived and the lock was held all the time, or it did not and all calls report the loss.
        let end = soon("the session is heard of again", async {
            loop {
                tokio::select! {
                    loss = guard.lost() => if loss != LockLoss::SessionLeaseExpired { break Some(loss) },
                    () = tokio::task::yield_now() => {}
                }
                if guard.is_valid() {
                    break None;
                }
            }
        })
        .await;
        match (end, guard.release().await) {
            (None, Ok(())) => {}
            (Some(told), Err(ReleaseError::Lost { loss, .. })) => assert_eq!(told, loss),
            other => panic!("{other:?}"),
        }
        soon("nothing is left to clean up", session.settled()).await;
    })
    .await;
}
