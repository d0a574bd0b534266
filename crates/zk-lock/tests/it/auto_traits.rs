//! Which public types may move between threads and be shared: tables the compiler checks.

use std::time::Duration;

use zk_lock::*;
use zk_testkit::{assert_impl, assert_send_futures};

const ZERO: Duration = Duration::ZERO;

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            AcquireError, AcquireProgress, Ahead, AnyLock, CohortLimits, CohortLock, CohortToken, Contender,
            ContenderStatus, FairLock, FencingToken, Inspector, Layout, LimitError, LockEvent, LockLoss, LockOptions,
            LockSnapshot, MultiLock, MultiLockError, MultiTxnError, OneShotLease, OneShotLeaseOptions, OwnerInfo,
            RaceLock, ReadLock, Reap, ReapError, ReentrantLock, ReleaseError, Removal, Revocation, Revoke, RevokeError,
            Role, RunError, RwLock, RwLockError, Semaphore, SequenceExhausted, TimedOut, WriteLock, YieldError;
        // A guard is unique: its owner holds the lock.
        Send + Sync:
            AnyGuard, CohortGuard, Guard, HeldLock, LockEvents, MultiGuard, ReadGuard, ReentrantGuard,
            RevocationRequest, SemaphoreLease, Waiter, WriteGuard;
        Error + Send + Sync:
            AcquireError, DowngradeError, LimitError, MultiLockError, MultiTxnError, ReapError, ReleaseError,
            RevokeError, RunError, RwLockError, SequenceExhausted, TakeLeaseError, TimedOut, UpgradeError, YieldError;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        (lock: FairLock) =>
            lock.acquire(), lock.try_acquire(), lock.acquire_timeout(ZERO),
            lock.run(|token| async move { token }), lock.run(async |token| token),
            lock.run_timeout(ZERO, async |token| token),
            async {
                let waiter = lock.enlist().await.unwrap();
                let lost = waiter.lost();
                drop(waiter.granted().await.unwrap());
                lost.await
            },
            async {
                let guard = lock.acquire().await.unwrap();
                let lost = guard.lost();
                guard.txn().commit().await.unwrap();
                guard.release().await.unwrap();
                lost.await
            };
    }
}

#[test]
fn futures_of_the_inspector_are_send() {
    assert_send_futures! {
        (lock: FairLock) =>
            lock.acquire_with_progress(|_| ()),
            async {
                let inspector = lock.inspector();
                let snapshot = inspector.snapshot().await.unwrap();
                for status in snapshot.contenders() {
                    let contender = status.contender();
                    inspector.revoke(contender).then_break().await.unwrap();
                    inspector.remove(contender).await.unwrap();
                }
                inspector.reap(Reap::All).await
            },
            async {
                let mut events = lock.events();
                let guard = lock.acquire().await.unwrap();
                guard.revocation_requested().await?.accept().await.unwrap();
                Ok::<_, LockLoss>(events.next().await)
            };
    }
}

#[test]
fn futures_of_the_other_locks_are_send() {
    assert_send_futures! {
        (lock: ReadLock) => lock.acquire(), lock.try_acquire(), lock.acquire_timeout(ZERO);
        (lock: WriteLock) => lock.acquire(), lock.try_acquire(), lock.acquire_timeout(ZERO);
        (inspector: Inspector) => inspector.contenders(), inspector.first_contender();
        (lock: RwLock) => async {
            let writing = lock.writer().acquire().await.unwrap();
            let reading = writing.downgrade().await.unwrap();
            let writing = reading.upgrade().await.unwrap();
            let reading = writing.downgrade().await.unwrap();
            let writing = reading.upgrade_timeout(ZERO).await.unwrap();
            writing.release().await.unwrap();
        };
        (lock: ReentrantLock) => lock.acquire(), lock.try_acquire(), lock.acquire_timeout(ZERO);
        (guard: ReentrantGuard) => guard.release();
    }
}

#[test]
fn public_futures_of_cohorts_are_send() {
    assert_send_futures! {
        (lock: CohortLock) =>
            lock.acquire(), lock.try_acquire(), lock.acquire_timeout(ZERO),
            async {
                let guard = lock.acquire().await.unwrap();
                let lost = guard.lost();
                guard.txn().commit().await.unwrap();
                guard.release().await.unwrap();
                lost.await
            };
    }
}

/// Generic code spawns the futures of any kind of lock, and each kind converts for a `MultiLock`.
#[test]
fn every_kind_is_a_lock_with_futures_that_are_send() {
    fn is_lock<L: Lock + 'static>() {
        fn is_send<F: Future + Send>(_: F) {}
        let _ = |lock: &'static L, progress: &'static AcquireProgress| {
            is_send(lock.acquire());
            is_send(lock.try_acquire());
            is_send(lock.acquire_timeout(ZERO));
            is_send(lock.acquire_with_progress(|_| ()));
            is_send(lock.acquire_reporting_to(progress));
        };
        let _ = |guard: L::Guard| is_send(guard.release());
        let _ = |lock: L| AnyLock::from(lock);
    }
    is_lock::<FairLock>();
    is_lock::<CohortLock>();
    is_lock::<RaceLock>();
    is_lock::<ReadLock>();
    is_lock::<WriteLock>();
    is_lock::<ReentrantLock>();
    is_lock::<Semaphore>();
    assert_send_futures! {
        (lock: Semaphore) => lock.run(async |token| token), lock.run_timeout(ZERO, async |token| token);
        (lock: CohortLock) => lock.run(async |token| token), lock.run_timeout(ZERO, async |token| token);
        (lock: MultiLock) =>
            lock.run(async |tokens| tokens), lock.run_timeout(ZERO, async |tokens| tokens),
            lock.acquire_with_progress(|_| ());
    }
}

/// A future that outlives its guard may be spawned.
#[test]
fn lost_borrows_nothing() {
    assert_send_futures! {
        'static (guard: Guard) => guard.lost(), guard.revocation_requested();
        'static (guard: CohortGuard) => guard.lost();
    }
}

#[test]
fn futures_of_locks_that_are_several_are_send() {
    assert_send_futures! {
        (semaphore: Semaphore) =>
            semaphore.acquire(), semaphore.with_count(2).try_acquire(), semaphore.with_count(2).acquire_timeout(ZERO),
            semaphore.limit(), semaphore.set_limit(2);
        (multi: MultiLock) => multi.acquire(), multi.try_acquire(), multi.acquire_timeout(ZERO);
        (race: RaceLock) => race.acquire(), race.try_acquire(), race.acquire_timeout(ZERO);
        (guard: Guard) => guard.yield_now();
        (guard: ReadGuard) => guard.yield_now();
        (guard: WriteGuard) => guard.yield_now();
        (lease: SemaphoreLease) => lease.lost(), lease.release();
        (guard: MultiGuard) => guard.lost(), guard.release();
    }
}
