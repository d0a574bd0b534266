//! Sessions that are lost in each state, and holders and waiters that are cut off.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_lock::{AcquireError, LockLoss};
use zk_sim::Ensemble;

use super::{LEASES, QUEUE, count, granted, semaphore, waiting};
use crate::{ephemerals, pass, soon};

/// CURATOR-595: the lease notices that its session is gone before another one is granted in its place.
#[tokio::test(start_paused = true)]
async fn a_cut_off_lease_lapses_before_another_is_granted() {
    for held_for in [0, 1, 7] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let held = semaphore(&one, 2).with_count(2).acquire().await.unwrap();
        let mut next = waiting(&other, 2, 1).await;
        pass(Duration::from_secs(held_for)).await;
        ensemble.session(one.id()).partition();
        tokio::select! {
            biased;
            lease = &mut next => panic!("granted while the first one relies on its lease: {lease:?}"),
            loss = held.lost() => assert_eq!(loss, LockLoss::SessionLeaseExpired),
        }
        assert!(!held.is_valid() && held.valid_until().is_some());
        let lease = granted("its session has expired", next).await;
        assert!(!held.is_valid());
        lease.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_a_loss_of_all_acquired_with_it() {
    let ensemble = Ensemble::new(3);
    let (one, admin) = (ensemble.connect().await, ensemble.connect().await);
    for nth in 0..3 {
        let leases = semaphore(&one, 3).with_count(3).acquire().await.unwrap();
        let lost = leases.lost();
        pass(Duration::from_millis(100)).await;
        let path = leases.paths().nth(nth).unwrap().clone();
        admin.delete(&path).await.unwrap();
        assert_eq!(soon("it is notified", lost).await, LockLoss::NodeDeleted);
        assert!(!leases.is_valid() && leases.valid_until().is_none());
        leases.release().await.unwrap_err();
        soon("the others are given back", one.settled()).await;
        assert_eq!(count(&ensemble, LEASES), 0);
    }
}

/// K#429 of kazoo: the first waiter keeps no lease when its session ends.
#[tokio::test(start_paused = true)]
async fn a_session_that_expires_in_any_state_lets_the_others_get_on() {
    // Holding, first in the queue, second in the queue.
    for state in 0..3 {
        let ensemble = Ensemble::new(3);
        let sessions = [
            ensemble.connect().await,
            ensemble.connect().await,
            ensemble.connect().await,
            ensemble.connect().await,
        ];
        let held = semaphore(&sessions[0], 2)
            .with_count(2)
            .acquire()
            .await
            .unwrap();
        let mut waiters = vec![
            waiting(&sessions[1], 2, 2).await,
            waiting(&sessions[2], 2, 1).await,
        ];
        let last = waiting(&sessions[3], 2, 2).await;
        ensemble.expire(sessions[state].id());
        if state > 0 {
            let error = soon("it is notified", waiters.remove(state - 1)).await;
            let error = error.unwrap().unwrap_err();
            assert!(
                matches!(error, AcquireError::SessionLost { .. }),
                "{error:?}"
            );
            assert_eq!(error.class(), ErrorClass::Fatal);
            assert!(held.is_valid());
            held.release().await.unwrap();
        } else {
            assert_eq!(
                soon("it is notified", held.lost()).await,
                LockLoss::SessionLost
            );
            held.release().await.unwrap_err();
        }
        for waiter in waiters {
            let lease = granted("the others get on", waiter).await;
            lease.release().await.unwrap();
        }
        let lease = granted("the last one as well", last).await;
        lease.release().await.unwrap();
        pass(Duration::from_secs(1)).await;
        assert_eq!(ephemerals(&ensemble), [""; 0], "state {state}");
    }
}

/// The lease nodes of the first waiter are deleted: it is not granted, and does not wait forever.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lease_was_deleted_fails() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = semaphore(&one, 2).with_count(2).acquire().await.unwrap();
    let two = waiting(&other, 2, 2).await;
    let leases = semaphore(&one, 2).inspector().contenders().await.unwrap();
    assert_eq!(leases.len(), 4);
    let path = format!("{LEASES}/{}", leases[3].name());
    one.delete(path.as_str()).await.unwrap();
    let error = soon("it is notified", two).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, AcquireError::NodeDeleted { path: lost } if lost.as_str() == path),
        "{error:?}"
    );
    soon("nothing is left", other.settled()).await;
    assert_eq!((count(&ensemble, QUEUE), count(&ensemble, LEASES)), (0, 2));
    held.release().await.unwrap();
}

/// Another client deletes the node of the first waiter: two waiters are first, the limit still holds, and they do not
/// wait for each other.
#[tokio::test(start_paused = true)]
async fn two_who_believe_to_be_first_do_not_wait_for_each_other() {
    let ensemble = Ensemble::new(3);
    let (one, two, three) = (
        ensemble.connect().await,
        ensemble.connect().await,
        ensemble.connect().await,
    );
    let held = semaphore(&one, 2).acquire().await.unwrap();
    let first = waiting(&two, 2, 2).await;
    let queue = semaphore(&one, 2).waiters().contenders().await.unwrap();
    one.delete(format!("{QUEUE}/{}", queue[0].name()))
        .await
        .unwrap();
    // This one finds no other waiter and creates its nodes as well, which wakes the first one.
    let second = waiting(&three, 2, 2).await;
    let error = soon("it is notified", first).await.unwrap().unwrap_err();
    assert!(
        matches!(error, AcquireError::NodeDeleted { .. }),
        "{error:?}"
    );
    assert!(!second.is_finished());
    held.release().await.unwrap();
    let lease = granted("the other one continues", second).await;
    assert_eq!(lease.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn leases_are_valid_when_granted_after_any_wait() {
    for wait in [0, 3, 9, 15, 100] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let held = semaphore(&one, 1).acquire().await.unwrap();
        let next = waiting(&other, 1, 1).await;
        pass(Duration::from_secs(wait)).await;
        held.release().await.unwrap();
        drop(granted(&format!("after {wait} s"), next).await);
    }
}
