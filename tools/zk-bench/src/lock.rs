//! The workloads of locks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;
use zk_lock::{CohortToken, FairLock, FencingToken, Guard, Lock, LockGuard, Waiter};

use crate::cpu::cpu_time;
use crate::fixture::open;
use crate::handover_probe::HandoverProbe;
use crate::round::{Latencies, Round, joined};

/// A lock that is measured.
pub trait MeasuredLock: Clone + Send + Sync + 'static {
    /// The held lock.
    type Guard: Send;

    /// Acquires the lock, and returns its token, which is higher for every later holder; `None` if it has no token.
    fn acquire(&self) -> impl Future<Output = anyhow::Result<(Self::Guard, Option<u64>)>> + Send;

    /// Releases the lock.
    fn release(guard: Self::Guard) -> impl Future<Output = anyhow::Result<()>> + Send;
}

impl<L> MeasuredLock for L
where
    L: Lock<Guard: LockGuard<Token: TokenNumber>> + Clone + 'static,
{
    type Guard = <L as Lock>::Guard;

    async fn acquire(&self) -> anyhow::Result<(Self::Guard, Option<u64>)> {
        let guard = Lock::acquire(self).await.context("cannot acquire")?;
        let number = guard.token().number()?;
        Ok((guard, Some(number)))
    }

    async fn release(guard: Self::Guard) -> anyhow::Result<()> {
        guard.release().await.context("cannot release")
    }
}

/// A token as one number, which is higher for every later holder.
pub trait TokenNumber {
    /// Returns the number.
    ///
    /// # Errors
    ///
    /// If the token does not fit into it.
    fn number(&self) -> anyhow::Result<u64>;
}

impl TokenNumber for FencingToken {
    fn number(&self) -> anyhow::Result<u64> {
        Ok(self.as_u64() << TURN_BITS)
    }
}

impl TokenNumber for CohortToken {
    fn number(&self) -> anyhow::Result<u64> {
        ensure!(
            self.turn() < 1 << TURN_BITS,
            "the turns of {self} need more than {TURN_BITS} bits"
        );
        Ok((self.place_token().as_u64() << TURN_BITS) + self.turn())
    }
}

/// Opens a session with each server, and creates a handle to the lock at `path` on each session.
///
/// # Errors
///
/// Those of the session.
pub async fn handles(servers: Vec<String>, path: String) -> anyhow::Result<Vec<FairLock>> {
    let mut handles = Vec::with_capacity(servers.len());
    for server in servers {
        handles.push(FairLock::new(&open(&server).await?, path.as_str())?);
    }
    Ok(handles)
}

/// Acquires and releases `operations` times in sequence; a latency covers both.
///
/// # Errors
///
/// Those of the lock.
pub async fn acquire_release<L: MeasuredLock>(lock: L, operations: u64) -> anyhow::Result<Round> {
    let mut latencies = Latencies::default();
    let (started, cpu) = (Instant::now(), cpu_time());
    for _ in 0..operations {
        let begun = Instant::now();
        L::release(lock.acquire().await?.0).await?;
        latencies.record(begun.elapsed());
    }
    let round = Round::new(started.elapsed(), latencies).of(operations);
    Ok(round.with_cpu_since(cpu, operations))
}

/// Lets all contenders acquire and immediately release until `hand_overs` is reached.
///
/// A latency is the time from directly before a release until the next acquire has returned.
///
/// # Errors
///
/// Those of the lock; also if two contenders held it at once, or a token did not grow.
pub async fn contend<L: MeasuredLock>(locks: Vec<L>, hand_overs: u64) -> anyhow::Result<Round> {
    contend_with(locks, None, hand_overs).await
}

/// Lets contenders contend, and another session all the time as well. [`Round::others`] is how long its acquires took.
///
/// # Errors
///
/// Those of [`contend`].
pub async fn contend_with<L: MeasuredLock>(
    locks: Vec<L>,
    other: Option<FairLock>,
    hand_overs: u64,
) -> anyhow::Result<Round> {
    let contenders = locks.len();
    let probe = Arc::new(HandoverProbe::new(
        HandoverProbe::warm_up(contenders),
        hand_overs,
    ));
    let cpu = cpu_time();
    let mut tasks = JoinSet::new();
    for (holder, lock) in locks.into_iter().enumerate() {
        tasks.spawn(take_turns(lock, holder, Arc::clone(&probe)));
    }
    let mut others = JoinSet::new();
    if let Some(other) = other {
        others.spawn(wait_outside(other, contenders, Arc::clone(&probe)));
    }
    let (latencies, waits) = (joined(tasks).await?, joined(others).await?);
    let acquisitions = probe.acquisitions();
    let round = Round::new(probe.elapsed(), latencies).of(acquisitions);
    let mut round = round.with_cpu_since(cpu, acquisitions);
    round.others = waits;
    Ok(round)
}

async fn take_turns<L: MeasuredLock>(
    lock: L,
    holder: usize,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while !probe.is_done() {
        let (guard, token) = lock.acquire().await?;
        // The number of acquisitions replaces a missing token.
        let token = token.unwrap_or_else(|| probe.acquisitions() + 1);
        if let Some(took) = probe.acquired(holder, token)? {
            latencies.record(took);
        }
        probe.begin_release(holder)?;
        L::release(guard).await?;
    }
    Ok(latencies)
}

/// Lets all contenders yield the lock to each other until `hand_overs` is reached; all are in the queue before the first
/// turn.
///
/// A latency is the time from directly before a yield until the next contender is granted the lock.
///
/// # Errors
///
/// Those of the lock; also if two contenders held it at once, or a token did not grow.
pub async fn contend_yielding(locks: Vec<FairLock>, hand_overs: u64) -> anyhow::Result<Round> {
    let warm_up = HandoverProbe::warm_up(locks.len());
    let probe = Arc::new(HandoverProbe::new(warm_up, hand_overs));
    let mut waiters = Vec::with_capacity(locks.len());
    for lock in locks {
        waiters.push(lock.enlist().await?);
    }
    let cpu = cpu_time();
    let mut tasks = JoinSet::new();
    for (holder, waiter) in waiters.into_iter().enumerate() {
        tasks.spawn(yield_turns(waiter, holder, Arc::clone(&probe)));
    }
    let latencies = joined(tasks).await?;
    let acquisitions = probe.acquisitions();
    let round = Round::new(probe.elapsed(), latencies).of(acquisitions);
    Ok(round.with_cpu_since(cpu, acquisitions))
}

async fn yield_turns(
    waiter: Waiter,
    holder: usize,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut guard = waiter.granted().await.context("cannot acquire")?;
    loop {
        if let Some(took) = probe.acquired(holder, guard.fencing_token().number()?)? {
            latencies.record(took);
        }
        probe.begin_release(holder)?;
        if probe.is_done() {
            guard.release().await.context("cannot release")?;
            return Ok(latencies);
        }
        guard = guard.yield_now().await.context("cannot yield")?;
    }
}

/// Takes turns, and measures how long each acquire takes.
async fn wait_outside(
    lock: FairLock,
    holder: usize,
    probe: Arc<HandoverProbe>,
) -> anyhow::Result<Latencies> {
    let mut waits = Latencies::default();
    while !probe.is_done() {
        let begun = Instant::now();
        let (guard, token) = MeasuredLock::acquire(&lock).await?;
        waits.record(begun.elapsed());
        probe.acquired(holder, token.context("a fair lock has a token")?)?;
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
