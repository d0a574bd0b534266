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

use crate::baton::Baton;
use crate::round::Latencies;
use crate::round::Round;
use crate::round::joined;
use crate::wire::SESSION_TIMEOUT;

/// Opens a session with each of the servers, and makes a handle to the lock at `path` on each of them.
///
/// # Errors
///
/// Those of the session.
///
/// # Cancel safety
///
/// A session may be left that the server expires.
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

/// Acquires and releases, so often, one after the other; a latency is that of both together.
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

/// Has all of them acquire and release, holding for no time, until there were so many hand-overs.
///
/// A latency is that from just before a release until the next acquire has returned.
///
/// # Errors
///
/// Those of the lock; and that two held it at once, or a fencing token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn contend(locks: Vec<FairLock>, hand_overs: u64) -> anyhow::Result<Round> {
    let baton = Arc::new(Baton::new(Baton::warm_up(locks.len()), hand_overs));
    let mut tasks = JoinSet::new();
    for (holder, lock) in locks.into_iter().enumerate() {
        tasks.spawn(compete(lock, holder, Arc::clone(&baton)));
    }
    let latencies = joined(tasks).await?;
    Ok(Round::new(baton.elapsed(), latencies).of(baton.takes()))
}

async fn compete(lock: FairLock, holder: usize, baton: Arc<Baton>) -> anyhow::Result<Latencies> {
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

/// Has so many tasks of one process share a place in the queue, until there were so many hand-overs among them.
///
/// With a `stranger`, a session of its own acquires and releases all the time meanwhile; the second answer is how long
/// its acquires took.
///
/// # Errors
///
/// Those of the lock; and that two held it at once, or a token did not grow.
///
/// # Cancel safety
///
/// The lock is released in the background.
pub async fn crowd(
    lock: CohortLock,
    tasks: usize,
    hand_overs: u64,
    stranger: Option<FairLock>,
) -> anyhow::Result<(Round, Latencies)> {
    let baton = Arc::new(Baton::new(Baton::warm_up(tasks), hand_overs));
    let mut crowd = JoinSet::new();
    for holder in 0..tasks {
        crowd.spawn(share(lock.clone(), holder, Arc::clone(&baton)));
    }
    let mut strangers = JoinSet::new();
    if let Some(stranger) = stranger {
        strangers.spawn(intrude(stranger, tasks, Arc::clone(&baton)));
    }
    let (latencies, waits) = (joined(crowd).await?, joined(strangers).await?);
    let round = Round::new(baton.elapsed(), latencies).of(baton.takes());
    Ok((round, waits))
}

async fn share(lock: CohortLock, holder: usize, baton: Arc<Baton>) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while !baton.is_done() {
        let guard = lock.acquire().await.context("cannot acquire")?;
        let token = guard.token();
        ensure!(token.turn() < 1 << TURN_BITS, "one place had {token} turns");
        let number = (token.place_token().as_u64() << TURN_BITS) + token.turn();
        if let Some(took) = baton.take(holder, number)? {
            latencies.record(took);
        }
        baton.let_go(holder)?;
        guard.release().await.context("cannot release")?;
    }
    Ok(latencies)
}

async fn intrude(lock: FairLock, holder: usize, baton: Arc<Baton>) -> anyhow::Result<Latencies> {
    let mut waits = Latencies::default();
    while !baton.is_done() {
        let begun = Instant::now();
        let guard = lock.acquire().await.context("cannot acquire")?;
        waits.record(begun.elapsed());
        baton.take(holder, guard.fencing_token().as_u64() << TURN_BITS)?;
        baton.let_go(holder)?;
        guard.release().await.context("cannot release")?;
    }
    Ok(waits)
}

/// Hands the lock to and fro between two sessions, of which the other one has settled in the queue before.
///
/// A latency is that from just before the release until the other's acquire has returned; only these times count.
///
/// # Errors
///
/// Those of the lock; and that the waiter did not queue up, or that a fencing token did not grow.
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

/// Returns once the waiter is in the queue and had the time of some round trips to watch the holder.
///
/// Should it not watch yet, it is granted the lock all the same, and what is measured is longer.
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
            "the waiter did not queue up within {QUEUEING:?}: the lock has {} contenders",
            names.len()
        );
    }
    for _ in 0..ROUND_TRIPS {
        // Carried out behind what the waiter has sent on the same session.
        session.sync(waiter.path().clone()).await?;
    }
    Ok(())
}

/// A cohort's token as one number has so many bits for the turn.
const TURN_BITS: u32 = 24;

/// How long queueing up may take.
const QUEUEING: Duration = Duration::from_secs(10);

/// The waiter needs one, for its watch.
const ROUND_TRIPS: u32 = 3;
