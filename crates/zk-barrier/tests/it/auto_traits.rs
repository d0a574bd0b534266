//! Which public types may move between threads and be shared: tables the compiler checks.

use std::time::Duration;

use zk_barrier::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            Barrier, DoubleBarrier, EnterError, Layout, LeaveError, MemberLoss;
        Send + Sync: Member;
        Error + Send + Sync: EnterError, LeaveError;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        (barrier: Barrier) =>
            barrier.set(), barrier.remove(), barrier.is_set(), barrier.wait(),
            barrier.wait_timeout(Duration::ZERO);
        (barrier: DoubleBarrier) => barrier.enter(), barrier.enter_timeout(Duration::ZERO);
        (member: Member) => member.lost(), member.leave(), member.leave_timeout(Duration::ZERO);
    }
}
