//! Locks on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_lock::{FairLock, Guard};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, polled, soon};
use zk_testkit::sim::{children, ephemerals};

mod again;
mod cancellation;
mod chaos;
mod cohort;
mod cost;
mod counter;
mod dropped;
mod ended;
mod events;
mod faults;
mod inspect;
mod kinds;
mod layout;
mod look_ahead;
mod loss;
#[cfg(feature = "metrics")]
mod metrics;
mod multi;
mod one_shot_lease;
mod race;
mod reentrant;
mod revoke;
mod runtimes;
mod rw;
mod semaphore;
#[path = "../shared/again.rs"]
mod shared_again;
mod uncontended;
mod waiter;
mod yielding;

/// The path of the lock of the tests.
const PATH: &str = "/locks/a";
/// Our nodes there.
const OURS: &str = "/locks/a/*-lock-**";

fn lock(session: &Session) -> FairLock {
    FairLock::new(session, PATH).expect("a good path")
}

/// The children of the path of the lock, on the leader.
fn left(ensemble: &Ensemble) -> Vec<String> {
    children(ensemble, PATH)
}

/// Acquires the lock with one session and lets another one wait for it.
async fn held_and_waited_for(
    holder: &Session,
    waiter: &Session,
) -> (
    Guard,
    tokio::task::JoinHandle<Result<Guard, zk_lock::AcquireError>>,
) {
    let guard = soon("the lock is free", lock(holder).acquire())
        .await
        .expect("the lock is granted");
    let second = lock(waiter);
    let waiting = tokio::spawn(async move { second.acquire().await });
    pass(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    (guard, waiting)
}
