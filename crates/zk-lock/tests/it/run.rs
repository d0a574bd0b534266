//! Bodies that run under a lock, with a time limit for the wait.

use std::cell::Cell;
use std::time::Duration;

use zk_core::Session;
use zk_lock::{
    AcquireError, AnyLock, CohortLock, FairLock, Lock, LockGuard as _, MultiLock, RaceLock,
    ReentrantLock, RunError, RwLock, Semaphore,
};

use crate::{connect, names, soon, with_ensemble};

#[tokio::test(flavor = "multi_thread")]
async fn run_timeout_bounds_the_wait_for_each_kind_of_lock() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let rw = |session: &Session| RwLock::new(session, "/rw").unwrap();
        bounds_on(&one, &other, |session| {
            FairLock::new(session, "/fair").unwrap()
        })
        .await;
        bounds_on(&one, &other, |session| {
            CohortLock::new(session, "/cohort").unwrap()
        })
        .await;
        bounds_on(&one, &other, |session| {
            RaceLock::new(session, "/race").unwrap()
        })
        .await;
        bounds_on(&one, &other, |session| {
            ReentrantLock::new(session, "/own").unwrap()
        })
        .await;
        bounds_on(&one, &other, |session| {
            Semaphore::new(session, "/leases", 1).unwrap()
        })
        .await;
        bounds_on(&one, &other, |session| rw(session).writer().clone()).await;
        Box::pin(bounds_the_wait(
            rw(&one).writer(),
            rw(&other).reader().clone(),
        ))
        .await;
        for session in [&one, &other] {
            soon("each waiter leaves", session.settled()).await;
        }
        for path in ["/fair", "/cohort", "/own", "/rw", "/leases/locks"] {
            assert_eq!(names(&one, path).await, [""; 0], "{path}");
        }
        assert_eq!(one.exists("/race").await.unwrap(), None);
    })
    .await;
}

async fn bounds_on<L: Lock>(one: &Session, other: &Session, lock: impl Fn(&Session) -> L) {
    Box::pin(bounds_the_wait(&lock(one), lock(other))).await;
}

/// A body runs only if its lock is free within the limit, and under that lock.
async fn bounds_the_wait<H: Lock, L: Lock>(holder: &H, waiter: L) {
    let held = holder.acquire().await.unwrap();
    let limit = Duration::from_millis(200);
    let has_run = Cell::new(false);
    let run = waiter.run_timeout(limit, async |_| has_run.set(true));
    let error = soon("the limit ends the wait", run).await.unwrap_err();
    let RunError::Acquire(AcquireError::TimedOut(timed_out)) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(
        (timed_out.path(), timed_out.limit()),
        (waiter.path(), limit)
    );
    assert!(!has_run.get(), "the lock was held by another");

    // Granted within the limit: the body runs under the lock, which is free afterwards.
    let limit = Duration::from_secs(60);
    let body = async |_| holder.try_acquire().await.unwrap().is_none();
    let run = waiter.run_timeout(limit, body);
    let (is_exclusive, released) = soon("the lock is granted", async {
        tokio::join!(run, held.release())
    })
    .await;
    released.unwrap();
    assert!(is_exclusive.unwrap(), "the body holds the lock");
    let next = soon("the lock is free", holder.acquire()).await;
    next.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn run_timeout_of_several_locks_gives_back_those_it_had() {
    with_ensemble(async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let locks = |session: &Session| {
            MultiLock::new(
                ["/a", "/b"].map(|path| AnyLock::from(FairLock::new(session, path).unwrap())),
            )
            .unwrap()
        };
        let held = FairLock::new(&one, "/b").unwrap().acquire().await.unwrap();
        // Long enough to get as far as the one that is held.
        let limit = Duration::from_secs(10);
        let both = locks(&other);
        let run = both.run_timeout(limit, async |_| panic!("one lock is held"));
        let error = soon("the limit ends the wait", run).await.unwrap_err();
        let RunError::Acquire(AcquireError::TimedOut(timed_out)) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(timed_out.path().as_str(), "/b");
        soon("what it had is given back", other.settled()).await;
        assert_eq!(names(&one, "/a").await, [""; 0]);
        assert_eq!(names(&one, "/b").await.len(), 1);

        held.release().await.unwrap();
        let limit = Duration::from_secs(60);
        let run = both.run_timeout(limit, async |tokens| tokens);
        assert_eq!(soon("both are free", run).await.unwrap().len(), 2);
    })
    .await;
}
