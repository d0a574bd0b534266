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
        StateChanges,
        ElectionOptions,
        ParticipantEnd,
        ParticipantHandle,
        LeaderLatch,
        LeaderLease,
        LeadershipLoss,
        Participant,
        Rejoin,
        ResignError,
        ParticipantState,
        RequestStepDown,
        StepDown,
        StepDownError,
        StepDownPolicy,
    );
    // There is one of each participant.
    is_send::<LatchParticipant>();
    is_sync::<LatchParticipant>();
    is_send::<Selector>();
    is_sync::<Selector>();
    is_send::<Breadcrumb>();
    is_sync::<Breadcrumb>();
    is_error::<TakeOverError<std::io::Error>>();
    is_error::<ParticipantEnd>();
    is_send::<StepDownRequest>();
    is_sync::<StepDownRequest>();
    is_error::<ResignError>();
    is_error::<StepDownError>();
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
    is_send_future(ParticipantHandle::leading);
    is_send_future(ParticipantHandle::ended);
    is_send_future(ParticipantHandle::resign);
    is_send_future(ParticipantHandle::leave);
    let _ = |lease: LeaderLease| {
        let fence = async |_| Err(std::io::Error::other("it does not answer"));
        is_send_value(&Breadcrumb::take_over(&lease, "", fence));
    };
    let _ = |breadcrumb: Breadcrumb| is_send_value(&breadcrumb.remove());
    let _ = |participant: LatchParticipant| is_send_value(&participant.leave());
    let _ = |mut changes: StateChanges| is_send_value(&changes.next());
    let _ = |one: Selector| is_send_value(&one.run_once(|lease| async move { lease.txn() }));
    let _ = |one: Selector| is_send_value(&one.run_once(async |lease: LeaderLease| lease.txn()));
    let _ = |one: Selector| {
        is_send_value(&one.run(async |lease: LeaderLease| {
            lease.asked_to_resign().await;
            ControlFlow::Break(lease)
        }));
    };
}

/// The futures of a lease outlive it, and can be spawned.
#[test]
fn futures_of_a_lease_borrow_nothing() {
    fn is_static<T: 'static>(_: &T) {}
    let _ = |lease: LeaderLease| {
        is_static(&lease.lost());
        is_static(&lease.asked_to_resign());
    };
}
