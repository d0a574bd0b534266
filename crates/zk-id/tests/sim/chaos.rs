//! Random faults of all kinds, by seed.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_core::Session;
use zk_id::{ClaimError, Layout, Snowflakes};
use zk_sim::{Chaos, Check, Ensemble};

use crate::{PATH, Seen, TestClock, pass, taken};

/// Two workers for three processes, so that numbers go from one to another.
const FEW: Layout = Layout::new(41, 1, 4, Duration::from_secs(1_700_000_000));

/// Claims, makes ids, and ends in different ways, with a clock of its own that jumps.
async fn live(ensemble: Ensemble, seen: Arc<Mutex<Seen>>, mut draw: fastrand::Rng) -> usize {
    let clock = TestClock::new();
    let mut made = 0;
    for _ in 0..LIVES {
        let session: Session = ensemble.connect().await;
        let snowflakes = Snowflakes::new(&session, PATH, FEW).unwrap();
        let snowflakes = snowflakes.with_clock(clock.clone());
        let ids = match snowflakes.claim().await {
            Ok(ids) => ids,
            Err(
                ClaimError::AllTaken { .. } | ClaimError::Failed(_) | ClaimError::Contended { .. },
            ) => {
                pass(Duration::from_millis(draw.u64(..2000))).await;
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        for _ in 0..draw.usize(..ROUNDS) {
            let many = match draw.u8(..3) {
                0 => ids.try_next().into_iter().collect(),
                1 => ids
                    .try_next_many(draw.usize(..40))
                    .into_iter()
                    .flatten()
                    .collect(),
                _ => ids.next_many(draw.usize(..40)).await.unwrap_or_default(),
            };
            made += many.len();
            seen.lock().unwrap().add(many);
            let jump = Duration::from_millis(draw.u64(..3000));
            match draw.u8(..20) {
                0 => clock.back(jump),
                1 => clock.forwards(jump),
                _ => {}
            }
            pass(Duration::from_millis(draw.u64(..100))).await;
        }
        let clone = ids.generator().clone();
        match draw.u8(..3) {
            0 => drop(ids.release().await),
            1 => drop(ids),
            _ => {
                ensemble.session(session.id()).expire();
                // It does not know yet.
                seen.lock()
                    .unwrap()
                    .add(ids.try_next_many(100).into_iter().flatten());
            }
        }
        seen.lock().unwrap().add(clone.try_next());
    }
    made
}

async fn run(ensemble: Ensemble, seed: u64) -> usize {
    let mut draw = fastrand::Rng::with_seed(seed);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut lives = tokio::task::JoinSet::new();
    for _ in 0..PROCESSES {
        lives.spawn(live(ensemble.clone(), Arc::clone(&seen), draw.fork()));
    }
    let disturbing = tokio::spawn(Chaos::default().run(&ensemble));
    let lived = tokio::time::timeout(Duration::from_secs(3600), lives.join_all()).await;
    let made = lived.unwrap_or_else(|_| panic!("seed {seed}: a process waits for ever"));
    disturbing.await.unwrap();
    pass(Duration::from_secs(60)).await;
    assert_eq!(taken(&ensemble), [""; 0], "seed {seed}");
    made.into_iter().sum()
}

#[test]
fn whatever_happens_no_id_is_given_out_twice() {
    let made = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| made.set(made.get() + run(ensemble, seed).await));
    println!("{} ids in {checked}", made.get());
    let enough = checked.seeds * 50;
    assert!(
        checked.seeds == 1 || made.get() > enough,
        "{} ids prove nothing",
        made.get()
    );
}

const SEEDS: u64 = 200;
const PROCESSES: usize = 3;
const LIVES: usize = 6;
const ROUNDS: usize = 30;
