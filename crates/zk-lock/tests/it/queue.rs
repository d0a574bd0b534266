//! The order of the queue.

use std::sync::{Arc, Mutex};

use zk_core::Session;
use zk_harness::Ensemble;
use zk_lock::{FairLock, FencingToken, Guard, LockOptions};

use crate::{connect, eventually, names, soon, until_enlisted, with_ensemble};

/// Lets `count` waiters join the queue one after the other.
async fn waiters(
    ensemble: &Ensemble,
    observer: &Session,
    sessions: usize,
    count: usize,
) -> Vec<tokio::task::JoinHandle<Guard>> {
    let mut connected = Vec::new();
    for _ in 0..sessions {
        connected.push(connect(ensemble).await);
    }
    let mut waiting = Vec::new();
    for at in 0..count {
        let options = LockOptions::default().with_owner(format!("waiter {at}"));
        let session = &connected[at % sessions];
        let lock = FairLock::with_options(session, "/a", options).unwrap();
        waiting.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
        until_enlisted(observer, "/a", at + 2).await;
    }
    waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn contenders_are_listed_in_order_with_their_owners() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let lock = FairLock::new(&session, "/a").unwrap();
        assert!(lock.inspector().contenders().await.unwrap().is_empty());
        let held = lock.acquire().await.unwrap();
        let waiting = waiters(ensemble, &session, 3, 3).await;
        session.create("/a/0", "foreign").await.unwrap();

        let contenders = lock.inspector().contenders().await.unwrap();
        let owners: Vec<_> = contenders
            .iter()
            .skip(1)
            .map(|one| one.owner_text())
            .collect();
        assert_eq!(owners, ["waiter 0", "waiter 1", "waiter 2"]);
        let holder = &contenders[0];
        assert_eq!(Some(holder.name()), held.path().name());
        assert_eq!(holder.fencing_token(), held.fencing_token());
        assert_eq!(holder.session(), Some(session.id()));
        assert!(contenders.is_sorted_by_key(|one| (one.sequence().number(), one.fencing_token())));
        assert!(
            contenders
                .iter()
                .all(|one| one.since().elapsed().is_ok_and(|age| age.as_secs() < 60))
        );
        for one in waiting {
            one.abort();
        }
        held.release().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_waiters_are_granted_in_order_of_arrival() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let lock = FairLock::new(&session, "/a").unwrap();
        let held = lock.acquire().await.unwrap();
        let waiting = waiters(ensemble, &session, 8, 200).await;
        // Two watches each, one for the first, and possibly those of the holder and of the first on their own nodes.
        let server = ensemble.server(1).unwrap();
        eventually("each waiter watches two nodes", async || {
            let wchs = server.wchs().await;
            wchs.is_ok_and(|wchs| (399..=401).contains(&wchs.watches))
        })
        .await;

        let granted: Arc<Mutex<Vec<(usize, FencingToken)>>> = Arc::default();
        let mut last = held.fencing_token();
        held.release().await.unwrap();
        for (at, waiter) in waiting.into_iter().enumerate() {
            let guard = soon("the next one is granted", waiter).await.unwrap();
            // No other waiter was granted the lock: the holder is the first in line.
            assert_eq!(names(&session, "/a").await.len(), 200 - at);
            assert!(guard.fencing_token() > last);
            last = guard.fencing_token();
            granted.lock().unwrap().push((at, last));
            guard.release().await.unwrap();
        }
        assert_eq!(granted.lock().unwrap().len(), 200);
        assert!(names(&session, "/a").await.is_empty());
        eventually("no watch is left", async || {
            server.wchs().await.is_ok_and(|wchs| wchs.watches == 0)
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_give_up_leave_no_node_and_no_watch() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let lock = FairLock::new(&session, "/a").unwrap();
        let held = lock.acquire().await.unwrap();
        let mut waiting = waiters(ensemble, &session, 2, 20).await;
        // Every other one, the first included, so that each of the rest loses its predecessor.
        let mut at = 0;
        waiting.retain(|waiter| {
            at += 1;
            if at % 2 == 1 {
                waiter.abort();
            }
            at % 2 == 0
        });
        until_enlisted(&session, "/a", 11).await;
        held.release().await.unwrap();
        for waiter in waiting {
            let guard = soon("the next one is granted", waiter).await.unwrap();
            guard.release().await.unwrap();
        }
        assert!(names(&session, "/a").await.is_empty());
        let server = ensemble.server(1).unwrap();
        eventually("no watch is left", async || {
            server.wchs().await.is_ok_and(|wchs| wchs.watches == 0)
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_contenders_block_and_foreign_children_do_not() {
    with_ensemble(async |ensemble| {
        let (session, other) = (connect(ensemble).await, connect(ensemble).await);
        for foreign in ["0", "_c_x-lease-0000000000", "readme", "lock-1"] {
            let path = format!("/a/{foreign}");
            session.create(path, "").parents().await.unwrap();
        }
        let lock = FairLock::new(&session, "/a").unwrap();
        for theirs in [
            "d0f5a1d8c1c94d55a1c44f2a1d7c0f6e__lock__",
            "_c_x-lock-",
            "x-72057594037927936-",
        ] {
            let stem = format!("/a/{theirs}");
            let (path, _) = other
                .create(stem, "")
                .ephemeral()
                .sequential()
                .await
                .unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none(), "{path}");
            let waiter = lock.clone();
            let waiting = tokio::spawn(async move { waiter.acquire().await.unwrap() });
            until_enlisted(&session, "/a", 6).await;
            other.delete(path).await.unwrap();
            let guard = soon("the lock is granted", waiting).await.unwrap();
            guard.release().await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_predecessor_gives_up_waits_for_the_holder() {
    with_ensemble(async |ensemble| {
        let (holder, last) = (connect(ensemble).await, connect(ensemble).await);
        let held = FairLock::new(&holder, "/a").unwrap();
        let held = held.acquire().await.unwrap();
        for _ in 0..8 {
            let waiting = waiters(ensemble, &holder, 1, 1).await.remove(0);
            let lock = FairLock::new(&last, "/a").unwrap();
            let behind = tokio::spawn(async move { lock.acquire().await });
            until_enlisted(&holder, "/a", 3).await;
            // Its watches are set when what it sends after them has its reply.
            last.sync("/a").with_quorum().await.unwrap();
            waiting.abort();
            until_enlisted(&holder, "/a", 2).await;
            for _ in 0..3 {
                last.sync("/a").with_quorum().await.unwrap();
            }
            assert!(!behind.is_finished(), "two hold the lock");
            behind.abort();
            until_enlisted(&holder, "/a", 1).await;
        }
        held.release().await.unwrap();
    })
    .await;
}
