//! The semaphore: its leases, its limit, and its behaviour under faults.

use std::time::Duration;

use zk_core::Session;
use zk_lock::{AcquireError, Semaphore, SemaphoreLease};
use zk_sim::Ensemble;

use crate::{pass, soon};

mod cancellation;
mod chaos;
mod faults;
mod leases;
mod limit;
mod loss;

const PATH: &str = "/semaphores/a";
const QUEUE: &str = "/semaphores/a/locks";
const LEASES: &str = "/semaphores/a/leases";

type Waiting = tokio::task::JoinHandle<Result<SemaphoreLease, AcquireError>>;

fn semaphore(session: &Session, limit: u32) -> Semaphore {
    Semaphore::new(session, PATH, limit).expect("a good path")
}

/// Acquires leases in a task of its own, which runs until it has to wait.
async fn waiting(session: &Session, limit: u32, count: u32) -> Waiting {
    let semaphore = semaphore(session, limit);
    let waiting = tokio::spawn(async move { semaphore.with_count(count).acquire().await });
    pass(Duration::from_millis(100)).await;
    waiting
}

async fn granted(what: &str, waiting: Waiting) -> SemaphoreLease {
    let lease = soon(what, waiting).await.unwrap().expect(what);
    assert!(lease.is_valid(), "{what}");
    lease
}

/// The number of children of `path` on the leader.
fn count(ensemble: &Ensemble, path: &str) -> usize {
    let tree = ensemble.tree();
    tree.node(path).map_or(0, |node| node.children().count())
}
