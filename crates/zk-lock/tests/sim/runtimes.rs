//! Locks that are used on another runtime than that of their session.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zk_lock::{CohortLimits, CohortLock, LockLoss, LockOptions};
use zk_sim::Ensemble;

use crate::{PATH, lock, soon};

fn another() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs a future on a new runtime in a new thread, and returns the runtime, which is not polled any more.
async fn elsewhere<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> (T, Runtime) {
    let running = tokio::task::spawn_blocking(|| {
        let runtime = another();
        let output = runtime.block_on(work);
        (output, runtime)
    });
    soon("the other runtime is done", running).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cohort_survives_the_end_of_its_first_runtime() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    // Each handover goes through the ensemble.
    let limits = CohortLimits::default().with_handovers(0);
    for ends in [true, false] {
        let lock =
            CohortLock::with_options(&session, PATH, LockOptions::default(), limits).unwrap();
        let first = lock.clone();
        let (guard, runtime) = elsewhere(async move { first.acquire().await.unwrap() }).await;
        let second = lock.clone();
        let waiting = tokio::spawn(async move { second.acquire().await });
        while lock.try_acquire().await.unwrap().is_some() || !waiting_is_known(&lock).await {}
        let kept = if ends {
            runtime.shutdown_background();
            None
        } else {
            Some(runtime)
        };
        drop(guard);
        let granted = soon("the second task gets the lock", waiting).await;
        drop(granted.unwrap().expect("the session lives"));
        if let Some(runtime) = kept {
            runtime.shutdown_background();
        }
    }
}

/// Whether a task waits behind the holder: the next one counts two ahead.
async fn waiting_is_known(lock: &CohortLock) -> bool {
    let error = lock.acquire_timeout(Duration::from_millis(1)).await;
    match error.unwrap_err() {
        zk_lock::AcquireError::TimedOut(timed_out) => {
            timed_out.ahead().is_some_and(|ahead| ahead.count() >= 2)
        }
        error => panic!("{error}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_notices_its_loss_after_its_runtime_has_ended() {
    let ensemble = Ensemble::new(1);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let theirs = lock(&session);
    let (guard, runtime) = elsewhere(async move { theirs.acquire().await.unwrap() }).await;
    runtime.shutdown_background();
    other.delete(guard.path()).await.unwrap();
    let loss = soon("it is notified", guard.lost()).await;
    assert_eq!(loss, LockLoss::NodeDeleted);
}
