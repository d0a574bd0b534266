//! Public types and futures that are `Send`, `Sync` or `Clone`, checked by the compiler.

use zk_config::*;
use zk_core::codec::{Raw, Text};

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
        KeyChange,
        Current<String>,
        ValueDelivery,
        Event<String>,
        Expected,
        ListenMode,
        Layers,
        Listener<Text>,
        Problem,
        Profiles,
        PublishError,
        PublishOptions,
        Published,
        Publisher<Text>,
        HistoryEntry,
        Subtree,
        Typed<String>,
        Value<String>,
    );
    is_send::<Events<String>>();
    is_send::<FollowHandle>();
    is_send::<TypedBuilder<String>>();
    is_error::<FileProblem>();
    is_error::<LayerError>();
    is_error::<Problem>();
    is_error::<PublishError>();
}

#[test]
fn public_futures_are_send() {
    let _ = |one: Publisher<Raw>| {
        is_send_value(&one.publish("/a", &Vec::new()).into_future());
        is_send_value(&one.transaction().remove("/a").publish());
        is_send_value(&one.history("/a"));
        is_send_value(&one.roll_back("/a", 1, Expected::Any));
    };
    let _ = |mut events: Events<String>| is_send_value(&events.next());
    let _ = |mut typed: Typed<String>| {
        is_send_value(&typed.ready());
        is_send_value(&typed.changed());
    };
}
