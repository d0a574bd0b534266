//! The end of the numbers that a server gives to contenders.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use zk_lock::{AcquireError, FairLock};

use super::{SOON, until_empty, until_enlisted};
use crate::counters::{connect, near_the_end};

#[tokio::test(flavor = "multi_thread")]
async fn near_the_end_of_the_numbers_nobody_is_granted_the_lock_until_its_node_is_made_anew() {
    // The server gives all contenders the last number from the second one on.
    let ensemble = near_the_end(&[("/end", i32::MAX - 1), ("/near", i32::MAX - 1025)]).await;
    let session = connect(&ensemble).await;
    let (mut crowd, holding) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..8 {
        let lock = FairLock::new(&connect(&ensemble).await, "/end").unwrap();
        let holding = Arc::clone(&holding);
        crowd.spawn(async move {
            let acquired = lock.acquire().await;
            assert_eq!(
                holding.fetch_add(usize::from(acquired.is_ok()), Ordering::SeqCst),
                0
            );
            (lock, acquired)
        });
    }
    let crowd = tokio::time::timeout(SOON, crowd.join_all()).await;
    let mut locks = Vec::new();
    for (lock, acquired) in crowd.expect("all contenders finish in time") {
        let Err(AcquireError::SequenceExhausted(exhausted)) = acquired else {
            panic!("{acquired:?}");
        };
        assert_eq!(exhausted.path().as_str(), "/end");
        let number = exhausted.sequence().unwrap().number();
        // Creates that are in flight at once may get numbers that have wrapped.
        assert!(!(0..i32::MAX - 1).contains(&number), "{exhausted}");
        locks.push(lock);
    }
    until_empty(&session, "/end").await;
    // As the message says.
    session.delete("/end").await.unwrap();
    for lock in &locks {
        let guard = lock.acquire().await.unwrap();
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }

    // The last two numbers that count: those who have them keep their places, and the third one is refused.
    let lock = FairLock::new(&session, "/near").unwrap();
    let held = lock.acquire().await.unwrap();
    let waiter = FairLock::new(locks[0].session(), "/near").unwrap();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    until_enlisted(&session, "/near", 2).await;
    let error = lock.acquire().await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::SequenceExhausted(_)),
        "{error:?}"
    );
    until_enlisted(&session, "/near", 2).await;
    let before = held.fencing_token();
    held.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting)
        .await
        .expect("it is next");
    next.unwrap().unwrap().release().await.unwrap();
    session.delete("/near").await.unwrap();
    let after = lock.acquire().await.unwrap();
    assert!(
        after.path().as_str().ends_with("-lock-0000000000"),
        "{after:?}"
    );
    assert!(after.fencing_token() > before);
    after.release().await.unwrap();
    ensemble.down().await.unwrap();
}
