//! The workload of the lock without a queue.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinSet;
use zk_lock::FairLock;
use zk_lock::RaceLock;

use crate::baton::Baton;
use crate::round::Latencies;
use crate::round::Round;
use crate::round::joined;

/// Makes a handle to the race lock at `path` for the session of each of the fair locks.
///
/// # Errors
///
/// When `path` is none.
pub fn handles(locks: &[FairLock], path: &str) -> anyhow::Result<Vec<RaceLock>> {
    let handles = locks.iter().map(|lock| RaceLock::new(lock.session(), path));
    Ok(handles.collect::<Result<_, _>>()?)
}

/// As [`lock::contend`](crate::lock::contend): all of them acquire and release until there were so many hand-overs.
///
/// # Errors
///
/// Those of the lock; and that two held it at once, or a fencing token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn contend(locks: Vec<RaceLock>, hand_overs: u64) -> anyhow::Result<Round> {
    let baton = Arc::new(Baton::new(Baton::warm_up(locks.len()), hand_overs));
    let mut tasks = JoinSet::new();
    for (holder, lock) in locks.into_iter().enumerate() {
        tasks.spawn(compete(lock, holder, Arc::clone(&baton)));
    }
    let latencies = joined(tasks).await?;
    Ok(Round::new(baton.elapsed(), latencies))
}

async fn compete(lock: RaceLock, holder: usize, baton: Arc<Baton>) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while !baton.is_done() {
        let guard = lock.acquire().await.context("cannot acquire")?;
        if let Some(took) = baton.take(holder, guard.fencing_token().as_u64())? {
            latencies.record(took);
        }
        baton.let_go(holder)?;
        guard.release().await.context("cannot release")?;
    }
    Ok(latencies)
}
