//! Random faults, by seed.

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::Session;
use zk_lock::{AcquireError, SemaphoreLease};
use zk_sim::{Chaos, Check, Ensemble};

use super::semaphore;
use crate::pass;

const SEEDS: u64 = 400;
const CONTENDERS: u64 = 5;
const ROUNDS: usize = 6;
const LIMIT: u32 = 3;

/// The state that all contenders of a run share.
#[derive(Debug, Default)]
struct Judge {
    held: Vec<Arc<SemaphoreLease>>,
    grants: usize,
    /// The maximum number of leases held at a time.
    most: usize,
}

impl Judge {
    /// Leases were granted: no more than the limit may be valid.
    fn granted(&mut self, lease: SemaphoreLease, seed: u64) -> Arc<SemaphoreLease> {
        assert!(lease.is_valid(), "seed {seed}");
        let lease = Arc::new(lease);
        self.held.push(Arc::clone(&lease));
        let valid = self.held.iter().filter(|lease| lease.is_valid());
        let sum: usize = valid.map(|lease| lease.count()).sum();
        assert!(sum <= LIMIT as usize, "seed {seed}: {:#?}", self.held);
        self.most = self.most.max(sum);
        self.grants += 1;
        lease
    }

    fn given_up(&mut self, lease: Arc<SemaphoreLease>) -> SemaphoreLease {
        self.held.retain(|other| !Arc::ptr_eq(other, &lease));
        Arc::into_inner(lease).expect("only the judge had another one")
    }
}

/// Acquires and releases until the rounds are over or the session is.
async fn contend(session: Session, judge: Arc<Mutex<Judge>>, seed: u64, me: u64) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(me));
    let semaphore = semaphore(&session, LIMIT);
    for _ in 0..ROUNDS {
        let count = random.u32(1..=LIMIT);
        let acquired = match random.u8(0..10) {
            0..5 => semaphore.with_count(count).acquire().await.map(Some),
            5..7 => semaphore.with_count(count).try_acquire().await,
            7 => {
                let limit = Duration::from_millis(random.u64(0..3000));
                semaphore
                    .with_count(count)
                    .acquire_timeout(limit)
                    .await
                    .map(Some)
            }
            _ => {
                let limit = Duration::from_micros(random.u64(0..20_000));
                tokio::time::timeout(limit, semaphore.with_count(count).acquire())
                    .await
                    .map_or(Ok(None), |got| got.map(Some))
            }
        };
        match acquired {
            Ok(Some(lease)) => {
                let lease = judge.lock().unwrap().granted(lease, seed);
                pass(Duration::from_micros(random.u64(0..40_000))).await;
                if random.u8(0..20) == 0 {
                    pass(Duration::from_secs(random.u64(0..20))).await;
                }
                let mut lease = judge.lock().unwrap().given_up(lease);
                if random.bool() {
                    drop(lease.split(1));
                }
                if random.bool() {
                    drop(lease.release().await);
                } else {
                    drop(lease);
                }
            }
            Ok(None) | Err(AcquireError::TimedOut(_) | AcquireError::Failed(_)) => {}
            Err(AcquireError::SessionLost { .. }) => return,
            Err(error) => panic!("seed {seed}: {error:?}"),
        }
    }
}

async fn run(ensemble: Ensemble, seed: u64) -> (usize, usize) {
    let judge: Arc<Mutex<Judge>> = Arc::default();
    let mut sessions = Vec::new();
    let mut contenders = Vec::new();
    for me in 0..CONTENDERS {
        let session = ensemble.connect().await;
        sessions.push(session.clone());
        contenders.push(tokio::spawn(contend(session, Arc::clone(&judge), seed, me)));
    }
    let chaos = Chaos::default()
        .lasting(Duration::from_secs(6))
        .every(Duration::from_millis(150))
        // Now and then longer than a session lives.
        .longest(Duration::from_secs(16));
    chaos.run_during(&ensemble, contenders).await;
    ensemble.assert_nothing_left(sessions).await;
    let judge = Arc::into_inner(judge).expect("all have ended");
    let judge = judge.into_inner().unwrap();
    (judge.grants, judge.most)
}

#[test]
fn under_random_faults_leases_never_exceed_the_limit() {
    endure(0..SEEDS / 2);
}

/// The second half of the seeds, so that two cores share the work.
#[test]
fn under_more_random_faults_leases_never_exceed_the_limit() {
    endure(SEEDS / 2..SEEDS);
}

fn endure(seeds: Range<u64>) {
    let (grants, most) = (Cell::new(0), Cell::new(0));
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked =
        Check::new(seeds)
            .seeds_from_env()
            .ensemble(ensemble)
            .run(async |ensemble, seed| {
                let (more, at_once) = run(ensemble, seed).await;
                grants.set(grants.get() + more);
                most.set(at_once.max(most.get()));
            });
    println!("{} grants in {checked}", grants.get());
    assert!(
        checked.seeds == 1 || grants.get() > 15 * checked.seeds && most.get() == LIMIT as usize,
        "{} grants, {} at once prove nothing",
        grants.get(),
        most.get()
    );
}
