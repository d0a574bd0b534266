//! Waiters: places in the queue before the lock is granted.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_lock::AcquireError;
use zk_sim::Ensemble;

use crate::{left, lock, pass, soon};

#[tokio::test(start_paused = true)]
async fn a_guard_has_the_node_and_token_of_its_waiter() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let guard = lock(&one).acquire().await.unwrap();
    let waiter = lock(&other).enlist().await.unwrap();
    assert!(waiter.fencing_token() > guard.fencing_token());
    let (path, token) = (waiter.path().clone(), waiter.fencing_token());
    assert!(
        left(&ensemble)
            .iter()
            .any(|name| Some(name.as_str()) == path.name())
    );
    let granted = tokio::spawn(waiter.granted());
    pass(Duration::from_secs(1)).await;
    assert!(!granted.is_finished());
    guard.release().await.unwrap();
    let guard = soon("it is granted", granted).await.unwrap().unwrap();
    assert_eq!((guard.path(), guard.fencing_token()), (&path, token));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_gives_up_its_place() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let waiter = lock(&session).enlist().await.unwrap();
    assert_eq!(left(&ensemble).len(), 1);
    drop(waiter);
    soon("its node is deleted", session.settled()).await;
    assert!(left(&ensemble).is_empty());
    assert_eq!(ensemble.watch_count(), 0);
}

/// The wait itself would notice this only at a wake-up, which does not come.
#[tokio::test(start_paused = true)]
async fn removed_resolves_on_deletion_and_on_session_loss() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let _guard = lock(&one).acquire().await.unwrap();
    // The next in line would find out by itself.
    let _next = lock(&one).enlist().await.unwrap();
    for expires in [false, true] {
        let waiter = lock(&other).enlist().await.unwrap();
        let path = waiter.path().clone();
        let removed = tokio::spawn(waiter.lost());
        let granted = tokio::spawn(waiter.granted());
        one.set(&path, "a word").await.unwrap();
        pass(Duration::from_secs(1)).await;
        assert!(!removed.is_finished());
        if expires {
            ensemble.expire(other.id());
        } else {
            one.delete(&path).await.unwrap();
        }
        let error = soon("it is notified", removed).await.unwrap();
        if expires {
            assert_eq!(error.class(), ErrorClass::Fatal, "{error:?}");
        } else {
            assert!(!granted.is_finished());
            let is_ours = |lost| lost == &path;
            assert!(matches!(&error, AcquireError::NodeDeleted { path } if is_ours(path)));
        }
        granted.abort();
    }
}

/// It was first when it joined, and has not listed the queue since.
#[tokio::test(start_paused = true)]
async fn an_idle_waiter_is_not_granted_the_lock_by_an_old_list() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    // Keeps the session lease valid all the time.
    let _session_lease = one.keep_lease();
    let waiter = lock(&one).enlist().await.unwrap();
    pass(Duration::from_secs(5)).await;
    other.delete(waiter.path().as_str()).await.unwrap();
    let guard = lock(&other).acquire().await.unwrap();
    pass(Duration::from_secs(5)).await;
    let error = soon("it lists again", waiter.granted()).await.unwrap_err();
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
    assert!(guard.is_valid());
}
