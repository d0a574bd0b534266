//! Sessions that are lost in each state, and holders and waiters that are cut off.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_lock::AcquireError;
use zk_lock::AcquireLeaseError;
use zk_lock::LockLoss;
use zk_sim::Ensemble;

use super::LEASES;
use super::QUEUE;
use super::count;
use super::granted;
use super::semaphore;
use super::waiting;
use crate::ephemerals;
use crate::pass;
use crate::soon;

/// TRAPS S4, CURATOR-595: the lease knows when its session is gone, before another one is granted in its place.
// covers: L11 L12
#[tokio::test(start_paused = true)]
async fn a_holder_that_is_cut_off_gives_up_before_its_lease_is_granted_to_another() {
    for held_for in [0, 1, 7] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let held = semaphore(&one, 2).acquire_many(2).await.unwrap();
        let mut next = waiting(&other, 2, 1).await;
        pass(Duration::from_secs(held_for)).await;
        ensemble.session(one.id()).partition();
        tokio::select! {
            biased;
            lease = &mut next => panic!("granted while the first one trusts its lease: {lease:?}"),
            loss = held.lost() => assert_eq!(loss, LockLoss::TrustLapsed),
        }
        assert!(!held.is_trusted() && held.trusted_until().is_some());
        let lease = granted("its session has expired", next).await;
        assert!(!held.is_trusted());
        lease.release().await.unwrap();
    }
}

// covers: L11 L12
#[tokio::test(start_paused = true)]
async fn one_lease_that_is_deleted_is_a_loss_of_all_that_were_acquired_together() {
    let ensemble = Ensemble::new(3);
    let (one, admin) = (ensemble.connect().await, ensemble.connect().await);
    for nth in 0..3 {
        let leases = semaphore(&one, 3).acquire_many(3).await.unwrap();
        let lost = leases.lost();
        pass(Duration::from_millis(100)).await;
        let path = leases.paths().nth(nth).unwrap().clone();
        admin.delete(&path).await.unwrap();
        assert_eq!(soon("it is told", lost).await, LockLoss::NodeDeleted);
        assert!(!leases.is_trusted() && leases.trusted_until().is_none());
        leases.release().await.unwrap_err();
        soon("the others are given back", one.settled()).await;
        assert_eq!(count(&ensemble, LEASES), 0);
    }
}

/// TRAPS S4, kazoo K#429: whoever is first in the queue takes nothing along when it goes.
// covers: L11
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
        let held = semaphore(&sessions[0], 2).acquire_many(2).await.unwrap();
        let mut waiters = vec![
            waiting(&sessions[1], 2, 2).await,
            waiting(&sessions[2], 2, 1).await,
        ];
        let last = waiting(&sessions[3], 2, 2).await;
        ensemble.expire(sessions[state].id());
        if state > 0 {
            let error = soon("it is told", waiters.remove(state - 1)).await;
            let error = error.unwrap().unwrap_err();
            assert!(
                matches!(
                    error,
                    AcquireLeaseError::Acquire(AcquireError::SessionLost { .. })
                ),
                "{error:?}"
            );
            assert_eq!(error.class(), ErrorClass::Fatal);
            assert!(held.is_trusted());
            held.release().await.unwrap();
        } else {
            assert_eq!(soon("it is told", held.lost()).await, LockLoss::SessionLost);
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

/// The nodes that the first waiter has made are deleted: that is no grant, and no wait for ever.
// covers: L11
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lease_was_deleted_is_told() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = semaphore(&one, 2).acquire_many(2).await.unwrap();
    let two = waiting(&other, 2, 2).await;
    let leases = semaphore(&one, 2).leases().await.unwrap();
    assert_eq!(leases.len(), 4);
    let path = format!("{LEASES}/{}", leases[3].name());
    one.delete(path.as_str()).await.unwrap();
    let error = soon("it is told", two).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, AcquireLeaseError::Acquire(AcquireError::NodeLost { path: lost }) if lost.as_str() == path),
        "{error:?}"
    );
    soon("nothing is left", other.settled()).await;
    assert_eq!((count(&ensemble, QUEUE), count(&ensemble, LEASES)), (0, 2));
    held.release().await.unwrap();
}

/// Somebody deletes the node of the first one in the queue: the queue is out of order, the limit is not, and the two who
/// are first do not wait for each other.
// covers: L11
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
    let queue = semaphore(&one, 2).waiters().await.unwrap();
    one.delete(format!("{QUEUE}/{}", queue[0].name()))
        .await
        .unwrap();
    // This one finds nobody there, and makes its nodes as well; the first one is woken by that.
    let second = waiting(&three, 2, 2).await;
    let error = soon("it is told", first).await.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            AcquireLeaseError::Acquire(AcquireError::NodeLost { .. })
        ),
        "{error:?}"
    );
    assert!(!second.is_finished());
    held.release().await.unwrap();
    let lease = granted("the other one goes on", second).await;
    assert_eq!(lease.count(), 2);
}

// covers: L11
#[tokio::test(start_paused = true)]
async fn leases_are_trusted_when_they_are_granted_after_however_long_a_wait() {
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
