//! Random faults of all kinds, by seed, against what a barrier promises.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_barrier::EnterError;
use zk_core::{ErrorClass, SessionId};
use zk_sim::wait::pass;
use zk_sim::{Chaos, Check, Ensemble};

use crate::history::{Event, History, MemberId};
use crate::{double, members};

/// The history of all members, and what it needs to know about their sessions.
#[derive(Debug)]
struct Recorder {
    ensemble: Ensemble,
    history: History,
    /// The sessions that are not known to be over, with their members.
    alive: BTreeMap<SessionId, Vec<MemberId>>,
}

impl Recorder {
    fn enters(&mut self, session: SessionId) -> MemberId {
        self.record_lost_sessions();
        let member = self.history.enters();
        self.alive.entry(session).or_default().push(member);
        member
    }

    fn record(&mut self, member: MemberId, event: Event) {
        self.record_lost_sessions();
        self.history.record(member, event);
    }

    /// A client may not know yet that its session is over, the ensemble does.
    fn record_lost_sessions(&mut self) {
        let is_lost = |session: &SessionId| !self.ensemble.session(*session).is_alive();
        let lost: Vec<_> = self.alive.keys().copied().filter(is_lost).collect();
        for session in lost {
            for member in self.alive.remove(&session).unwrap_or_default() {
                self.history.record(member, Event::SessionOver);
            }
        }
    }
}

/// Enters and leaves, runs out of time, gives up, and loses its session.
async fn live(
    ensemble: Ensemble,
    recorder: Arc<Mutex<Recorder>>,
    mut draw: fastrand::Rng,
) -> usize {
    let record = |member, event| recorder.lock().unwrap().record(member, event);
    let mut finished = 0;
    for _ in 0..LIVES {
        let session = ensemble.connect().await;
        let own = session.id();
        let barrier = double(&session, THRESHOLD);
        for _ in 0..ROUNDS {
            let limit = Duration::from_millis(draw.u64(100..20_000));
            let id = recorder.lock().unwrap().enters(own);
            let entered = if draw.u8(..8) == 0 {
                let given_up = tokio::time::timeout(limit / 4, barrier.enter()).await;
                given_up.ok()
            } else {
                Some(barrier.enter_timeout(limit).await)
            };
            let member = match entered {
                Some(Ok(member)) => member,
                Some(Err(EnterError::TimedOut { .. })) => {
                    record(id, Event::Withdrew);
                    continue;
                }
                Some(Err(error)) => {
                    record(id, Event::Failed);
                    if error.class() == ErrorClass::Fatal {
                        break;
                    }
                    continue;
                }
                None => {
                    record(id, Event::Failed);
                    continue;
                }
            };
            let number = member.round().expect("its layout has rounds");
            record(id, Event::Entered(number));
            pass(Duration::from_millis(draw.u64(..200))).await;
            record(id, Event::Leaves);
            match draw.u8(..10) {
                0 => drop(member),
                1 => {
                    ensemble.session(own).expire();
                    break;
                }
                _ => {
                    let left = member.leave_timeout(Duration::from_secs(30)).await;
                    if left.is_ok() {
                        record(id, Event::Left);
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
    let recorder = Arc::new(Mutex::new(Recorder {
        ensemble: ensemble.clone(),
        history: History::default(),
        alive: BTreeMap::new(),
    }));
    let mut lives = tokio::task::JoinSet::new();
    for _ in 0..PROCESSES {
        lives.spawn(live(ensemble.clone(), Arc::clone(&recorder), draw.fork()));
    }
    let disturbing = tokio::spawn(Chaos::default().run(&ensemble));
    let lived = tokio::time::timeout(Duration::from_secs(7200), lives.join_all()).await;
    let finished = lived.unwrap_or_else(|_| panic!("seed {seed}: a process waits for ever"));
    disturbing.await.unwrap();
    pass(Duration::from_secs(120)).await;
    assert_eq!(members(&ensemble), 0, "seed {seed}");
    let checked = recorder.lock().unwrap().history.check(THRESHOLD as usize);
    checked.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    finished.into_iter().sum()
}

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
