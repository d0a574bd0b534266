//! Random faults, by seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::Session;
use zk_lock::{OneShotLease, OneShotLeaseOptions, TakeLeaseError};
use zk_sim::{Chaos, Check, Disturbance, Ensemble};

use super::PATH;
use crate::pass;

const SEEDS: u64 = 150;
const CONTENDERS: u64 = 4;
const ROUNDS: usize = 10;
/// The longest time that a lease is taken for.
const LONGEST: Duration = Duration::from_secs(3);

/// The state that all contenders of a run share.
#[derive(Debug, Default)]
struct Judge {
    leases: Vec<OneShotLease>,
    sessions: Vec<Session>,
    grants: usize,
    /// How often a lease went from one holder to another.
    changes: usize,
    /// How often it is unknown whether a lease was taken.
    doubts: usize,
}

impl Judge {
    /// A lease was taken: no other holder may rely on it.
    fn taken(&mut self, lease: OneShotLease, seed: u64) {
        let last = self.leases.iter().rfind(|last| last.path() == lease.path());
        self.changes += usize::from(last.is_some_and(|last| last.holder() != lease.holder()));
        // It may have ended before its writing was confirmed.
        if lease.is_valid() {
            let same_path = self.leases.iter().filter(|l| l.path() == lease.path());
            for other in same_path.filter(|other| other.holder() != lease.holder()) {
                assert!(!other.is_valid(), "seed {seed}: {other:?} and {lease:?}");
            }
        }
        self.grants += 1;
        self.leases.push(lease);
    }
}

/// Takes the lease, or one of as many.
async fn take(
    session: &Session,
    count: Option<u32>,
    options: &OneShotLeaseOptions,
) -> Result<Option<OneShotLease>, TakeLeaseError> {
    match count {
        None => OneShotLease::try_take(session, PATH, options).await,
        Some(count) => OneShotLease::try_take_one_of(session, PATH, count, options).await,
    }
}

/// The records of a holder, on the leader.
fn records_of(ensemble: &Ensemble, holder: &str) -> Vec<(String, String)> {
    let tree = ensemble.tree();
    let data = tree.nodes().map(|(path, node)| {
        let data = String::from_utf8_lossy(node.data()).into_owned();
        (path.to_string(), data)
    });
    let holder = format!(r#""holder": "{holder}""#);
    data.filter(|(_, data)| data.contains(&holder)).collect()
}

/// Takes leases under a name of its own, and opens a new session when the last one is lost.
async fn contend(
    ensemble: Ensemble,
    judge: Arc<Mutex<Judge>>,
    count: Option<u32>,
    seed: u64,
    me: u64,
) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(me));
    let holder = format!("host-{me}");
    let mut session = None;
    // Whether nothing is under way that may still be written.
    let mut is_certain = true;
    for _ in 0..ROUNDS {
        pass(Duration::from_millis(random.u64(0..3000))).await;
        let lost = session.take_if(|session: &mut Session| session.state().is_lost());
        drop(lost);
        let session = match &mut session {
            Some(session) => session,
            none => {
                let new = ensemble.connect().await;
                judge.lock().unwrap().sessions.push(new.clone());
                none.insert(new)
            }
        };
        let duration = LONGEST.mul_f64(random.f64());
        let options = OneShotLeaseOptions::new(&*holder, duration);
        let before = records_of(&ensemble, &holder);
        let taking = take(session, count, &options);
        let taken = if random.u8(0..4) == 0 {
            let limit = Duration::from_micros(random.u64(0..10_000));
            tokio::time::timeout(limit, taking).await.ok()
        } else {
            Some(taking.await)
        };
        match taken {
            Some(Ok(Some(lease))) => {
                // Each write of this process under the same lock is over.
                is_certain |= count.is_none();
                judge.lock().unwrap().taken(lease, seed);
            }
            Some(Err(error)) if error.is_outcome_unknown() => {
                is_certain = false;
                judge.lock().unwrap().doubts += 1;
            }
            Some(not_taken) => {
                let after = records_of(&ensemble, &holder);
                let is_unchanged = after.iter().all(|record| before.contains(record));
                assert!(
                    is_unchanged || !is_certain,
                    "seed {seed}: {not_taken:?}, and {after:?}"
                );
            }
            None => {
                is_certain = false;
                judge.lock().unwrap().doubts += 1;
            }
        }
    }
}

/// All faults: a lease outlives its session, so that sessions may also expire on command.
fn chaos() -> Chaos {
    Chaos::default()
        .weight(Disturbance::Expire, 2)
        .lasting(Duration::from_secs(12))
        .every(Duration::from_millis(150))
        .longest(Duration::from_secs(8))
}

/// After the faults, when the last lease has ended, new holders get all leases.
async fn run(ensemble: Ensemble, count: Option<u32>, seed: u64) -> Judge {
    let judge: Arc<Mutex<Judge>> = Arc::default();
    let contenders = (0..CONTENDERS).map(|me| {
        let (ensemble, judge) = (ensemble.clone(), Arc::clone(&judge));
        tokio::spawn(contend(ensemble, judge, count, seed, me))
    });
    let contenders: Vec<_> = contenders.collect();
    chaos().run_during(&ensemble, contenders).await;
    let mut judge = std::mem::take(&mut *judge.lock().unwrap());

    let session = ensemble.connect().await;
    let options = OneShotLeaseOptions::new("next", LONGEST);
    let next = take(&session, count, &options).await.unwrap();
    if let Some(lease) = next {
        judge.taken(lease, seed);
    }
    // Longer than the leases last.
    ensemble.assert_nothing_left(judge.sessions.drain(..)).await;
    let mut paths = Vec::new();
    for holder in 0..count.unwrap_or(1) {
        let options = OneShotLeaseOptions::new(format!("late-{holder}"), 40 * LONGEST);
        let lease = take(&session, count, &options).await.unwrap();
        let lease = lease.unwrap_or_else(|| panic!("seed {seed}: late-{holder} gets none"));
        paths.push(lease.path().clone());
        judge.taken(lease, seed);
    }
    paths.dedup();
    assert_eq!(paths.len(), count.unwrap_or(1) as usize, "seed {seed}");
    let none = take(&session, count, &options).await.unwrap();
    assert_eq!(none, None, "seed {seed}");
    ensemble.assert_nothing_left([session]).await;
    judge
}

fn endure(count: Option<u32>) {
    let totals = Mutex::new((0, 0, 0));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let judge = run(ensemble, count, seed).await;
            let mut totals = totals.lock().unwrap();
            totals.0 += judge.grants;
            totals.1 += judge.changes;
            totals.2 += judge.doubts;
        });
    let (grants, changes, doubts) = totals.into_inner().unwrap();
    let counts = format!("{grants} grants, {changes} changes of the holder, {doubts} in doubt");
    println!("{counts} in {checked}");
    assert!(
        checked.seeds == 1 || grants.min(changes).min(doubts) > 2 * checked.seeds,
        "{counts} prove nothing"
    );
}

#[test]
fn under_random_faults_no_two_holders_rely_on_a_lease() {
    endure(None);
}

#[test]
fn under_random_faults_no_more_holders_than_leases_rely_on_one() {
    endure(Some(2));
}
