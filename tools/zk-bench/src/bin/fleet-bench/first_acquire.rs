//! Measures the first acquire of a session that was idle, next to an acquire of a session that was not.

use std::time::{Duration, Instant};

use zk_bench::Spread;
use zk_lock::FairLock;

use crate::counters::pass;
use crate::fleets;

/// The medians over all sessions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FirstAcquire {
    /// The idleness before the first acquire.
    pub(crate) idleness: Duration,
    /// The time of the first acquire, in milliseconds.
    pub(crate) first_millis: f64,
    /// The time of an acquire directly after another one, in milliseconds.
    pub(crate) warm_millis: f64,
}

/// Measures sessions of which each has a lock of its own.
pub(crate) async fn measure(connect: &str, idleness: Duration) -> anyhow::Result<FirstAcquire> {
    let sessions = fleets::sessions(&[connect.to_owned()], SESSIONS).await?;
    let locks = sessions.iter().enumerate();
    let locks = locks.map(|(at, session)| FairLock::new(session, format!("/first/{at}")));
    let locks: Vec<_> = locks.collect::<Result<_, _>>()?;
    let mut warm = Vec::new();
    // One lock after the other, so that no acquire waits for the CPU that another one uses.
    for lock in &locks {
        for _ in 0..WARM_UP {
            acquire_millis(lock).await?;
        }
        warm.push(acquire_millis(lock).await?);
    }
    pass(idleness).await;
    let mut first = Vec::new();
    for lock in &locks {
        first.push(acquire_millis(lock).await?);
    }
    fleets::close(sessions).await?;
    Ok(FirstAcquire {
        idleness,
        first_millis: Spread::of(first).median,
        warm_millis: Spread::of(warm).median,
    })
}

/// Acquires and releases; returns the time of the acquire.
async fn acquire_millis(lock: &FairLock) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let guard = lock.acquire().await?;
    let took = begun.elapsed();
    guard.release().await?;
    Ok(took.as_secs_f64() * 1e3)
}

/// The number of sessions.
pub(crate) const SESSIONS: u32 = 30;

/// Acquires before the measured warm one.
const WARM_UP: u32 = 5;
