//! Random faults, by seed: one harness that judges all kinds of locks, and the fair lock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use zk_core::{ErrorClass, Session};
use zk_lock::{AcquireError, FairLock, FencingToken, Guard, Lock, LockGuard, YieldError};
use zk_sim::{Chaos, Check, Ensemble};

use crate::{lock, pass, polled};

/// A lock as one contender uses it, and what has to hold for each grant.
///
/// Each kind of lock with at most one holder is judged by its tokens.
pub(crate) trait Judged: Sized + Send + Sync + 'static {
    type Guard: LockGuard + Debug;
    /// What is remembered of earlier grants.
    type Seen: Default + Send;

    /// Whether a guard that is granted shares an earlier holding, which may have lapsed.
    const NESTS: bool = false;

    /// Acquires, or tries to, or gives up.
    fn attempt(
        &self,
        random: &mut Rng,
    ) -> impl Future<Output = Result<Option<Self::Guard>, AcquireError>> + Send;

    /// Checks a grant by the guards that are valid at this moment, and by earlier ones.
    fn check(
        record: &mut Record<Self::Seen>,
        granted: &Held<Self::Guard>,
        valid: &[Arc<Held<Self::Guard>>],
    );

    /// What a holder does besides holding the lock; `None` if it no longer has a guard.
    fn while_held(
        &self,
        guard: Self::Guard,
        _: &mut Contender<Self>,
    ) -> impl Future<Output = Option<Self::Guard>> + Send {
        async { Some(guard) }
    }
}

impl<L> Judged for L
where
    L: Lock + 'static,
    L::Guard: Debug,
    <L::Guard as LockGuard>::Token: Copy + Ord + Debug + Send,
{
    type Guard = L::Guard;
    /// The highest token that a fenced resource has seen.
    type Seen = Option<<L::Guard as LockGuard>::Token>;

    async fn attempt(&self, random: &mut Rng) -> Result<Option<L::Guard>, AcquireError> {
        Attempt::draw(random).at(self).await
    }

    fn check(
        record: &mut Record<Self::Seen>,
        granted: &Held<L::Guard>,
        valid: &[Arc<Held<L::Guard>>],
    ) {
        assert!(valid.is_empty(), "{valid:?} and {granted:?}");
        let token = Some(granted.guard.token());
        assert!(token > record.seen, "{:?}, then {granted:?}", record.seen);
        record.seen = token;
    }
}

/// One way to acquire a lock.
pub(crate) enum Attempt {
    Acquire,
    TryAcquire,
    AcquireTimeout(Duration),
    /// The future is dropped after this time.
    DropAfter(Duration),
    /// The future is dropped after so many polls.
    DropAfterPolls(usize),
}

impl Attempt {
    pub(crate) fn draw(random: &mut Rng) -> Self {
        match random.u8(0..10) {
            0..5 => Self::Acquire,
            5..7 => Self::TryAcquire,
            7 => Self::AcquireTimeout(Duration::from_millis(random.u64(0..3000))),
            8 => Self::DropAfter(Duration::from_micros(random.u64(0..20_000))),
            _ => Self::DropAfterPolls(random.usize(0..6)),
        }
    }

    /// Makes the attempt; `None` if the lock is taken or the future was dropped.
    pub(crate) async fn at<L: Lock>(self, lock: &L) -> Result<Option<L::Guard>, AcquireError> {
        match self {
            Self::Acquire => lock.acquire().await.map(Some),
            Self::TryAcquire => lock.try_acquire().await,
            Self::AcquireTimeout(limit) => lock.acquire_timeout(limit).await.map(Some),
            Self::DropAfter(limit) => {
                let acquired = tokio::time::timeout(limit, lock.acquire()).await;
                acquired.ok().transpose()
            }
            Self::DropAfterPolls(polls) => polled(polls, lock.acquire()).await.transpose(),
        }
    }
}

