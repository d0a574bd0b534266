//! Futures dropped at every await. That is Curator's `testInterruptAcquire`, at each of its steps.

use std::time::Duration;

use zk_core::Session;

use super::semaphore;
use crate::dropped;

/// Drops `act` at every await, while another client holds leases for `held`: two of three, or all.
async fn dropped_everywhere(held: Option<Duration>, all: bool, act: impl AsyncFn(Session)) {
    let hold = async |session: Session| {
        let count = if all { 3 } else { 2 };
        semaphore(&session, 3)
            .with_count(count)
            .acquire()
            .await
            .unwrap()
    };
    dropped::everywhere(held, hold, act).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_at_any_await_leaves_nothing() {
    let act = async |session| {
        drop(
            semaphore(&session, 3)
                .with_count(3)
                .acquire()
                .await
                .unwrap(),
        );
    };
    dropped_everywhere(None, true, act).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_waiter_dropped_at_any_await_leaves_nothing() {
    let held = Some(Duration::from_millis(200));
    let act = async |session| {
        drop(
            semaphore(&session, 3)
                .with_count(2)
                .acquire()
                .await
                .unwrap(),
        );
    };
    dropped_everywhere(held, false, act).await;
}

#[tokio::test(start_paused = true)]
async fn a_first_waiter_that_proves_its_session_leaves_nothing() {
    // Longer than the proof of an idle session lasts.
    let held = Some(Duration::from_secs(30));
    let act = async |session| drop(semaphore(&session, 3).acquire().await.unwrap());
    dropped_everywhere(held, true, act).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_dropped_at_any_await_leaves_nothing() {
    for all in [false, true] {
        let held = Some(Duration::from_secs(1));
        let act = async |session| drop(semaphore(&session, 3).try_acquire().await);
        dropped_everywhere(held, all, act).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_wait_dropped_at_any_await_leaves_nothing() {
    let held = Some(Duration::from_secs(1));
    let limit = Duration::from_millis(100);
    let act = async |session| drop(semaphore(&session, 3).acquire_timeout(limit).await);
    dropped_everywhere(held, true, act).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_dropped_at_any_await_continues() {
    let act = async |session| {
        let leases = semaphore(&session, 3)
            .with_count(3)
            .acquire()
            .await
            .unwrap();
        leases.release().await.unwrap();
    };
    dropped_everywhere(None, true, act).await;
}
