//! The workload of the lock without a queue, `RaceLock`.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::task::JoinSet;
use zk_lock::FairLock;
use zk_lock::RaceLock;

use crate::handover_probe::HandoverProbe;
use crate::round::Latencies;
use crate::round::Round;
use crate::round::joined;

/// Creates a handle to the race lock at `path` on the session of each fair lock.
///
/// # Errors
///
/// If `path` is not a valid node path.
pub fn handles(locks: &[FairLock], path: &str) -> anyhow::Result<Vec<RaceLock>> {
    let handles = locks.iter().map(|lock| RaceLock::new(lock.session(), path));
    Ok(handles.collect::<Result<_, _>>()?)
}

/// Lets all sessions acquire and release until `hand_overs` is reached, as [`lock::contend`](crate::lock::contend)
/// does.
///
/// # Errors
///
/// Those of the lock; also if two sessions held it at once, or a fencing token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn contend(locks: Vec<RaceLock>, hand_overs: u64) -> anyhow::Result<Round> {
    let probe = Arc::new(HandoverProbe::new(
        HandoverProbe::warm_up(locks.len()),
        hand_overs,
    ));
    let mut tasks = JoinSet::new();
    for (holder, lock) in locks.into_iter().enumerate() {
        tasks.spawn(compete(lock, holder, Arc::clone(&probe)));
    }
    let latencies = joined(tasks).await?;
    Ok(Round::new(probe.elapsed(), latencies))
}

async fn compete(
    lock: RaceLock,
    holder: usize,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while !probe.is_done() {
        let guard = lock.acquire().await.context("cannot acquire")?;
        if let Some(took) = probe.acquired(holder, guard.fencing_token().as_u64())? {
            latencies.record(took);
        }
        probe.begin_release(holder)?;
        guard.release().await.context("cannot release")?;
    }
    Ok(latencies)
}
