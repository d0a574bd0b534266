//! Random faults of all kinds, by seed.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use zk_core::Session;
use zk_leader::{
    LatchParticipant, LeaderLease, ParticipantEnd, ParticipantHandle, ParticipantState,
};
use zk_lock::FencingToken;
use zk_sim::{Chaos, Check, Ensemble};

use crate::{latch, options, pass, selector_with, soon};

/// What all participants of one election share.
#[derive(Debug, Default)]
struct Judge {
    /// Every lease so far, of which at most one is valid.
    leases: Vec<LeaderLease>,
    highest: Option<FencingToken>,
    terms: usize,
    /// How many tasks run right now.
    running: Vec<LeaderLease>,
}

impl Judge {
    fn begins(&mut self, lease: &LeaderLease, seed: u64) {
        for other in &self.leases {
            let is_other = other.fencing_token() != lease.fencing_token();
            assert!(
                !(is_other && other.is_valid() && lease.is_valid()),
                "seed {seed}: {other:?} and {lease:?}"
            );
        }
        if self.highest < Some(lease.fencing_token()) {
            self.highest = Some(lease.fencing_token());
            self.terms += 1;
            self.leases.push(lease.clone());
        }
        self.leases.retain(LeaderLease::is_valid);
    }
}

/// Notes that a task runs, for as long as it lives.
struct Runs {
    judge: Arc<Mutex<Judge>>,
    token: FencingToken,
}

impl Runs {
    fn begin(judge: &Arc<Mutex<Judge>>, lease: &LeaderLease, seed: u64) -> Self {
        let mut all = judge.lock().unwrap_or_else(PoisonError::into_inner);
        all.begins(lease, seed);
        assert!(
            all.running.is_empty(),
            "seed {seed}: {:?} and {lease:?}",
            all.running
        );
        all.running.push(lease.clone());
        Self {
            judge: Arc::clone(judge),
            token: lease.fencing_token(),
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let mut all = self.judge.lock().unwrap_or_else(PoisonError::into_inner);
        all.running.retain(|it| it.fencing_token() != self.token);
    }
}

/// Leads by a latch until the session is over, or for so many times.
async fn latch_on(session: Session, judge: Arc<Mutex<Judge>>, seed: u64, me: u64) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(me));
    let mut participant: LatchParticipant = latch(&session).join();
    for _ in 0..ROUNDS {
        let limit = Duration::from_millis(random.u64(1..4000));
        match tokio::time::timeout(limit, participant.leading()).await {
            Ok(Ok(lease)) => {
                judge.lock().unwrap().begins(&lease, seed);
                let work = Duration::from_micros(random.u64(0..60_000));
                drop(tokio::time::timeout(work, lease.lost()).await);
                match random.u8(0..3) {
                    0 => drop(participant.resign().await),
                    1 => participant = latch(&session).join(),
                    _ => {
                        participant.handle().leave().await;
                        participant = latch(&session).join();
                    }
                }
            }
            Ok(Err(ParticipantEnd::SessionLost)) => return,
            Ok(Err(end)) => panic!("seed {seed}: {end:?}"),
            Err(_) if random.bool() => participant = latch(&session).join(),
            Err(_) => {}
        }
    }
}

/// Leads by a selector.
async fn select_on(session: Session, judge: Arc<Mutex<Judge>>, seed: u64, me: u64) {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(1000).wrapping_add(me));
    let options = options().with_grace(Duration::from_millis(20));
    for _ in 0..ROUNDS / 2 {
        let selector = selector_with(&session, &options);
        let handle = selector.handle().clone();
        let mut within = random.fork();
        let task = |lease: LeaderLease| {
            let runs = Runs::begin(&judge, &lease, seed);
            let work = Duration::from_micros(within.u64(0..60_000));
            let goes_on = within.bool();
            async move {
                let _runs = runs;
                pass(work).await;
                if goes_on {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            }
        };
        let bother = bother(handle, Duration::from_millis(random.u64(1..8000)));
        let ran = selector.run(task);
        tokio::select! {
            biased;
            ended = ran => match ended {
                Ok(()) | Err(ParticipantEnd::Left) => {}
                Err(ParticipantEnd::SessionLost) => return,
                Err(end) => panic!("seed {seed}: {end:?}"),
            },
            () = bother => {}
        }
    }
}

/// Asks to resign, and drops the run a little later.
async fn bother(handle: ParticipantHandle, after: Duration) {
    pass(after).await;
    drop(tokio::time::timeout(Duration::from_millis(500), handle.resign()).await);
    pass(after / 4).await;
}

/// Everything but an expiry by a word, of which no leader can know in time. Long cuts bring about the others.
fn chaos() -> Chaos {
    Chaos::default()
        .lasting(Duration::from_secs(6))
        .every(Duration::from_millis(150))
        // Now and then longer than a session lives.
        .longest(Duration::from_secs(16))
}

async fn run(ensemble: Ensemble, seed: u64) -> usize {
    // A latch and a selector on one path are two elections.
    let (latches, selectors): (Arc<Mutex<Judge>>, Arc<Mutex<Judge>>) = Default::default();
    let mut sessions = Vec::new();
    let mut participants = Vec::new();
    for me in 0..PARTICIPANTS {
        let session = ensemble.connect().await;
        sessions.push(session.clone());
        participants.push(tokio::spawn(latch_on(
            session.clone(),
            Arc::clone(&latches),
            seed,
            me,
        )));
        let selecting = select_on(session, Arc::clone(&selectors), seed, me + PARTICIPANTS);
        participants.push(tokio::spawn(selecting));
    }
    chaos().run_during(&ensemble, participants).await;
    // Once all faults are healed, a new participant leads.
    let session = ensemble.connect().await;
    let participant = latch(&session).join();
    let lease = soon("it leads", participant.leading()).await.unwrap();
    latches.lock().unwrap().begins(&lease, seed);
    assert!(matches!(
        participant.handle().state(),
        ParticipantState::Leading(_)
    ));
    participant.leave().await;
    ensemble.assert_nothing_left(sessions).await;
    let terms = |judge: &Mutex<Judge>| judge.lock().unwrap().terms;
    terms(&latches) + terms(&selectors)
}

#[test]
fn chaos_yields_one_valid_leader_at_a_time_and_one_at_the_end() {
    let terms = Cell::new(0);
    let ensemble = Ensemble::builder().reap_every(Duration::from_millis(700));
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .ensemble(ensemble)
        .run(async |ensemble, seed| terms.set(terms.get() + run(ensemble, seed).await));
    println!("{} leaderships in {checked}", terms.get());
    assert!(
        checked.seeds == 1 || terms.get() > 10 * checked.seeds,
        "{} leaderships prove nothing",
        terms.get()
    );
}

const SEEDS: u64 = 400;
const PARTICIPANTS: u64 = 3;
const ROUNDS: usize = 8;
