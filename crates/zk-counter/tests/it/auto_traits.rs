//! Which public types may move between threads and be shared: a table the compiler checks.

use zk_core::Session;
use zk_counter::*;

fn is_send_sync_clone<T: Send + Sync + Clone>() {}
fn is_send_sync<T: Send + Sync>() {}
fn is_send_future<F: Future + Send>(_: impl Fn(Session) -> F) {}

#[test]
fn public_types_are_send_and_sync() {
    is_send_sync_clone::<AtomicCounter>();
    is_send_sync_clone::<CompareAndSetOutcome>();
    is_send_sync_clone::<CounterError>();
    is_send_sync_clone::<CounterOptions>();
    is_send_sync_clone::<Format>();
    is_send_sync_clone::<SharedCount>();
    is_send_sync_clone::<SharedValue>();
    is_send_sync_clone::<TrySetOutcome>();
    is_send_sync_clone::<Versioned<zk_core::Bytes>>();
    is_send_sync::<ValueChanges>();
    is_send_sync::<CountChanges>();
}

#[test]
fn public_futures_are_send() {
    let counter =
        |session: Session| AtomicCounter::new(&session, "/c", &CounterOptions::default()).unwrap();
    let count = |session: Session| SharedCount::start(&session, "/c", 0).unwrap();
    let value = |session: Session| SharedValue::start(&session, "/c", "").unwrap();
    is_send_future(|session| async move { counter(session).get().await });
    is_send_future(|session| async move { counter(session).increment().await });
    is_send_future(|session| async move { counter(session).set(1).await });
    is_send_future(|session| async move { counter(session).compare_and_set(1, 2).await });
    is_send_future(|session| async move { count(session).synchronized().await });
    is_send_future(|session| async move { count(session).set(1).await });
    is_send_future(|session| async move { count(session).changes().next().await });
    is_send_future(|session| async move {
        let count = count(session);
        let seen = count.synchronized().await?;
        count.try_set(&seen, 2).await
    });
    is_send_future(|session| async move { value(session).update(|_| None).await });
    is_send_future(|session| async move { value(session).set("").await });
    is_send_future(|session| async move { value(session).changes().next().await });
}
