//! Random faults, by seed.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use zk_core::Session;
use zk_lock::{AcquireError, FencingToken, Guard, ReadGuard, WriteGuard};
use zk_sim::{Chaos, Check, Ensemble};

use super::rw;
use crate::pass;

/// A guard of the lock, valid or not.
#[derive(Debug)]
enum Holding {
    Reading(ReadGuard),
    Writing(WriteGuard),
}

impl Deref for Holding {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        match self {
            Self::Reading(guard) => guard,
            Self::Writing(guard) => guard,
        }
    }
}

impl Holding {
    fn writes(&self) -> bool {
        matches!(self, Self::Writing(_))
    }
}

/// The state that all contenders of a run share.
#[derive(Debug, Default)]
struct Judge {
    held: Vec<Arc<Holding>>,
    /// The highest token that a fenced resource has seen.
    highest: Option<FencingToken>,
    highest_writer: Option<FencingToken>,
    /// The number of writers that were granted the lock.
    writers: usize,
    grants: usize,
    shared: usize,
    downgrades: usize,
    upgrades: usize,
}

impl Judge {
    /// No guard that this one excludes may be valid, and tokens increase.
    fn granted(&mut self, holding: Holding, seed: u64) -> Arc<Holding> {
        for other in &self.held {
            let excludes = holding.writes() || other.writes();
            let both = excludes && other.is_valid();
            assert!(!both, "seed {seed}: {other:?} and {holding:?}");
            self.shared += usize::from(!excludes && other.is_valid());
        }
        let token = Some(holding.fencing_token());
        if holding.writes() {
            assert!(token > self.highest, "seed {seed}: {holding:?}");
            self.highest_writer = token;
            self.writers += 1;
        } else {
            // Equal for the downgraded writer itself.
            assert!(token >= self.highest_writer, "seed {seed}: {holding:?}");
        }
        self.highest = self.highest.max(token);
        self.grants += 1;
        let holding = Arc::new(holding);
        self.held.push(Arc::clone(&holding));
        holding
    }

    fn given_up(&mut self, holding: &Arc<Holding>) {
        self.held.retain(|other| !Arc::ptr_eq(other, holding));
    }
}

/// One contender.
struct Contender {
    session: Session,
    judge: Arc<Mutex<Judge>>,
    random: Rng,
    seed: u64,
}

impl Contender {
    async fn acquire(&mut self) -> Result<Option<Holding>, AcquireError> {
        let lock = rw(&self.session);
        let limit = Duration::from_micros(self.random.u64(0..20_000));
        let longer = Duration::from_millis(self.random.u64(0..3000));
        match self.random.u8(0..12) {
            0..4 => lock
                .reader()
                .acquire()
                .await
                .map(Holding::Reading)
                .map(Some),
            4..6 => lock
                .writer()
                .acquire()
                .await
                .map(Holding::Writing)
                .map(Some),
            6 => Ok(lock.reader().try_acquire().await?.map(Holding::Reading)),
            7 => Ok(lock.writer().try_acquire().await?.map(Holding::Writing)),
            8 => Ok(Some(Holding::Reading(
                lock.reader().acquire_timeout(longer).await?,
            ))),
            9 => Ok(Some(Holding::Writing(
                lock.writer().acquire_timeout(longer).await?,
            ))),
            10 => {
                let acquired = tokio::time::timeout(limit, lock.reader().acquire()).await;
                acquired.map_or(Ok(None), |got| got.map(Holding::Reading).map(Some))
            }
            _ => {
                let acquired = tokio::time::timeout(limit, lock.writer().acquire()).await;
                acquired.map_or(Ok(None), |got| got.map(Holding::Writing).map(Some))
            }
        }
    }

