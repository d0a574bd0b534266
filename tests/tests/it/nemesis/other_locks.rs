//! The other exclusive locks, beside the workers of the fair lock: that for many tasks, the re-entrant one, the race, and
//! several locks as one.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use zk_core::{ConnectionState, Session};
use zk_history::check::FencedMutex;
use zk_history::{Op, ReturnValue, Run};
use zk_lock::{
    AcquireError, CohortLock, CohortToken, FairLock, FencingToken, Lock, LockGuard, MultiGuard,
    MultiLock, RaceLock, ReentrantLock,
};

use super::work::{Beside, Work, open, pass};

pub(super) const COHORT: &str = "/nemesis/cohort";
pub(super) const REENTRANT: &str = "/nemesis/reentrant";
pub(super) const RACE: &str = "/nemesis/race";
/// Each session takes one of the first two, and then the last one, which both want.
pub(super) const MULTI_LOCK: [&str; 3] =
    ["/nemesis/multi-1", "/nemesis/multi-2", "/nemesis/multi-3"];
const SESSIONS: usize = 2;
/// Tasks of each session that share one handle to a cohort's lock.
const TASKS: usize = 3;

/// A token as a number that is higher for each later holder.
trait Rising {
    fn number(&self) -> u64;
}

impl Rising for FencingToken {
    fn number(&self) -> u64 {
        self.as_u64()
    }
}

impl Rising for CohortToken {
    fn number(&self) -> u64 {
        assert!(self.turn() < 1 << 20, "{self}");
        self.place_token().as_u64() << 20 | self.turn()
    }
}

/// That of the last lock, which others want, too.
impl Rising for Vec<Option<FencingToken>> {
    fn number(&self) -> u64 {
        let last = self.last().copied().flatten();
        last.expect("a fair lock has a token").as_u64()
    }
}

/// One lock, or several that are acquired as one.
trait Exclusive {
    type Guard: LockGuard<Token: Rising + Send>;

    fn path(&self) -> &str;

    fn acquire(&self) -> impl Future<Output = Result<Self::Guard, AcquireError>> + Send;
}

struct One<L>(L);

impl<L> Exclusive for One<L>
where
    L: Lock,
    <L::Guard as LockGuard>::Token: Rising + Send,
{
    type Guard = L::Guard;

    fn path(&self) -> &str {
        self.0.path().as_str()
    }

    fn acquire(&self) -> impl Future<Output = Result<L::Guard, AcquireError>> + Send {
        self.0.acquire()
    }
}

impl Exclusive for MultiLock {
    type Guard = MultiGuard;

    fn path(&self) -> &str {
        let last = self.locks().last();
        last.expect("there are two").path().as_str()
    }

    fn acquire(&self) -> impl Future<Output = Result<MultiGuard, AcquireError>> + Send {
        Self::acquire(self)
    }
}

/// Lets sessions work with each of the locks until `ends` says so.
pub(super) fn start(
    connect: &str,
    ends: &watch::Receiver<bool>,
    random: &mut fastrand::Rng,
) -> [Beside; 4] {
    let mut cohort = beside("cohort lock", "nemesis-cohort");
    let mut reentrant = beside("re-entrant lock", "nemesis-reentrant");
    let mut race = beside("race lock", "nemesis-race");
    let mut multi = beside("two locks as one", "nemesis-multi");
    for at in 0..SESSIONS {
        let tasks = (0..TASKS).map(|_| (cohort.task(ends), random.fork()));
        let tasks = tasks.collect();
        let lock =
            |session: &Session| One(CohortLock::new(session, COHORT).expect("the path is one"));
        cohort.spawn(work(connect.to_owned(), tasks, lock, false));

        let task = vec![(reentrant.task(ends), random.fork())];
        let lock = |session: &Session| {
            One(ReentrantLock::new(session, REENTRANT).expect("the path is one"))
        };
        reentrant.spawn(work(connect.to_owned(), task, lock, true));

        let task = vec![(race.task(ends), random.fork())];
        let lock = |session: &Session| One(RaceLock::new(session, RACE).expect("the path is one"));
        race.spawn(work(connect.to_owned(), task, lock, false));

        let task = vec![(multi.task(ends), random.fork())];
        let lock = match at {
            0 => |session: &Session| two_of(session, 0),
            _ => |session: &Session| two_of(session, 1),
        };
        multi.spawn(work(connect.to_owned(), task, lock, false));
    }
    [cohort, reentrant, race, multi]
}

fn two_of(session: &Session, first: usize) -> MultiLock {
    let paths = [MULTI_LOCK[first], MULTI_LOCK[2]];
    let locks = paths.map(|path| FairLock::new(session, path).expect("the path is one"));
    MultiLock::new(locks).expect("the paths differ")
}

fn beside(name: &'static str, run: &str) -> Beside {
    let run = Run::seeded(run).unwrap();
    let run = run.judged_by(FencedMutex::default()).unwrap();
    Beside::new(name, run, "grants")
}

/// Opens one session after the other, whose tasks share a handle to the lock.
async fn work<L: Exclusive>(
    connect: String,
    mut tasks: Vec<(Work, fastrand::Rng)>,
    lock: fn(&Session) -> L,
    is_reentrant: bool,
) {
    let (end, _) = tasks.first().cloned().expect("there is a task");
    let working = async {
        loop {
            let session = open(&connect).await;
            let lock = lock(&session);
            let turns = tasks.iter_mut().map(async |(work, random)| {
                while !session.state().is_lost() {
                    turn(&session, &lock, work, random, is_reentrant).await;
                }
            });
            join_all(turns).await;
        }
    };
    end.until_over(Box::pin(working)).await;
}

/// Acquires the lock, now and then twice if that is allowed, holds it for a moment, and releases it.
async fn turn<L: Exclusive>(
    session: &Session,
    lock: &L,
    work: &Work,
    random: &mut fastrand::Rng,
    is_reentrant: bool,
) {
    let acquire = work.recorder.invoke(Op::acquire(lock.path()));
    let guard = match lock.acquire().await {
        Ok(guard) => guard,
        Err(error) => return acquire.unknown(error.to_string()),
    };
    let token = guard.token().number();
    let held = work.granted(session, acquire, ReturnValue::token(token));
    let (time, again) = (Duration::from_millis(random.u64(0..8)), random.bool());
    let holding = async {
        if is_reentrant && again {
            // Another token is one of another holding: the first one was lost.
            match lock.acquire().await {
                Ok(inner) if inner.token().number() == token => drop(inner.release().await),
                _ => return false,
            }
        }
        pass(time).await;
        // The leader does not answer it for a session that is over, which may have been ended by force.
        session.sync("/").await.is_ok() && session.state() == ConnectionState::Connected
    };
    let holds = tokio::select! {
        biased;
        _loss = guard.held().lost() => false,
        holds = holding => holds,
    };
    work.end(guard, held, holds).await;
}