/// A guard, and the number of the session that has it.
#[derive(Debug)]
pub(crate) struct Held<G> {
    pub(crate) session: usize,
    pub(crate) guard: G,
}

/// What is remembered of earlier grants, and how often what happened.
#[derive(Debug, Default)]
pub(crate) struct Record<S> {
    pub(crate) seen: S,
    counts: BTreeMap<&'static str, usize>,
}

impl<S> Record<S> {
    pub(crate) fn count(&mut self, what: &'static str, more: usize) {
        self.counts.entry(what).or_default().add_assign(more);
    }
}

/// The state that all contenders of a run share.
pub(crate) struct Judge<K: Judged> {
    held: Vec<Arc<Held<K::Guard>>>,
    pub(crate) record: Record<K::Seen>,
}

impl<K: Judged> Judge<K> {
    fn granted(&mut self, granted: Held<K::Guard>) -> Arc<Held<K::Guard>> {
        let is_valid = |held: &Held<K::Guard>| held.guard.held().is_valid();
        assert!(K::NESTS || is_valid(&granted), "{granted:?}");
        let valid = self.held.iter().filter(|held| is_valid(held));
        let valid: Vec<_> = valid.cloned().collect();
        K::check(&mut self.record, &granted, &valid);
        self.record.count("grants", 1);
        let granted = Arc::new(granted);
        self.held.push(Arc::clone(&granted));
        granted
    }

    fn given_up(&mut self, held: Arc<Held<K::Guard>>) -> K::Guard {
        self.held.retain(|other| !Arc::ptr_eq(other, &held));
        let held = Arc::into_inner(held).expect("only the judge had another one");
        held.guard
    }
}

/// One of the contenders of a run.
pub(crate) struct Contender<K: Judged> {
    pub(crate) random: Rng,
    session: usize,
    judge: Arc<Mutex<Judge<K>>>,
}

impl<K: Judged> Contender<K> {
    pub(crate) fn judge(&self) -> MutexGuard<'_, Judge<K>> {
        // The failure that counts is that of the contender that was judged.
        self.judge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a guard judged, and holds the lock for a while.
    pub(crate) async fn hold(&mut self, guard: K::Guard) -> K::Guard {
        let session = self.session;
        let held = self.judge().granted(Held { session, guard });
        pass(Duration::from_micros(self.random.u64(0..40_000))).await;
        if self.random.u8(0..15) == 0 {
            pass(Duration::from_secs(self.random.u64(0..20))).await;
        }
        self.judge().given_up(held)
    }

    /// Acquires and releases until the rounds are over or the session is.
    async fn contend(mut self, lock: K, rounds: usize) {
        for _ in 0..rounds {
            let guard = match lock.attempt(&mut self.random).await {
                Ok(Some(guard)) => self.hold(guard).await,
                Ok(None) | Err(AcquireError::TimedOut(_) | AcquireError::Failed(_)) => continue,
                Err(AcquireError::SessionLost { .. }) => return,
                Err(error) => panic!("{error:?}"),
            };
            let Some(guard) = lock.while_held(guard, &mut self).await else {
                continue;
            };
            if self.random.bool() {
                drop(guard.release().await);
            }
        }
    }
}

/// How much a kind of lock has to endure.
pub(crate) struct Trial {
    pub(crate) seeds: u64,
    pub(crate) sessions: usize,
    /// How often each contender attempts to acquire the lock.
    pub(crate) rounds: usize,
    /// How long faults are injected.
    pub(crate) lasting: Duration,
}

