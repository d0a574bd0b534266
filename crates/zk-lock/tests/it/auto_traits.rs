//! Which public types may move between threads and be shared: a table the compiler checks.

use std::time::Duration;

use zk_lock::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_future<F: Future + Send>(_: impl Fn(&'static FairLock) -> F) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

// covers: L1
#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        AcquireError,
        Ahead,
        Contender,
        FairLock,
        FencingToken,
        Layout,
        LockOptions,
        Loss,
        ReleaseError,
        RunError,
        SequenceExhausted,
        TimedOut,
    );
    // Whoever has the guard has the lock: there is one of it.
    is_send::<Guard>();
    is_sync::<Guard>();
    is_error::<AcquireError>();
    is_error::<ReleaseError>();
    is_error::<RunError>();
    is_error::<SequenceExhausted>();
    is_error::<TimedOut>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(FairLock::acquire);
    is_send_future(FairLock::try_acquire);
    is_send_future(|lock| lock.acquire_timeout(Duration::ZERO));
    is_send_future(FairLock::contenders);
    is_send_future(|lock| lock.run(|token| async move { token }));
    is_send_future(|lock| lock.run(async |token| token));
    is_send_future(|lock| async {
        let guard = lock.acquire().await.unwrap();
        let lost = guard.lost();
        guard.txn().commit().await.unwrap();
        guard.release().await.unwrap();
        lost.await
    });
}

/// A future that outlives its guard may be spawned.
#[test]
fn lost_borrows_nothing() {
    fn is_static<T: 'static>(_: &T) {}
    let _ = |guard: Guard| is_static(&guard.lost());
}
