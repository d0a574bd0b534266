//! The read/write lock.

mod cancellation;
mod change;
mod chaos;
mod cost;
mod faults;
mod loss;
mod order;

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_core::Session;
use zk_lock::{AcquireError, ReadGuard, RwLock, WriteGuard};
use zk_sim::Ensemble;

use crate::{PATH, pass, soon};

/// Nodes of readers and of writers at that path.
const READERS: &str = "/locks/a/*-__READ__**";
const WRITERS: &str = "/locks/a/*-__WRIT__**";

fn rw(session: &Session) -> RwLock {
    RwLock::new(session, PATH).expect("a good path")
}

async fn reads(session: &Session) -> ReadGuard {
    let guard = soon("there is no writer", rw(session).reader().acquire()).await;
    guard.expect("the lock is granted")
}

async fn writes(session: &Session) -> WriteGuard {
    let guard = soon("the lock is free", rw(session).writer().acquire()).await;
    guard.expect("the lock is granted")
}

/// A reader that has been in the queue long enough to be granted the lock, if it could be.
async fn reader(session: &Session) -> JoinHandle<Result<ReadGuard, AcquireError>> {
    let lock = rw(session);
    let waiting = tokio::spawn(async move { lock.reader().acquire().await });
    pass(LONG_ENOUGH).await;
    waiting
}

/// A writer in the queue, for as long.
async fn writer(session: &Session) -> JoinHandle<Result<WriteGuard, AcquireError>> {
    let lock = rw(session);
    let waiting = tokio::spawn(async move { lock.writer().acquire().await });
    pass(LONG_ENOUGH).await;
    waiting
}

/// The guard that a waiter is granted soon.
async fn granted<T>(waiting: JoinHandle<Result<T, AcquireError>>) -> T {
    let acquired = soon("its turn comes", waiting).await;
    acquired.expect("it does not panic").expect("it is granted")
}

async fn sessions<const N: usize>(ensemble: &Ensemble) -> [Session; N] {
    let mut all = Vec::new();
    for _ in 0..N {
        all.push(ensemble.connect().await);
    }
    all.try_into().expect("there are as many")
}

const LONG_ENOUGH: Duration = Duration::from_millis(100);
