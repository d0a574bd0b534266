//! Random faults, by seed.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::{ErrorClass, Session};
use zk_lock::{AcquireError, FencingToken, Guard, YieldError};
use zk_sim::{Chaos, Check, Ensemble};

use crate::{lock, pass};

/// The state that all contenders of a run share.
#[derive(Debug, Default)]
struct Judge {
    held: Vec<Arc<Guard>>,
    /// The highest token that a fenced resource has seen.
    highest: Option<FencingToken>,
    grants: usize,
    /// How often a lock was yielded and granted again.
    exchanges: usize,
}

impl Judge {
    /// A lock was granted: no other guard may be valid.
    fn granted(&mut self, guard: Guard, seed: u64) -> Arc<Guard> {
        assert!(guard.is_valid(), "seed {seed}");
        for other in &self.held {
            assert!(!other.is_valid(), "seed {seed}: {other:?} and {guard:?}");
        }
        assert!(Some(guard.fencing_token()) > self.highest, "seed {seed}");
        self.highest = Some(guard.fencing_token());
        self.grants += 1;
        let guard = Arc::new(guard);
        self.held.push(Arc::clone(&guard));
        guard
    }

    /// The lock was granted again after a yield, or kept with this token.
    fn yielded(&mut self, guard: Guard, kept: FencingToken, seed: u64) -> Arc<Guard> {
        if guard.fencing_token() == kept {
            // No other contender has held it.
            assert_eq!(self.highest, Some(kept), "seed {seed}");
            self.highest = None;
        } else {
            self.exchanges += 1;
        }
        self.granted(guard, seed)
    }

    fn given_up(&mut self, guard: Arc<Guard>) -> Guard {
        self.held.retain(|other| !Arc::ptr_eq(other, &guard));
        Arc::into_inner(guard).expect("only the judge had another one")
    }
}

/// Acquires and releases until `rounds` are over or the session is.
async fn contend(
    session: Session,
    judge: Arc<Mutex<Judge>>,
    yields: bool,
    rounds: usize,
    seed: u64,
    me: u64,
) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(me));
    let lock = lock(&session);
    for _ in 0..rounds {
        let acquired = match random.u8(0..10) {
            0..5 => lock.acquire().await.map(Some),
            5..7 => lock.try_acquire().await,
            7 => {
                let limit = Duration::from_millis(random.u64(0..3000));
                lock.acquire_timeout(limit).await.map(Some)
            }
            _ => {
                let limit = Duration::from_micros(random.u64(0..20_000));
                tokio::time::timeout(limit, lock.acquire())
                    .await
                    .map_or(Ok(None), |got| got.map(Some))
            }
        };
        match acquired {
            Ok(Some(guard)) => {
                let guard = judge.lock().unwrap().granted(guard, seed);
                pass(Duration::from_micros(random.u64(0..40_000))).await;
                if random.u8(0..20) == 0 {
                    pass(Duration::from_secs(random.u64(0..20))).await;
                }
                let mut guard = judge.lock().unwrap().given_up(guard);
                if yields && random.u8(0..3) > 0 {
                    let token = guard.fencing_token();
                    let yielded = guard.yield_now();
                    guard = match yielded.await {
                        Ok(guard) => {
                            let guard = judge.lock().unwrap().yielded(guard, token, seed);
                            pass(Duration::from_micros(random.u64(0..40_000))).await;
                            judge.lock().unwrap().given_up(guard)
                        }
                        Err(error) if error.class() == ErrorClass::Fatal => return,
                        Err(YieldError::GivenUp { .. }) => continue,
                        Err(error) => panic!("seed {seed}: {error:?}"),
                    };
                }
                if random.bool() {
                    drop(guard.release().await);
                } else {
                    drop(guard);
                }
            }
            Ok(None) | Err(AcquireError::TimedOut(_) | AcquireError::Failed(_)) => {}
            Err(AcquireError::SessionLost { .. }) => return,
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
}

/// The faults of the sessions: all but an expiry on command, which no holder can notice in time. Long cuts cause
/// expiries, too.
fn chaos() -> Chaos {
    Chaos::default()
        .lasting(Duration::from_secs(6))
        .every(Duration::from_millis(150))
        // Now and then longer than a session lives.
        .longest(Duration::from_secs(16))
}

async fn run(ensemble: Ensemble, yields: bool, seed: u64) -> Judge {
    let judge: Arc<Mutex<Judge>> = Arc::default();
    let mut sessions = Vec::new();
    let mut contenders = Vec::new();
    for me in 0..CONTENDERS {
        let session = ensemble.connect().await;
        sessions.push(session.clone());
        let judge = Arc::clone(&judge);
        contenders.push(tokio::spawn(contend(
            session, judge, yields, ROUNDS, seed, me,
        )));
    }
    chaos().run_during(&ensemble, contenders).await;
    ensemble.assert_nothing_left(sessions).await;
    Arc::into_inner(judge)
        .expect("all have ended")
        .into_inner()
        .unwrap()
}

#[test]
fn under_random_faults_no_two_guards_are_valid() {
    endure(0..SEEDS / 2);
}

/// The second half of the seeds, so that two cores share the work.
#[test]
fn under_more_random_faults_no_two_guards_are_valid() {
    endure(SEEDS / 2..SEEDS);
}

fn endure(seeds: Range<u64>) {
    let grants = Cell::new(0);
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked =
        Check::new(seeds)
            .seeds_from_env()
            .ensemble(ensemble)
            .run(async |ensemble, seed| {
                let judge = run(ensemble, false, seed).await;
                grants.set(grants.get() + judge.grants);
            });
    println!("{} grants in {checked}", grants.get());
    assert!(
        checked.seeds == 1 || grants.get() > 20 * checked.seeds,
        "{} grants prove nothing",
        grants.get()
    );
}

/// Some contenders yield the lock before they release it.
#[test]
fn under_random_faults_yields_keep_the_lock_exclusive() {
    let exchanges = Cell::new(0);
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked = Check::new(0..SEEDS / 2)
        .seeds_from_env()
        .ensemble(ensemble)
        .run(async |ensemble, seed| {
            let judge = run(ensemble, true, seed).await;
            exchanges.set(exchanges.get() + judge.exchanges);
        });
    println!("{} exchanges in {checked}", exchanges.get());
    assert!(
        checked.seeds == 1 || exchanges.get() > 5 * checked.seeds,
        "{} exchanges prove nothing",
        exchanges.get()
    );
}

const SEEDS: u64 = 600;
const CONTENDERS: u64 = 5;
const ROUNDS: usize = 8;
