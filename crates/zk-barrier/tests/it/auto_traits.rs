//! Which public types may move between threads and be shared: a table the compiler checks.

use std::time::Duration;

use zk_barrier::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_value<T: Send>(_: &T) {}
fn is_send_future<T: 'static, F: Future + Send>(_: impl Fn(&'static T) -> F) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        Barrier,
        DoubleBarrier,
        EnterError,
        Layout,
        LeaveError,
        MemberLoss
    );
    is_send::<Member>();
    is_sync::<Member>();
    is_error::<EnterError>();
    is_error::<LeaveError>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(Barrier::set);
    is_send_future(Barrier::remove);
    is_send_future(Barrier::is_set);
    is_send_future(Barrier::wait);
    is_send_future(|barrier: &Barrier| barrier.wait_timeout(Duration::ZERO));
    is_send_future(DoubleBarrier::enter);
    is_send_future(|barrier: &DoubleBarrier| barrier.enter_timeout(Duration::ZERO));
    is_send_future(Member::lost);
    let _ = |member: Member| is_send_value(&member.leave());
    let _ = |member: Member| is_send_value(&member.leave_timeout(Duration::ZERO));
}
