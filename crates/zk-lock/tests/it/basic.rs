//! Acquiring and releasing while nothing goes wrong.

use std::time::Duration;

use zk_core::ErrorKind;
use zk_lock::{FairLock, LockLoss, LockOptions, RunError};

use crate::{LONG, connect, names, soon, until_enlisted, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_acquired_and_leaves_nothing_when_released() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let lock = FairLock::new(&session, "/app/locks/a").unwrap();
        let guard = lock.acquire().await.unwrap();
        assert!(guard.is_valid());
        assert!(guard.valid_until().is_some());

        let name = guard.path().name().unwrap();
        let (prefix, number) = name.split_at(name.len() - 10);
        assert_eq!(number, "0000000000");
        assert!(
            prefix.starts_with("_c_") && prefix.ends_with("-lock-"),
            "{name}"
        );
        assert_eq!(
            prefix.len(),
            "_c_ceaa56f0-83a0-4387-bbd4-d5b3a3d3ff7e-lock-".len()
        );
        assert_eq!(names(&session, "/app/locks/a").await, [name]);
        let (data, stat) = session.get(guard.path()).await.unwrap();
        assert_eq!(stat.ephemeral_owner, Some(session.id()));
        assert_eq!(
            u64::try_from(stat.czxid).unwrap(),
            guard.fencing_token().as_u64()
        );
        let owner = String::from_utf8(data.into()).unwrap();
        assert!(
            owner.ends_with(&format!("/{}", std::process::id())),
            "{owner}"
        );

        let first = guard.fencing_token();
        guard.release().await.unwrap();
        assert!(names(&session, "/app/locks/a").await.is_empty());

        let again = lock.acquire().await.unwrap();
        assert!(again.fencing_token() > first);
        drop(again);
        assert!(names(&session, "/app/locks/a").await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_gets_the_lock_when_it_is_released_and_not_before() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let held = FairLock::new(&one, "/a").unwrap().acquire().await.unwrap();
        let lock = FairLock::new(&other, "/a").unwrap();
        let waiting = tokio::spawn(async move { lock.acquire().await });
        until_enlisted(&one, "/a", 2).await;
        assert!(!waiting.is_finished());

        let token = held.fencing_token();
        held.release().await.unwrap();
        let guard = soon("the waiter gets the lock", waiting)
            .await
            .unwrap()
            .unwrap();
        assert!(guard.is_valid());
        assert!(guard.fencing_token() > token);
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire_never_waits_for_another_and_leaves_nothing() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let held = FairLock::new(&one, "/a").unwrap().acquire().await.unwrap();
        let lock = FairLock::new(&other, "/a").unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert_eq!(names(&one, "/a").await.len(), 1);
        held.release().await.unwrap();
        let guard = lock.try_acquire().await.unwrap().expect("the lock is free");
        guard.release().await.unwrap();
        assert!(names(&one, "/a").await.is_empty());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_timeout_says_who_was_ahead_and_leaves_nothing() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let options = LockOptions::default().with_owner("billing-7");
        let lock = FairLock::with_options(&one, "/a", options).unwrap();
        let held = lock.acquire().await.unwrap();
        let lock = FairLock::new(&other, "/a").unwrap();
        // Long enough to read who is ahead.
        let limit = Duration::from_secs(10);
        let error = lock.acquire_timeout(limit).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "/a not acquired within 10s: held by {} of \"billing-7\" (session {})",
                held.path().name().unwrap(),
                one.id()
            )
        );
        soon(
            "the node of the timed-out waiter is deleted",
            other.settled(),
        )
        .await;
        assert_eq!(names(&one, "/a").await.len(), 1);
        held.release().await.unwrap();
        let guard = lock.acquire_timeout(LONG).await.unwrap();
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_of_a_guard_is_refused_once_the_lock_is_lost() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        session.create("/balance", "1").await.unwrap();
        let lock = FairLock::new(&session, "/a").unwrap();
        let guard = lock.acquire().await.unwrap();
        guard.txn().set("/balance", "2").commit().await.unwrap();

        connect(ensemble).await.delete(guard.path()).await.unwrap();
        let error = guard.txn().set("/balance", "3").commit().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.failed_part()),
            (ErrorKind::NoNode, Some(0))
        );
        assert_eq!(session.get("/balance").await.unwrap().0, "2");
        drop(guard);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn run_passes_the_token_and_drops_the_body_on_a_loss() {
    with_ensemble(async |ensemble| {
        let (session, admin) = (connect(ensemble).await, connect(ensemble).await);
        let lock = FairLock::new(&session, "/a").unwrap();
        let lender = lock.clone();
        let token = lock
            .run(async |token| {
                assert_eq!(
                    lender.inspector().contenders().await.unwrap()[0].fencing_token(),
                    token
                );
                token
            })
            .await
            .unwrap();
        assert!(names(&admin, "/a").await.is_empty());

        let (begin, begun) = tokio::sync::oneshot::channel();
        let (body, is_dropped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            lock.run(async move |later| {
                assert!(later > token);
                begin.send(()).unwrap();
                let _body = body;
                std::future::pending::<()>().await;
            })
            .await
        });
        soon("the body runs", begun).await.unwrap();
        let name = names(&admin, "/a").await.remove(0);
        admin.delete(format!("/a/{name}")).await.unwrap();
        soon("the body is dropped", is_dropped).await.unwrap_err();
        let error = soon("run ends", running).await.unwrap().unwrap_err();
        assert!(
            matches!(error, RunError::Lost(LockLoss::NodeDeleted)),
            "{error:?}"
        );
    })
    .await;
}
