//! Random faults of all kinds, by seed, against what a barrier promises.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use zk_barrier::EnterError;
use zk_core::ErrorClass;
use zk_core::SessionId;
use zk_sim::Chaos;
use zk_sim::Check;
use zk_sim::Ensemble;
use zk_sim::wait::pass;

use crate::double;
use crate::members;

/// What the members of each round saw.
#[derive(Debug, Default)]
struct Oracle {
    rounds: BTreeMap<i64, Round>,
    /// How many members were lost or given up before they passed. Each may have been counted for a round.
    lost: usize,
}

#[derive(Debug, Default)]
struct Round {
    /// How many have passed.
    passed: usize,
    /// The sessions of those that rely on being in the round.
    inside: Vec<SessionId>,
    /// Whether a member has returned from leaving.
    is_over: bool,
}

impl Oracle {
    fn passes(&mut self, ensemble: &Ensemble, session: SessionId, number: i64) {
        let newest = self.rounds.keys().next_back().copied();
        let round = self.rounds.entry(number).or_default();
        // A member whose session is over may not know it yet.
        if ensemble.session(session).is_alive() {
            assert!(!round.is_over, "it passed round {number} after its end");
            assert!(newest <= Some(number), "round {number} was over already");
        }
        round.passed += 1;
        round.inside.push(session);
    }

    fn leaves(&mut self, session: SessionId, number: i64) {
        let round = self.rounds.get_mut(&number).expect("it has passed");
        let at = round.inside.iter().position(|inside| *inside == session);
        round.inside.swap_remove(at.expect("it has passed"));
    }

    fn has_left(&mut self, ensemble: &Ensemble, number: i64) {
        let round = self.rounds.get_mut(&number).expect("it has passed");
        round.is_over = true;
        let is_alive = |session: &SessionId| ensemble.session(*session).is_alive();
        assert!(
            !round.inside.iter().any(is_alive),
            "a member left round {number} while another was in it"
        );
    }

    /// Checks that each round was opened with enough members.
    fn check(&self) {
        let threshold = THRESHOLD as usize;
        let missing = |round: &Round| threshold.saturating_sub(round.passed);
        let missing: usize = self.rounds.values().map(missing).sum();
        assert!(
            missing <= self.lost,
            "{missing} members are missing, and {} were lost",
            self.lost
        );
    }
}

/// Enters and leaves, runs out of time, gives up, and loses its session.
async fn live(ensemble: Ensemble, oracle: Arc<Mutex<Oracle>>, mut draw: fastrand::Rng) -> usize {
    let mut finished = 0;
    for _ in 0..LIVES {
        let session = ensemble.connect().await;
        let barrier = double(&session, THRESHOLD);
        for _ in 0..ROUNDS {
            let limit = Duration::from_millis(draw.u64(100..20_000));
            let entered = if draw.u8(..8) == 0 {
                let given_up = tokio::time::timeout(limit / 4, barrier.enter()).await;
                given_up.ok()
            } else {
                Some(barrier.enter_timeout(limit).await)
            };
            let member = match entered {
                Some(Ok(member)) => member,
                Some(Err(EnterError::TimedOut { .. })) => continue,
                Some(Err(error)) => {
                    oracle.lock().unwrap().lost += 1;
                    if error.class() == ErrorClass::Fatal {
                        break;
                    }
                    continue;
                }
                None => {
                    oracle.lock().unwrap().lost += 1;
                    continue;
                }
            };
            let own = session.id();
            let number = member.round().expect("its layout has rounds");
            oracle.lock().unwrap().passes(&ensemble, own, number);
            pass(Duration::from_millis(draw.u64(..200))).await;
            oracle.lock().unwrap().leaves(own, number);
            match draw.u8(..10) {
                0 => drop(member),
                1 => {
                    ensemble.session(own).expire();
                    break;
                }
                _ => {
                    let left = member.leave_timeout(Duration::from_secs(30)).await;
                    if left.is_ok() {
                        oracle.lock().unwrap().has_left(&ensemble, number);
                        finished += 1;
                    }
                }
            }
        }
    }
    finished
}

async fn run(ensemble: Ensemble, seed: u64) -> usize {
    let mut draw = fastrand::Rng::with_seed(seed);
    let oracle = Arc::new(Mutex::new(Oracle::default()));
    let mut lives = tokio::task::JoinSet::new();
    for _ in 0..PROCESSES {
        lives.spawn(live(ensemble.clone(), Arc::clone(&oracle), draw.fork()));
    }
    let disturbing = tokio::spawn(Chaos::default().run(&ensemble));
    let lived = tokio::time::timeout(Duration::from_secs(7200), lives.join_all()).await;
    let finished = lived.unwrap_or_else(|_| panic!("seed {seed}: a process waits for ever"));
    disturbing.await.unwrap();
    pass(Duration::from_secs(120)).await;
    assert_eq!(members(&ensemble), 0, "seed {seed}");
    oracle.lock().unwrap().check();
    finished.into_iter().sum()
}

// covers: M5
#[test]
fn no_member_passes_alone_or_leaves_early_whatever_happens() {
    let finished = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| finished.set(finished.get() + run(ensemble, seed).await));
    println!("{} rounds left in {checked}", finished.get());
    assert!(
        checked.seeds == 1 || finished.get() > checked.seeds * 4,
        "{} rounds prove nothing",
        finished.get()
    );
}

const SEEDS: u64 = 100;
const PROCESSES: usize = 4;
const THRESHOLD: u32 = 3;
const LIVES: usize = 3;
const ROUNDS: usize = 4;
