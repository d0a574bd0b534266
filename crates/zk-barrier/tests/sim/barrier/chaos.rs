//! Random faults of all kinds, by seed: what a call returns was so at some moment of the call.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_core::ErrorClass;
use zk_sim::wait::{pass, soon};
use zk_sim::{Chaos, Check, Disturbance, Ensemble};

use super::barrier;
use crate::PATH;

/// The barrier as the ensemble has it. If it is equal at two times, it was not set or removed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BarrierState {
    is_set: bool,
    /// The last transaction that set or removed it.
    changed: i64,
}

/// What the result of a call says of the barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// The call has set it.
    SetNow,
    WasSet,
    WasNotSet,
}

impl BarrierState {
    fn of(ensemble: &Ensemble) -> Self {
        let tree = ensemble.tree();
        let parent = tree.node(PARENT).expect("no client removes it");
        Self {
            is_set: tree.node(PATH).is_some(),
            changed: parent.stat().pzxid,
        }
    }

    /// Checks the claim of a call that lasted from this state to `after`.
    fn check(self, after: Self, claim: Claim) {
        let holds = match claim {
            _ if self != after => true,
            Claim::SetNow => false,
            Claim::WasSet => self.is_set,
            Claim::WasNotSet => !self.is_set,
        };
        assert!(
            holds,
            "a call returned {claim:?}, and it was always {self:?}"
        );
    }
}

/// Sets and removes the barrier, reads it and waits for it, for as long as the faults last. Some calls are dropped.
async fn use_barrier(ensemble: Ensemble, mut draw: fastrand::Rng) {
    while ensemble.now() < LASTING {
        let session = ensemble.connect().await;
        let barrier = barrier(&session);
        while !session.state().is_lost() && ensemble.now() < LASTING {
            pass(Duration::from_millis(draw.u64(..2_000))).await;
            let limit = Duration::from_millis(draw.u64(..5_000));
            let before = BarrierState::of(&ensemble);
            let claim = match draw.u8(..7) {
                0..3 => match timeout(limit, barrier.set()).await {
                    Ok(Ok(true)) => Some(Claim::SetNow),
                    Ok(Ok(false)) => Some(Claim::WasSet),
                    _ => None,
                },
                3 | 4 => match timeout(limit, barrier.remove()).await {
                    Ok(Ok(_)) => Some(Claim::WasNotSet),
                    _ => None,
                },
                5 => match timeout(limit, barrier.is_set()).await {
                    Ok(Ok(true)) => Some(Claim::WasSet),
                    Ok(Ok(false)) => Some(Claim::WasNotSet),
                    _ => None,
                },
                _ => match timeout(limit, barrier.wait()).await {
                    Ok(Ok(())) => Some(Claim::WasNotSet),
                    _ => None,
                },
            };
            if let Some(claim) = claim {
                before.check(BarrierState::of(&ensemble), claim);
            }
        }
    }
}

/// Waits again and again, with one session after the other, until it passes when all is over; returns how often it had to
/// wait and passed.
async fn wait_again(ensemble: Ensemble, is_over: Arc<AtomicBool>, mut draw: fastrand::Rng) -> u32 {
    let mut passed = 0;
    loop {
        let session = ensemble.connect().await;
        let barrier = barrier(&session);
        loop {
            let before = BarrierState::of(&ensemble);
            let waited = if draw.bool() {
                barrier.wait().await
            } else {
                let limit = Duration::from_millis(draw.u64(..20_000));
                barrier.wait_timeout(limit).await
            };
            match waited {
                Ok(()) => {
                    let after = BarrierState::of(&ensemble);
                    before.check(after, Claim::WasNotSet);
                    passed += u32::from(before.is_set);
                    if is_over.load(Ordering::Relaxed) {
                        return passed;
                    }
                }
                Err(error) if error.class() == ErrorClass::Fatal => break,
                Err(_) => {}
            }
            pass(Duration::from_millis(draw.u64(..500))).await;
        }
    }
}

async fn run(ensemble: Ensemble, seed: u64) -> u32 {
    let mut draw = fastrand::Rng::with_seed(seed);
    let operator = ensemble.connect().await;
    operator.create(PARENT, "").await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut waiters = JoinSet::new();
    let mut users = JoinSet::new();
    for _ in 0..3 {
        let is_over = Arc::clone(&is_over);
        waiters.spawn(wait_again(ensemble.clone(), is_over, draw.fork()));
        users.spawn(use_barrier(ensemble.clone(), draw.fork()));
    }
    let chaos = Chaos::default()
        .lasting(LASTING)
        .every(Duration::from_millis(500))
        .weight(Disturbance::Expire, 2);
    chaos.run(&ensemble).await;
    soon("no call lasts for ever", users.join_all()).await;
    // Requests of calls that were dropped may still set it.
    pass(Duration::from_secs(60)).await;
    let operator = ensemble.connect().await;
    barrier(&operator).remove().await.unwrap();
    is_over.store(true, Ordering::Relaxed);
    let passed = soon("each waiter passes", waiters.join_all()).await;
    pass(Duration::from_secs(60)).await;
    assert_eq!(ensemble.watch_count(), 0);
    passed.into_iter().sum()
}

#[test]
fn no_call_returns_what_was_not_so_whatever_happens() {
    let passed = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| passed.set(passed.get() + run(ensemble, seed).await));
    println!("{} waits ended in {checked}", passed.get());
    assert!(
        checked.seeds == 1 || passed.get() as usize > checked.seeds * 4,
        "{} waits prove nothing",
        passed.get()
    );
}

const PARENT: &str = "/barriers";
const SEEDS: u64 = 100;
const LASTING: Duration = Duration::from_secs(60);
