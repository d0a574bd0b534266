//! Which public types may move between threads and be shared: a table the compiler checks.

use std::time::Duration;

use zk_lock::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_future<L: 'static, F: Future + Send>(_: impl Fn(&'static L) -> F) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        AcquireError,
        AcquireProgress,
        Ahead,
        AnyLock,
        CohortLimits,
        CohortLock,
        CohortToken,
        Contender,
        FairLock,
        FencingToken,
        Inspector,
        Layout,
        LimitError,
        LockOptions,
        OneShotLease,
        OneShotLeaseOptions,
        LockEvent,
        LockLoss,
        OwnerInfo,
        LockSnapshot,
        Reap,
        ReapError,
        Removal,
        Revocation,
        Revoke,
        RevokeError,
        Role,
        ContenderStatus,
        RwLockError,
        ReentrantLock,
        MultiLock,
        MultiLockError,
        RaceLock,
        ReleaseError,
        RunError,
        RwLock,
        Semaphore,
        SequenceExhausted,
        MultiTxnError,
        ReadLock,
        WriteLock,
        YieldError,
        TimedOut,
    );
    // A guard is unique: its owner holds the lock.
    is_send::<Guard>();
    is_sync::<Guard>();
    is_send::<LockEvents>();
    is_sync::<LockEvents>();
    is_send::<RevocationRequest>();
    is_sync::<RevocationRequest>();
    is_error::<ReapError>();
    is_error::<RevokeError>();
    is_send::<ReadGuard>();
    is_sync::<ReadGuard>();
    is_send::<WriteGuard>();
    is_sync::<WriteGuard>();
    is_send::<ReentrantGuard>();
    is_sync::<ReentrantGuard>();
    is_send::<CohortGuard>();
    is_sync::<CohortGuard>();
    is_send::<Waiter>();
    is_sync::<Waiter>();
    is_error::<AcquireError>();
    is_error::<DowngradeError>();
    is_error::<RwLockError>();
    is_error::<UpgradeError>();
    is_send::<SemaphoreLease>();
    is_sync::<SemaphoreLease>();
    is_send::<HeldLock>();
    is_sync::<HeldLock>();
    is_send::<AnyGuard>();
    is_sync::<AnyGuard>();
    is_send::<MultiGuard>();
    is_sync::<MultiGuard>();
    is_error::<AcquireError>();
    is_error::<LimitError>();
    is_error::<MultiLockError>();
    is_error::<MultiTxnError>();
    is_error::<ReleaseError>();
    is_error::<RunError>();
    is_error::<TakeLeaseError>();
    is_error::<YieldError>();
    is_error::<SequenceExhausted>();
    is_error::<TimedOut>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(FairLock::acquire);
    is_send_future(FairLock::try_acquire);
    is_send_future(|lock: &FairLock| lock.acquire_timeout(Duration::ZERO));
    is_send_future(|lock: &FairLock| async {
        let waiter = lock.enlist().await.unwrap();
        let lost = waiter.lost();
        drop(waiter.granted().await.unwrap());
        lost.await
    });
    is_send_future(|lock: &FairLock| lock.run(|token| async move { token }));
    is_send_future(|lock: &FairLock| lock.run(async |token| token));
    is_send_future(|lock: &FairLock| lock.run_timeout(Duration::ZERO, async |token| token));
    is_send_future(|lock: &FairLock| async {
        let guard = lock.acquire().await.unwrap();
        let lost = guard.lost();
        guard.txn().commit().await.unwrap();
        guard.release().await.unwrap();
        lost.await
    });
}

#[test]
fn futures_of_the_inspector_are_send() {
    is_send_future(|lock: &FairLock| lock.acquire_with_progress(|_| ()));
    is_send_future(|lock: &FairLock| async {
        let inspector = lock.inspector();
        let snapshot = inspector.snapshot().await.unwrap();
        for status in snapshot.contenders() {
            let contender = status.contender();
            inspector.revoke(contender).then_break().await.unwrap();
            inspector.remove(contender).await.unwrap();
        }
        inspector.reap(Reap::All).await
    });
    is_send_future(|lock: &FairLock| async {
        let mut events = lock.events();
        let guard = lock.acquire().await.unwrap();
        guard.revocation_requested().await?.accept().await.unwrap();
        Ok::<_, LockLoss>(events.next().await)
    });
}