    /// Downgrades a writer or upgrades a reader; `None` if nothing is held any more.
    async fn change(&mut self, holding: Arc<Holding>) -> Option<Arc<Holding>> {
        let (judge, seed) = (Arc::clone(&self.judge), self.seed);
        judge.lock().unwrap().given_up(&holding);
        let (token, wrote) = (holding.fencing_token(), holding.writes());
        let writers = judge.lock().unwrap().writers;
        let was = Arc::into_inner(holding).expect("only the judge had another one");
        let cancelled = self.random.u8(0..6) == 0;
        let limit = Duration::from_micros(self.random.u64(0..8_000));
        let changed = match was {
            Holding::Writing(guard) if cancelled => {
                let done = tokio::time::timeout(limit, guard.downgrade()).await;
                Holding::Reading(done.ok()?.ok()?)
            }
            Holding::Writing(guard) => Holding::Reading(guard.downgrade().await.ok()?),
            Holding::Reading(guard) if cancelled => {
                let done = tokio::time::timeout(limit, guard.upgrade()).await;
                Holding::Writing(done.ok()?.ok()?)
            }
            Holding::Reading(guard) => {
                let limit = Duration::from_millis(self.random.u64(0..2000));
                let upgraded = if self.random.bool() {
                    guard.upgrade().await
                } else {
                    guard.upgrade_timeout(limit).await
                };
                match upgraded {
                    Ok(writing) => Holding::Writing(writing),
                    // Still a reader; if it waited, it may have been lost meanwhile.
                    Err(error) => Holding::Reading(error.into_guard()?),
                }
            }
        };
        // By now it may be lost; otherwise it was held all the time.
        if !changed.is_valid() {
            return None;
        }
        let mut judge = judge.lock().unwrap();
        assert_eq!(
            judge.writers, writers,
            "seed {seed}: another writer wrote in between"
        );
        if changed.writes() {
            assert!(changed.fencing_token() > token, "seed {seed}");
            judge.upgrades += 1;
        } else {
            assert_eq!(changed.fencing_token(), token, "seed {seed}");
            judge.downgrades += usize::from(wrote);
        }
        Some(judge.granted(changed, seed))
    }

    async fn hold(&mut self) {
        pass(Duration::from_micros(self.random.u64(0..40_000))).await;
        if self.random.u8(0..30) == 0 {
            pass(Duration::from_secs(self.random.u64(0..20))).await;
        }
    }

    /// Acquires, changes and releases until all rounds are over or the session is.
    async fn contend(mut self) {
        let seed = self.seed;
        for _ in 0..ROUNDS {
            let holding = match self.acquire().await {
                Ok(Some(holding)) => holding,
                Ok(None) | Err(AcquireError::TimedOut(_) | AcquireError::Failed(_)) => continue,
                Err(AcquireError::SessionLost { .. }) => return,
                Err(error) => panic!("seed {seed}: {error:?}"),
            };
            assert!(holding.is_valid(), "seed {seed}");
            let mut held = Some(self.judge.lock().unwrap().granted(holding, seed));
            self.hold().await;
            for _ in 0..self.random.u8(0..3) {
                if let Some(holding) = held {
                    held = self.change(holding).await;
                    self.hold().await;
                }
            }
            let Some(holding) = held else { continue };
            self.judge.lock().unwrap().given_up(&holding);
            let holding = Arc::into_inner(holding).expect("only the judge had another one");
            match holding {
                Holding::Reading(guard) if self.random.bool() => drop(guard.release().await),
                Holding::Writing(guard) if self.random.bool() => drop(guard.release().await),
                dropped => drop(dropped),
            }
        }
    }
}

async fn run(ensemble: Ensemble, seed: u64) -> Judge {
    let judge: Arc<Mutex<Judge>> = Arc::default();
    let mut sessions = Vec::new();
    let mut contenders = Vec::new();
    for me in 0..CONTENDERS {
        let session = ensemble.connect().await;
        sessions.push(session.clone());
        let contender = Contender {
            session,
            judge: Arc::clone(&judge),
            random: Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(me)),
            seed,
        };
        contenders.push(tokio::spawn(contender.contend()));
    }
    // All faults but an expiry on command, which no holder can notice in time. Long cuts cause expiries, too.
    let chaos = Chaos::default()
        .lasting(Duration::from_secs(6))
        .every(Duration::from_millis(150))
        .longest(Duration::from_secs(16));
    chaos.run_during(&ensemble, contenders).await;
    ensemble.assert_nothing_left(sessions).await;
    let judge = Arc::into_inner(judge).expect("all have ended");
    judge.into_inner().unwrap()
}

#[test]
fn under_random_faults_readers_share_and_writers_are_alone() {
    let sums = [const { Cell::new(0) }; 4];
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .ensemble(ensemble)
        .run(async |ensemble, seed| {
            let judge = run(ensemble, seed).await;
            let counts = [judge.grants, judge.shared, judge.downgrades, judge.upgrades];
            for (sum, count) in sums.iter().zip(counts) {
                sum.set(sum.get() + count);
            }
        });
    let [grants, shared, downgrades, upgrades] = sums.map(Cell::into_inner);
    println!(
        "{grants} grants, {shared} shared, {downgrades} downgrades, {upgrades} upgrades in {checked}"
    );
    let seeds = checked.seeds;
    let enough = grants > 15 * seeds && shared > seeds && downgrades > seeds && upgrades > seeds;
    assert!(seeds == 1 || enough, "that proves nothing");
}

const SEEDS: u64 = 300;
const CONTENDERS: u64 = 5;
const ROUNDS: usize = 6;
