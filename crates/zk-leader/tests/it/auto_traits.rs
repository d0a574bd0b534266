//! Which public types may move between threads and be shared: tables the compiler checks.

use std::io;
use std::ops::ControlFlow;

use zk_leader::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            ElectionOptions, LeaderLatch, LeaderLease, LeadershipLoss, Participant, ParticipantEnd, ParticipantHandle,
            ParticipantState, Rejoin, RequestStepDown, ResignError, StateChanges, StepDown, StepDownError,
            StepDownPolicy;
        // There is one of each participant.
        Send + Sync: Breadcrumb, LatchParticipant, Selector, StepDownRequest;
        Error + Send + Sync: ParticipantEnd, ResignError, StepDownError, TakeOverError<io::Error>;
    }
}

#[test]
fn public_futures_are_send() {
    let fence = async |_| Err(io::Error::other("it does not answer"));
    assert_send_futures! {
        (latch: LeaderLatch) => latch.participants(), latch.leader(), latch.leader_after(None);
        (selector: Selector) => selector.participants(), selector.leader(), selector.leader_after(None);
        (handle: ParticipantHandle) => handle.leading(), handle.ended(), handle.resign(), handle.leave();
        (lease: LeaderLease) => Breadcrumb::take_over(&lease, "", fence);
        (breadcrumb: Breadcrumb) => breadcrumb.remove();
        (participant: LatchParticipant) => participant.leave();
        (changes: StateChanges) => changes.next();
        (selector: Selector) =>
            selector.run_once(|lease| async move { lease.txn() }),
            selector.run_once(async |lease: LeaderLease| lease.txn()),
            selector.run(async |lease: LeaderLease| {
                lease.asked_to_resign().await;
                ControlFlow::Break(lease)
            });
    }
}

/// The futures of a lease outlive it, and can be spawned.
#[test]
fn futures_of_a_lease_borrow_nothing() {
    assert_send_futures! { 'static (lease: LeaderLease) => lease.lost(), lease.asked_to_resign(); }
}
