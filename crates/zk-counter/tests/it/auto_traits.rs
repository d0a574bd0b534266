//! Which public types may move between threads and be shared: tables the compiler checks.

use zk_counter::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            AtomicCounter, CompareAndSetOutcome, CounterError, CounterOptions, Format, SharedCount, SharedValue,
            TrySetOutcome, Versioned<zk_core::Bytes>;
        Send + Sync: CountChanges, ValueChanges;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        (counter: AtomicCounter) =>
            counter.get(), counter.increment(), counter.set(1), counter.compare_and_set(1, 2);
        (count: SharedCount) =>
            count.synchronized(), count.set(1), async { count.changes().next().await },
            async {
                let seen = count.synchronized().await?;
                count.try_set(&seen, 2).await
            };
        (value: SharedValue) =>
            value.update(|_| None), value.set(""), async { value.changes().next().await };
    }
}
