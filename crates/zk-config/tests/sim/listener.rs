//! The events that listeners receive, and those that they skip.

use std::cell::Cell;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_config::{Event, ListenMode, Listener, ValueDelivery};
use zk_core::codec::Text;
use zk_core::{Acl, ListenerEnd};
use zk_sim::{Chaos, Check, Ensemble};

use crate::scenario::{self, describe, expect_events, next};
use crate::{PATH, data_of, pass, publisher, soon, stat_of, text};

#[tokio::test(start_paused = true)]
async fn each_listener_of_the_scenario_receives_exactly_its_events() {
    let ensemble = Ensemble::new(3);
    let (publishing, listening) = (ensemble.connect().await, ensemble.connect().await);
    scenario::play(&publishing, &listening).await;
    drop(publishing);
    pass(Duration::from_secs(5)).await;
    assert_eq!(ensemble.watch_count(), 0, "no watch outlives its listener");
}

#[tokio::test(start_paused = true)]
async fn an_initial_value_is_delivered_or_skipped() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    publisher.publish(PATH, &text("one")).await.unwrap();
    let listener = Listener::new(&session, PATH, Text).unwrap();
    let mut all = listener.clone().events::<String>();
    let mut skipping = listener
        .clone()
        .initial(ValueDelivery::Skip)
        .events::<String>();
    let mut once = listener.clone().mode(ListenMode::Once).events::<String>();
    let next_once = listener.initial(ValueDelivery::Skip).mode(ListenMode::Once);
    let mut next_once = next_once.events::<String>();
    let Some(Event::Present(value)) = all.next().await else {
        panic!("the node exists");
    };
    assert_eq!(
        (value.value.as_str(), value.stat),
        ("one", stat_of(&ensemble, PATH))
    );
    expect_events(&mut once, &["present one"]).await;
    assert_eq!(next(&mut once).await, None);
    for events in [&mut skipping, &mut next_once] {
        let nothing = tokio::time::timeout(Duration::from_secs(1), events.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
    }
    publisher.publish(PATH, &text("two")).await.unwrap();
    for events in [&mut all, &mut skipping, &mut next_once] {
        expect_events(events, &["changed two"]).await;
    }
    assert_eq!(next(&mut next_once).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_created_again_is_reported_as_deleted_and_created() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    publisher(&other).publish(PATH, &text("one")).await.unwrap();
    let mut events = Listener::new(&session, PATH, Text)
        .unwrap()
        .events::<String>();
    expect_events(&mut events, &["present one"]).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(2));
    other.delete(PATH).await.unwrap();
    // The same data with the same version.
    publisher(&other).publish(PATH, &text("one")).await.unwrap();
    expect_events(&mut events, &["deleted", "created one"]).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(2));
    let nothing = tokio::time::timeout(Duration::from_secs(5), events.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    other.delete(PATH).await.unwrap();
    expect_events(&mut events, &["deleted"]).await;
    ensemble.expire(session.id());
    expect_events(&mut events, &["session lost"]).await;
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_value_is_reported_and_does_not_end_mode_once() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create("/a", b"\xff".as_slice()).await.unwrap();
    let listener = Listener::new(&session, "/a", Text).unwrap();
    let mut events = listener.mode(ListenMode::Once).events::<String>();
    let Some(Event::Invalid { error, stat }) = events.next().await else {
        panic!("the value is invalid");
    };
    assert_eq!(error.path().unwrap().as_str(), "/a");
    assert_eq!(stat.version, 0);
    session.set("/a", "good").await.unwrap();
    expect_events(&mut events, &["changed good"]).await;
    assert_eq!(next(&mut events).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_node_is_reported_and_retried() {
    let ensemble = Ensemble::new(1);
    let owner = ensemble.connect().digest("anna", "secret").await;
    owner
        .create("/a", "hidden")
        .acl(Acl::creator_only())
        .await
        .unwrap();
    let session = ensemble.connect().await;
    let mut events = Listener::new(&session, "/a", Text)
        .unwrap()
        .events::<String>();
    assert!(matches!(events.next().await, Some(Event::Failed(_))));
    owner.set_acl("/a", Acl::open()).await.unwrap();
    expect_events(&mut events, &["present hidden"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_callback_may_use_the_session_and_its_panic_ends_only_it() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    let received = Arc::new(Mutex::new(Vec::new()));
    let panicking =
        Listener::new(&session, PATH, Text)
            .unwrap()
            .for_each(async |event: Event<String>| {
                assert_eq!(
                    describe(&event),
                    "absent",
                    "the callback panics at the second event"
                );
            });
    let listening = {
        let (session, received) = (session.clone(), Arc::clone(&received));
        let listener = Listener::new(&session, PATH, Text).unwrap();
        listener.for_each(move |event: Event<String>| {
            let (session, received) = (session.clone(), Arc::clone(&received));
            async move {
                // It sends a request on its own session, and is slow.
                session.exists("/").await.ok();
                pass(Duration::from_secs(3)).await;
                received.lock().unwrap().push(describe(&event));
            }
        })
    };
    pass(Duration::from_secs(5)).await;
    for value in ["one", "two", "three"] {
        publisher.publish(PATH, &text(value)).await.unwrap();
        pass(Duration::from_secs(1)).await;
    }
    for _ in 0..2 {
        let end = soon("it panics", panicking.ended()).await;
        assert!(matches!(end, ListenerEnd::Panicked(_)), "{end:?}");
    }
    pass(Duration::from_secs(20)).await;
    // Two changes during a call were merged.
    assert_eq!(
        *received.lock().unwrap(),
        ["absent", "created one", "changed three"]
    );
    ensemble.expire(session.id());
    for _ in 0..2 {
        let end = soon("it ends", listening.ended()).await;
        assert_eq!(end, ListenerEnd::Finished);
    }
    assert_eq!(received.lock().unwrap().last().unwrap(), "session lost");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_no_event() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let mut events = Listener::new(&session, PATH, Text)
        .unwrap()
        .events::<String>();
    let mut received = Vec::new();
    let mut moment = Duration::from_micros(100);
    for round in 0..40 {
        // At every moment of a read.
        drop(
            tokio::time::timeout(moment, events.next())
                .await
                .map(|event| received.push(describe(&event.unwrap()))),
        );
        moment += Duration::from_micros(150);
        publisher(&other)
            .publish(PATH, &round.to_string())
            .await
            .unwrap();
    }
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(5), events.next()).await {
        received.push(describe(&event.unwrap()));
    }
    assert_eq!(received.last().unwrap(), "changed 39", "{received:?}");
}

#[test]
fn events_under_chaos_are_in_order_and_end_at_the_last_value() {
    let events = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let listening = ensemble.connect().await;
            let publishing = ensemble.connect().await;
            let received = Arc::new(Mutex::new(Vec::new()));
            let task = {
                let received = Arc::clone(&received);
                let mut all = Listener::new(&listening, PATH, Text)
                    .unwrap()
                    .events::<String>();
                tokio::spawn(async move {
                    while let Some(event) = all.next().await {
                        received.lock().unwrap().push(event);
                    }
                })
            };
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(5))
                .every(Duration::from_millis(200));
            let disturbing = tokio::spawn(chaos.run(&ensemble));
            let mut random = fastrand::Rng::with_seed(seed);
            for round in 0..30 {
                let publisher = publisher(&publishing);
                let done = if random.u8(0..4) == 0 {
                    publisher.remove(PATH).await
                } else {
                    publisher.publish(PATH, &round.to_string()).await
                };
                drop(done);
                pass(Duration::from_millis(random.u64(0..400))).await;
            }
            disturbing.await.unwrap();
            pass(Duration::from_secs(30)).await;
            judge(
                &received.lock().unwrap(),
                data_of(&ensemble, PATH).as_deref(),
                seed,
            );
            events.set(events.get() + received.lock().unwrap().len());
            task.abort();
        });
    println!("{} events in {checked}", events.get());
    assert!(checked.seeds == 1 || events.get() > 5 * checked.seeds);
}

