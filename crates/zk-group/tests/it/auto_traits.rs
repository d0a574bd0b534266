//! Public types and futures that are `Send`, `Sync` or `Clone`, checked by the compiler.

use zk_group::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            Group, JoinError, Layout, Member, MemberChange, Members, SetPayloadError;
        Send + Sync: Membership;
        Send: MembersChanges;
        Error + Send + Sync: JoinError, SetPayloadError;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        (one: Membership) => one.ready(), one.set_payload(""), one.leave();
        (group: Group) => group.synchronized(), group.wait_for(Members::is_empty);
        (changes: MembersChanges) => changes.next();
    }
}

#[cfg(feature = "partitioner")]
mod partitioner {
    use zk_group::partitioner::*;

    use super::*;

    #[test]
    fn public_types_are_send_and_sync() {
        assert_impl! {
            Send + Sync + Clone:
                Allocation, InvalidItem, PartitionerOptions, PartitionerProblem, StartError;
            Send + Sync: ItemGuard, Partitioner;
            Error + Send + Sync: InvalidItem, PartitionerProblem, StartError;
        }
    }

    #[test]
    fn public_futures_are_send() {
        assert_send_futures! {
            (one: Partitioner) => one.next(), one.leave();
            (guard: ItemGuard) => guard.release_requested(), guard.release();
        }
    }
}
