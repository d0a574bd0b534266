//! The workloads of the lock.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::ensure;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_lock::CohortLock;
use zk_lock::FairLock;
use zk_lock::Guard;

use crate::baseline::SESSION_TIMEOUT;
use crate::handover_probe::HandoverProbe;
use crate::round::Latencies;
use crate::round::Round;
use crate::round::joined;

/// Opens a session with each server, and creates a handle to the lock at `path` on each session.
///
/// # Errors
///
/// Those of the session.
///
/// # Cancel safety
///
/// Some sessions may stay open until the server expires them.
pub async fn handles(servers: Vec<String>, path: String) -> anyhow::Result<Vec<FairLock>> {
    let mut handles = Vec::with_capacity(servers.len());
    for server in servers {
        let session = Session::builder(server)
            .session_timeout(SESSION_TIMEOUT)
            .connect()
            .await?;
        handles.push(FairLock::new(&session, path.as_str())?);
    }
    Ok(handles)
}

/// Acquires and releases `operations` times in sequence; a latency covers both.
///
/// # Errors
///
/// Those of the lock.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn acquire_release(lock: FairLock, operations: u64) -> anyhow::Result<Round> {
    let mut latencies = Latencies::default();
    let started = Instant::now();
    for _ in 0..operations {
        let begun = Instant::now();
        lock.acquire().await?.release().await?;
        latencies.record(begun.elapsed());
    }
    Ok(Round::new(started.elapsed(), latencies).of(operations))
}

/// Lets all sessions acquire and immediately release until `hand_overs` is reached.
///
/// A latency is the time from directly before a release until the next acquire has returned.
///
/// # Errors
///
/// Those of the lock; also if two sessions held it at once, or a fencing token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn contend(locks: Vec<FairLock>, hand_overs: u64) -> anyhow::Result<Round> {
    let probe = Arc::new(HandoverProbe::new(
        HandoverProbe::warm_up(locks.len()),
        hand_overs,
    ));
    let mut tasks = JoinSet::new();
    for (holder, lock) in locks.into_iter().enumerate() {
        tasks.spawn(compete(lock, holder, Arc::clone(&probe)));
    }
    let latencies = joined(tasks).await?;
    Ok(Round::new(probe.elapsed(), latencies).of(probe.acquisitions()))
}

async fn compete(
    lock: FairLock,
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

/// Lets tasks of one process share one contender until `hand_overs` is reached.
///
/// With `other`, another session acquires and releases all the time; the second returned value is how long its acquires
/// took.
///
/// # Errors
///
/// Those of the lock; also if two tasks held it at once, or a token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn cohort(
    lock: CohortLock,
    tasks: usize,
    hand_overs: u64,
    other: Option<FairLock>,
) -> anyhow::Result<(Round, Latencies)> {
    let probe = Arc::new(HandoverProbe::new(
        HandoverProbe::warm_up(tasks),
        hand_overs,
    ));
    let mut local = JoinSet::new();
    for holder in 0..tasks {
        local.spawn(contend_in_cohort(lock.clone(), holder, Arc::clone(&probe)));
    }
    let mut others = JoinSet::new();
    if let Some(other) = other {
        others.spawn(contend_from_outside(other, tasks, Arc::clone(&probe)));
    }
    let (latencies, waits) = (joined(local).await?, joined(others).await?);
    let round = Round::new(probe.elapsed(), latencies).of(probe.acquisitions());
    Ok((round, waits))
}

async fn contend_in_cohort(
    lock: CohortLock,
    holder: usize,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while !probe.is_done() {
        let guard = lock.acquire().await.context("cannot acquire")?;
        let token = guard.token();
        ensure!(
            token.turn() < 1 << TURN_BITS,
            "the turns of {token} need more than {TURN_BITS} bits"
        );
        let number = (token.place_token().as_u64() << TURN_BITS) + token.turn();
        if let Some(took) = probe.acquired(holder, number)? {
            latencies.record(took);
        }
        probe.begin_release(holder)?;
        guard.release().await.context("cannot release")?;
    }
    Ok(latencies)
}

async fn contend_from_outside(
    lock: FairLock,
    holder: usize,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut waits = Latencies::default();
    while !probe.is_done() {
        let begun = Instant::now();
        let guard = lock.acquire().await.context("cannot acquire")?;
        waits.record(begun.elapsed());
        probe.acquired(holder, guard.fencing_token().as_u64() << TURN_BITS)?;
        probe.begin_release(holder)?;
        guard.release().await.context("cannot release")?;
    }
    Ok(waits)
}

/// Passes the lock back and forth between two sessions; the other session is always in the queue before the release.
///
/// A latency is the time from directly before the release until the other session's acquire has returned. Only these
/// times count.
///
/// # Errors
///
/// Those of the lock; also if the waiter did not join the queue, or a fencing token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn hand_over(locks: [FairLock; 2], hand_overs: u64) -> anyhow::Result<Round> {
    let mut latencies = Latencies::default();
    let mut elapsed = Duration::ZERO;
    let mut turns = locks.iter().cycle().skip(1);
    let mut guard = locks[0].acquire().await?;
    for waiter in turns.by_ref().take(usize::try_from(hand_overs)?) {
        let waiting = waiter.clone();
        let acquiring = tokio::spawn(async move {
            let guard = waiting.acquire().await?;
            anyhow::Ok((guard, Instant::now()))
        });
        settled(waiter).await?;
        ensure!(
            !acquiring.is_finished(),
            "the lock is broken: it was acquired before it was released"
        );
        let token = guard.fencing_token();
        let begun = Instant::now();
        let (released, acquired): (_, Result<anyhow::Result<(Guard, Instant)>, _>) =
            tokio::join!(guard.release(), acquiring);
        let (next, at) = acquired??;
        released?;
        ensure!(
            next.fencing_token() > token,
            "the lock is broken: the fencing token {} came after {token}",
            next.fencing_token()
        );
        let took = at.saturating_duration_since(begun);
        latencies.record(took);
        elapsed += took;
        guard = next;
    }
    guard.release().await?;
    Ok(Round::new(elapsed, latencies))
}

/// Waits until the waiter is in the queue, and for some more round trips, in which it watches the holder.
///
/// A waiter that does not watch yet still acquires the lock; the measured time is longer then.
async fn settled(waiter: &FairLock) -> anyhow::Result<()> {
    let session = waiter.session();
    let deadline = Instant::now() + QUEUEING;
    loop {
        let (names, _) = session.list(waiter.path().clone()).await?;
        if names.len() == 2 {
            break;
        }
        ensure!(
            Instant::now() < deadline,
            "the waiter did not join the queue within {QUEUEING:?}: the lock has {} contenders",
            names.len()
        );
    }
    for _ in 0..ROUND_TRIPS {
        // The server executes it after what the waiter has sent on the same session.
        session.sync(waiter.path().clone()).await?;
    }
    Ok(())
}

/// The number of bits for the turn in a cohort's token as one number.
const TURN_BITS: u32 = 24;

/// The time limit for joining the queue.
const QUEUEING: Duration = Duration::from_secs(10);

/// The waiter needs one round trip for its watch.
const ROUND_TRIPS: u32 = 3;