/// Checks that creations and deletions alternate, revisions grow, and the last event matches the node.
fn judge(received: &[Event<String>], now: Option<&str>, seed: u64) {
    let what = received.iter().map(describe).collect::<Vec<_>>();
    let mut last: Option<i64> = None;
    let mut value: Option<String> = None;
    for (at, event) in received.iter().enumerate() {
        let new = match event {
            Event::Absent => {
                assert_eq!(at, 0, "seed {seed}: {what:?}");
                continue;
            }
            Event::Deleted => {
                assert!(value.take().is_some(), "seed {seed}: {what:?}");
                continue;
            }
            Event::SessionLost => {
                assert_eq!(at, received.len() - 1, "seed {seed}: {what:?}");
                return;
            }
            Event::Present(current) => {
                assert_eq!(at, 0, "seed {seed}: {what:?}");
                current
            }
            Event::Created(current) => {
                assert!(value.is_none(), "seed {seed}: {what:?}");
                current
            }
            Event::Changed(current) => {
                assert!(value.is_some(), "seed {seed}: {what:?}");
                current
            }
            other => panic!("seed {seed}: {other:?}"),
        };
        assert!(last < Some(new.stat.mzxid), "seed {seed}: {what:?}");
        last = Some(new.stat.mzxid);
        value = Some(new.value.clone());
    }
    assert_eq!(value.as_deref(), now, "seed {seed}: {what:?}");
}

const SEEDS: u64 = 200;
