//! Locks of every kind, tried again by the session that has just released them.

use std::any::Any;
use std::time::Duration;

use zk_core::Session;
use zk_lock::{CohortLock, FairLock, MultiLock, RaceLock, ReentrantLock, RwLock, Semaphore};
use zk_sim::wait::{polled, soon};

/// A value that releases a lock when it is dropped.
type Held = Box<dyn Any + Send>;

/// A handle of a lock.
#[derive(Debug, Clone)]
pub(crate) enum Lock {
    Fair(FairLock),
    /// Held for reading, tried for writing.
    Read(RwLock),
    Write(RwLock),
    Reentrant(ReentrantLock),
    Race(RaceLock),
    Cohort(CohortLock),
    Multi(MultiLock),
    Semaphore(Semaphore),
}

/// Every kind of lock below a path.
pub(crate) fn all(session: &Session, path: &str) -> Vec<Lock> {
    let at = |kind: &str| format!("{path}/{kind}");
    let fair = |kind: &str| FairLock::new(session, at(kind)).unwrap();
    vec![
        Lock::Fair(fair("fair")),
        Lock::Read(RwLock::new(session, at("read")).unwrap()),
        Lock::Write(RwLock::new(session, at("write")).unwrap()),
        Lock::Reentrant(ReentrantLock::new(session, at("reentrant")).unwrap()),
        Lock::Race(RaceLock::new(session, at("race")).unwrap()),
        Lock::Cohort(CohortLock::new(session, at("cohort")).unwrap()),
        Lock::Multi(MultiLock::new([fair("multi-1"), fair("multi-2")]).unwrap()),
        Lock::Semaphore(Semaphore::new(session, at("semaphore"), 1).unwrap()),
    ]
}

impl Lock {
    fn name(&self) -> &'static str {
        match self {
            Self::Fair(_) => "fair",
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Reentrant(_) => "reentrant",
            Self::Race(_) => "race",
            Self::Cohort(_) => "cohort",
            Self::Multi(_) => "multi",
            Self::Semaphore(_) => "semaphore",
        }
    }

    async fn acquire(&self) -> Held {
        match self {
            Self::Fair(lock) => Box::new(lock.acquire().await.unwrap()),
            Self::Read(lock) => Box::new(lock.reader().acquire().await.unwrap()),
            Self::Write(lock) => Box::new(lock.writer().acquire().await.unwrap()),
            Self::Reentrant(lock) => Box::new(lock.acquire().await.unwrap()),
            Self::Race(lock) => Box::new(lock.acquire().await.unwrap()),
            Self::Cohort(lock) => Box::new(lock.acquire().await.unwrap()),
            Self::Multi(lock) => Box::new(lock.acquire().await.unwrap()),
            Self::Semaphore(lock) => Box::new(lock.acquire().await.unwrap()),
        }
    }

    async fn try_acquire(&self) -> Option<Held> {
        fn held<T: Send + 'static>(held: T) -> Held {
            Box::new(held)
        }
        match self {
            Self::Fair(lock) => lock.try_acquire().await.unwrap().map(held),
            Self::Read(lock) | Self::Write(lock) => {
                lock.writer().try_acquire().await.unwrap().map(held)
            }
            Self::Reentrant(lock) => lock.try_acquire().await.unwrap().map(held),
            Self::Race(lock) => lock.try_acquire().await.unwrap().map(held),
            Self::Cohort(lock) => lock.try_acquire().await.unwrap().map(held),
            Self::Multi(lock) => lock.try_acquire().await.unwrap().map(held),
            Self::Semaphore(lock) => lock.try_acquire().await.unwrap().map(held),
        }
    }

    /// Returns whether an acquire within `limit` timed out.
    async fn times_out(&self, limit: Duration) -> bool {
        match self {
            Self::Fair(lock) => lock.acquire_timeout(limit).await.is_err(),
            Self::Read(lock) => lock.reader().acquire_timeout(limit).await.is_err(),
            Self::Write(lock) => lock.writer().acquire_timeout(limit).await.is_err(),
            Self::Reentrant(lock) => lock.acquire_timeout(limit).await.is_err(),
            Self::Race(lock) => lock.acquire_timeout(limit).await.is_err(),
            Self::Cohort(lock) => lock.acquire_timeout(limit).await.is_err(),
            Self::Multi(lock) => lock.acquire_timeout(limit).await.is_err(),
            Self::Semaphore(lock) => lock.acquire_timeout(limit).await.is_err(),
        }
    }

    async fn is_free(&self, what: &str) {
        let tried = soon(what, self.try_acquire()).await;
        assert!(tried.is_some(), "{what}: the lock is free; {}", self.name());
    }
}

/// A guard is dropped, and the lock is tried at once; `times` over, by one handle and by another one of the session.
pub(crate) async fn after_a_drop(session: &Session, times: usize) {
    for (lock, other) in all(session, "/drop").into_iter().zip(all(session, "/drop")) {
        for _ in 0..times {
            drop(soon("the lock is acquired", lock.acquire()).await);
            lock.is_free("after a drop").await;
            drop(soon("the lock is acquired", lock.acquire()).await);
            other.is_free("after a drop, by another handle").await;
        }
    }
}

/// A waiter times out, and the lock is tried as soon as the holder, of another session, has released it.
pub(crate) async fn after_a_timeout(session: &Session, other: &Session, limit: Duration) {
    for (lock, theirs) in all(session, "/timeout")
        .into_iter()
        .zip(all(other, "/timeout"))
    {
        // A reader waits for a writer.
        let theirs = match theirs {
            Lock::Read(lock) => Lock::Write(lock),
            theirs => theirs,
        };
        let held = soon("the lock is acquired", theirs.acquire()).await;
        assert!(lock.times_out(limit).await, "{}", lock.name());
        // Only the node that the waiter left is ahead.
        drop(held);
        other.settled().await;
        session.sync("/").await.unwrap();
        lock.is_free("after a timeout").await;
    }
}

/// An acquire is dropped after every number of polls, `meanwhile` happens to the session, and the lock is tried at
/// once.
pub(crate) async fn after_a_cancelled_acquire(session: &Session, meanwhile: impl Fn()) {
    for lock in all(session, "/cancel") {
        for polls in 0.. {
            let what = format!("after {polls} polls");
            let acquired = soon(&what, polled(polls, lock.acquire())).await;
            let is_done = acquired.is_some();
            drop(acquired);
            meanwhile();
            lock.is_free(&what).await;
            if is_done {
                break;
            }
        }
    }
}
