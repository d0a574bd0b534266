//! Which public types may move between threads and be shared: a table the compiler checks.

use std::ops::ControlFlow;

use zk_leader::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_future<T: 'static, F: Future + Send>(_: impl Fn(&'static T) -> F) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        Changes,
        ElectionOptions,
        End,
        Handle,
        LeaderLatch,
        Lease,
        Loss,
        Participant,
        Rejoin,
        ResignError,
        State,
    );
    // There is one of each participant.
    is_send::<Candidacy>();
    is_sync::<Candidacy>();
    is_send::<Selector>();
    is_sync::<Selector>();
    is_error::<End>();
    is_error::<ResignError>();
}

#[test]
fn public_futures_are_send() {
    fn is_send_value<T: Send>(_: &T) {}
    is_send_future(LeaderLatch::participants);
    is_send_future(LeaderLatch::leader);
    is_send_future(|latch: &LeaderLatch| latch.leader_after(None));
    is_send_future(Selector::participants);
    is_send_future(Selector::leader);
    is_send_future(|selector: &Selector| selector.leader_after(None));
    is_send_future(Candidacy::leading);
    is_send_future(Candidacy::resign);
    is_send_future(Handle::leading);
    is_send_future(Handle::ended);
    is_send_future(Handle::resign);
    is_send_future(Handle::leave);
    let _ = |candidacy: Candidacy| is_send_value(&candidacy.leave());
    let _ = |mut changes: Changes| is_send_value(&changes.next());
    let _ = |one: Selector| is_send_value(&one.run_once(|lease| async move { lease.txn() }));
    let _ = |one: Selector| is_send_value(&one.run_once(async |lease: Lease| lease.txn()));
    let _ = |one: Selector| {
        is_send_value(&one.run(async |lease: Lease| {
            lease.asked_to_resign().await;
            ControlFlow::Break(lease)
        }));
    };
}

/// What tells of an end outlives what ended, and may be spawned.
#[test]
fn futures_of_a_lease_borrow_nothing() {
    fn is_static<T: 'static>(_: &T) {}
    let _ = |lease: Lease| {
        is_static(&lease.lost());
        is_static(&lease.asked_to_resign());
    };
}
