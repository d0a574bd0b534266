//! Public types and futures that are `Send`, `Sync` or `Clone`, checked by the compiler.

use zk_group::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_value<T: Send>(_: &T) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        Group,
        JoinError,
        Layout,
        Member,
        MemberChange,
        Members,
        SetPayloadError,
    );
    is_send::<Membership>();
    is_sync::<Membership>();
    is_send::<MembersChanges>();
    is_error::<JoinError>();
    is_error::<SetPayloadError>();
}

#[test]
fn public_futures_are_send() {
    let _ = |one: Membership| {
        is_send_value(&one.ready());
        is_send_value(&one.set_payload(""));
        is_send_value(&one.leave());
    };
    let _ = |group: Group| {
        is_send_value(&group.synchronized());
        is_send_value(&group.wait_for(Members::is_empty));
    };
    let _ = |mut changes: MembersChanges| is_send_value(&changes.next());
}

#[cfg(feature = "partitioner")]
mod partitioner {
    use zk_group::partitioner::*;

    use super::*;

    #[test]
    fn public_types_are_send_and_sync() {
        send_sync_clone!(
            Allocation,
            InvalidItem,
            PartitionerOptions,
            PartitionerProblem,
            StartError,
        );
        is_send::<Partitioner>();
        is_sync::<Partitioner>();
        is_send::<ItemGuard>();
        is_sync::<ItemGuard>();
        is_error::<InvalidItem>();
        is_error::<PartitionerProblem>();
        is_error::<StartError>();
    }

    #[test]
    fn public_futures_are_send() {
        let _ = |one: Partitioner| {
            is_send_value(&one.next());
            is_send_value(&one.leave());
        };
        let _ = |guard: ItemGuard| {
            is_send_value(&guard.release_requested());
            is_send_value(&guard.release());
        };
    }
}
