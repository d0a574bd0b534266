//! Attempts right after a guard or a waiter of the same session was dropped.

use std::time::Duration;

use zk_sim::{DropFault, Ensemble, matching};

use crate::shared_again::{after_a_cancelled_acquire, after_a_drop, after_a_timeout};
use crate::{PATH, lock};

#[tokio::test(start_paused = true)]
async fn a_try_right_behind_a_dropped_guard_finds_the_lock_free() {
    let ensemble = Ensemble::new(3);
    after_a_drop(&ensemble.connect().server(2).await, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_right_behind_a_waiter_that_timed_out_finds_it_free() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (
        ensemble.connect().server(2).await,
        ensemble.connect().server(3).await,
    );
    after_a_timeout(&one, &other, Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_timed_out_is_out_of_the_queue_at_once() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    let held = lock(&other).acquire().await.unwrap();
    let limit = Duration::from_secs(1);
    lock(&one).acquire_timeout(limit).await.unwrap_err();
    // The next request of this session finds only the holder.
    let (names, _) = one.list(PATH).await.unwrap();
    assert_eq!(names, [held.path().name().unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn a_try_right_behind_a_cancelled_acquire_finds_it_free() {
    for drop_fault in DropFault::ALL {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().server(1).await;
        after_a_cancelled_acquire(&session, || drop_fault.inject(&ensemble, session.id())).await;
    }
}

/// The drop sends the deletion of the node; the clean-up sends no other one.
#[tokio::test(start_paused = true)]
async fn a_drop_costs_one_request() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let guard = lock(&session).acquire().await.unwrap();
    drop(guard);
    assert_eq!(session.counters().unsettled, 1);
    let path = guard_path();
    assert!(!session.is_settled_at(&path));
    session.settled_at(&path).await;
    assert!(session.is_settled_at(&path));
    assert_eq!(ensemble.arrived(matching::deletes("/locks/a/*")), 1);
    assert_eq!(session.counters().unsettled, 0);
}

fn guard_path() -> zk_core::NodePath {
    zk_core::NodePath::parse(PATH).unwrap()
}
