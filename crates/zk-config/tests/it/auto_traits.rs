//! Public types and futures that are `Send`, `Sync` or `Clone`, checked by the compiler.

use zk_config::*;
use zk_core::codec::{Raw, Text};
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            Current<String>, Event<String>, Expected, HistoryEntry, KeyChange, Layers, ListenMode, Listener<Text>,
            Problem, Profiles, PublishError, PublishOptions, Published, Publisher<Text>, Subtree, Typed<String>,
            Value<String>, ValueDelivery;
        Send: Events<String>, FollowHandle, TypedBuilder<String>;
        Error + Send + Sync: FileProblem, LayerError, Problem, PublishError;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        (one: Publisher<Raw>) =>
            one.publish("/a", &Vec::new()).into_future(), one.transaction().remove("/a").publish(),
            one.history("/a"), one.roll_back("/a", 1, Expected::Any);
        (events: Events<String>) => events.next();
        (typed: Typed<String>) => typed.ready(), typed.changed();
    }
}