impl Trial {
    /// Lets the contenders of each session contend, for each seed; of what is counted, each seed has to bring more than
    /// `enough` on average.
    pub(crate) fn run<K: Judged, const N: usize>(
        &self,
        contenders: impl Fn(&Session) -> [K; N],
        enough: &[(&'static str, usize)],
    ) {
        let total = RefCell::new(Record::<()>::default());
        // Of the faults, an expiry on command is missing: no holder can notice it in time. Long cuts cause expiries.
        let chaos = Chaos::default()
            .lasting(self.lasting)
            .every(Duration::from_millis(150))
            // Now and then longer than a session lives.
            .longest(Duration::from_secs(16));
        let checked = Check::new(0..self.seeds)
            .seeds_from_env()
            .ensemble(Ensemble::builder().reap_every(Duration::from_millis(700)))
            .run(async |ensemble, seed| {
                let judge = Arc::new(Mutex::new(Judge {
                    held: Vec::new(),
                    record: Record::default(),
                }));
                let (mut sessions, mut tasks) = (Vec::new(), Vec::new());
                for number in 0..self.sessions {
                    let mut session = ensemble.connect().await;
                    if number % 2 == 1 {
                        // Its requests fail while the session still lives.
                        session = session.with_operation_timeout(Duration::from_secs(2));
                    }
                    for lock in contenders(&session) {
                        let own_seed = seed.wrapping_mul(1000).wrapping_add(tasks.len() as u64);
                        let contender = Contender {
                            random: Rng::with_seed(own_seed),
                            session: number,
                            judge: Arc::clone(&judge),
                        };
                        tasks.push(tokio::spawn(contender.contend(lock, self.rounds)));
                    }
                    sessions.push(session);
                }
                chaos.run_during(&ensemble, tasks).await;
                ensemble.assert_nothing_left(sessions).await;
                for (what, count) in &judge.lock().unwrap().record.counts {
                    total.borrow_mut().count(what, *count);
                }
            });
        let counts = total.into_inner().counts;
        println!("{counts:?} in {checked}");
        for (what, least) in enough {
            let count = counts.get(what).copied().unwrap_or_default();
            let is_enough = checked.seeds == 1 || count > least * checked.seeds;
            assert!(is_enough, "{count} {what} prove nothing");
        }
    }
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            seeds: 300,
            sessions: 5,
            rounds: 6,
            lasting: Duration::from_secs(6),
        }
    }
}

/// A fair lock that its holders yield before they release it.
struct Yielding(FairLock);

impl Judged for Yielding {
    type Guard = Guard;
    type Seen = Option<FencingToken>;

    async fn attempt(&self, random: &mut Rng) -> Result<Option<Guard>, AcquireError> {
        self.0.attempt(random).await
    }

    fn check(record: &mut Record<Self::Seen>, granted: &Held<Guard>, valid: &[Arc<Held<Guard>>]) {
        FairLock::check(record, granted, valid);
    }

    async fn while_held(&self, guard: Guard, me: &mut Contender<Self>) -> Option<Guard> {
        if me.random.u8(0..3) == 0 {
            return Some(guard);
        }
        let kept = guard.fencing_token();
        let guard = match guard.yield_now().await {
            Ok(guard) => guard,
            Err(YieldError::GivenUp { .. }) => return None,
            Err(error) if error.class() == ErrorClass::Fatal => return None,
            Err(error) => panic!("{error:?}"),
        };
        if guard.fencing_token() == kept {
            // No other contender has held it, and this is the same grant.
            let highest = me.judge().record.seen.take();
            assert_eq!(highest, Some(kept), "{guard:?}");
        } else {
            me.judge().record.count("exchanges", 1);
        }
        Some(me.hold(guard).await)
    }
}

#[test]
fn under_random_faults_no_two_guards_are_valid() {
    let trial = Trial {
        seeds: 600,
        rounds: 8,
        ..Trial::default()
    };
    trial.run(|session| [lock(session)], &[("grants", 20)]);
}

#[test]
fn under_random_faults_yields_keep_the_lock_exclusive() {
    let trial = Trial {
        rounds: 8,
        ..Trial::default()
    };
    trial.run(
        |session| [Yielding(lock(session))],
        &[("grants", 20), ("exchanges", 5)],
    );
}