#[test]
fn futures_of_the_other_locks_are_send() {
    is_send_future(ReadLock::acquire);
    is_send_future(WriteLock::acquire);
    is_send_future(ReadLock::try_acquire);
    is_send_future(WriteLock::try_acquire);
    is_send_future(|lock: &ReadLock| lock.acquire_timeout(Duration::ZERO));
    is_send_future(|lock: &WriteLock| lock.acquire_timeout(Duration::ZERO));
    is_send_future(Inspector::contenders);
    is_send_future(Inspector::first_contender);
    is_send_future(|lock: &RwLock| async {
        let writing = lock.writer().acquire().await.unwrap();
        let reading = writing.downgrade().await.unwrap();
        let writing = reading.upgrade().await.unwrap();
        let reading = writing.downgrade().await.unwrap();
        let writing = reading.upgrade_timeout(Duration::ZERO).await.unwrap();
        writing.release().await.unwrap();
    });
    is_send_future(ReentrantLock::acquire);
    is_send_future(ReentrantLock::try_acquire);
    is_send_future(|lock: &ReentrantLock| lock.acquire_timeout(Duration::ZERO));
    is_send_future(|lock: &ReentrantLock| async {
        let guard = lock.acquire().await.unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn public_futures_of_cohorts_are_send() {
    fn is_send_future<F: Future + Send>(_: impl Fn(&'static CohortLock) -> F) {}
    is_send_future(CohortLock::acquire);
    is_send_future(CohortLock::try_acquire);
    is_send_future(|lock| lock.acquire_timeout(Duration::ZERO));
    is_send_future(|lock| async {
        let guard = lock.acquire().await.unwrap();
        let lost = guard.lost();
        guard.txn().commit().await.unwrap();
        guard.release().await.unwrap();
        lost.await
    });
}

/// Generic code spawns the futures of any kind of lock, and each kind converts for a `MultiLock`.
#[test]
fn every_kind_is_a_lock_with_futures_that_are_send() {
    fn is_lock<L: Lock + 'static>() {
        fn is_send<F: Future + Send>(_: F) {}
        let _ = |lock: &'static L, progress: &'static AcquireProgress| {
            is_send(lock.acquire());
            is_send(lock.try_acquire());
            is_send(lock.acquire_timeout(Duration::ZERO));
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
    is_send_future(|lock: &Semaphore| lock.run(async |token| token));
    is_send_future(|lock: &Semaphore| lock.run_timeout(Duration::ZERO, async |token| token));
    is_send_future(|lock: &CohortLock| lock.run(async |token| token));
    is_send_future(|lock: &CohortLock| lock.run_timeout(Duration::ZERO, async |token| token));
    is_send_future(|lock: &MultiLock| lock.run(async |tokens| tokens));
    is_send_future(|lock: &MultiLock| lock.run_timeout(Duration::ZERO, async |tokens| tokens));
    is_send_future(|lock: &MultiLock| lock.acquire_with_progress(|_| ()));
}

/// A future that outlives its guard may be spawned.
#[test]
fn lost_borrows_nothing() {
    fn is_static<T: 'static>(_: &T) {}
    let _ = |guard: Guard| {
        is_static(&guard.lost());
        is_static(&guard.revocation_requested());
    };
    let _ = |guard: Guard| is_static(&guard.lost());
    let _ = |guard: CohortGuard| is_static(&guard.lost());
}

#[test]
fn futures_of_locks_that_are_several_are_send() {
    fn is_send<F: Future + Send>(_: F) {}
    let _ = |semaphore: &'static Semaphore| {
        is_send(semaphore.acquire());
        is_send(semaphore.with_count(2).try_acquire());
        is_send(semaphore.with_count(2).acquire_timeout(Duration::ZERO));
        is_send(semaphore.limit());
        is_send(semaphore.set_limit(2));
    };
    let _ = |multi: &'static MultiLock, race: &'static RaceLock| {
        is_send(multi.acquire());
        is_send(multi.try_acquire());
        is_send(multi.acquire_timeout(Duration::ZERO));
        is_send(race.acquire());
        is_send(race.try_acquire());
        is_send(race.acquire_timeout(Duration::ZERO));
    };
    let _ = |guard: Guard, reading: ReadGuard, writing: WriteGuard| {
        is_send(guard.yield_now());
        is_send(reading.yield_now());
        is_send(writing.yield_now());
    };
    let _ = |lease: SemaphoreLease, guard: MultiGuard| {
        is_send(lease.lost());
        is_send(guard.lost());
        is_send(lease.release());
        is_send(guard.release());
    };
}
