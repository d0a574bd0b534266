//! What listeners are told, and what they miss.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use zk_config::Delivery;
use zk_config::Event;
use zk_config::Lasting;
use zk_config::Listener;
use zk_core::Acl;
use zk_core::codec::Text;
use zk_sim::Chaos;
use zk_sim::Check;
use zk_sim::Ensemble;

use crate::PATH;
use crate::data_of;
use crate::pass;
use crate::publisher;
use crate::scenario;
use crate::scenario::next;
use crate::scenario::tells;
use crate::scenario::told;
use crate::soon;
use crate::stat_of;
use crate::text;

// covers: G2
#[tokio::test(start_paused = true)]
async fn each_listener_of_the_scenario_is_told_exactly_its_events() {
    let ensemble = Ensemble::new(3);
    let (publishing, listening) = (ensemble.connect().await, ensemble.connect().await);
    scenario::play(&publishing, &listening).await;
    drop(publishing);
    pass(Duration::from_secs(5)).await;
    assert_eq!(ensemble.watch_count(), 0, "no watch outlives its listener");
}

// covers: G2
#[tokio::test(start_paused = true)]
async fn value_at_the_start_is_delivered_or_not() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    publisher.publish(PATH, &text("one")).await.unwrap();
    let listener = Listener::new(&session, PATH, Text).unwrap();
    let mut all = listener.clone().events::<String>();
    let mut skipping = listener.clone().initial(Delivery::Skip).events::<String>();
    let mut once = listener.clone().lasting(Lasting::Once).events::<String>();
    let next_once = listener.initial(Delivery::Skip).lasting(Lasting::Once);
    let mut next_once = next_once.events::<String>();
    let Some(Event::Present(value)) = all.next().await else {
        panic!("the value is there");
    };
    assert_eq!(
        (value.value.as_str(), value.stat),
        ("one", stat_of(&ensemble, PATH))
    );
    tells(&mut once, &["present one"]).await;
    assert_eq!(next(&mut once).await, None);
    for events in [&mut skipping, &mut next_once] {
        let nothing = tokio::time::timeout(Duration::from_secs(1), events.next()).await;
        assert!(nothing.is_err(), "{nothing:?}");
    }
    publisher.publish(PATH, &text("two")).await.unwrap();
    for events in [&mut all, &mut skipping, &mut next_once] {
        tells(events, &["changed two"]).await;
    }
    assert_eq!(next(&mut next_once).await, None);
}

// covers: G2
#[tokio::test(start_paused = true)]
async fn node_made_anew_while_the_link_was_broken_is_told_as_deleted_and_created() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    publisher(&other).publish(PATH, &text("one")).await.unwrap();
    let mut events = Listener::new(&session, PATH, Text)
        .unwrap()
        .events::<String>();
    tells(&mut events, &["present one"]).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(2));
    other.delete(PATH).await.unwrap();
    // The same data under the same version.
    publisher(&other).publish(PATH, &text("one")).await.unwrap();
    tells(&mut events, &["deleted", "created one"]).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(2));
    let nothing = tokio::time::timeout(Duration::from_secs(5), events.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    other.delete(PATH).await.unwrap();
    tells(&mut events, &["deleted"]).await;
    ensemble.expire(session.id());
    tells(&mut events, &["session lost"]).await;
    assert_eq!(next(&mut events).await, None);
}

// covers: G2
// covers: G3
#[tokio::test(start_paused = true)]
async fn bad_value_is_told_with_its_place_and_does_not_end_a_listener_for_one() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create("/a", b"\xff".as_slice()).await.unwrap();
    let listener = Listener::new(&session, "/a", Text).unwrap();
    let mut events = listener.lasting(Lasting::Once).events::<String>();
    let Some(Event::Invalid { error, stat }) = events.next().await else {
        panic!("the value is bad");
    };
    assert_eq!(error.path().unwrap().as_str(), "/a");
    assert_eq!(stat.version, 0);
    session.set("/a", "good").await.unwrap();
    tells(&mut events, &["changed good"]).await;
    assert_eq!(next(&mut events).await, None);
}

// covers: G2
#[tokio::test(start_paused = true)]
async fn node_that_may_not_be_read_is_told_and_tried_again() {
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
    tells(&mut events, &["present hidden"]).await;
}

// covers: G2
#[tokio::test(start_paused = true)]
async fn callback_may_wait_for_the_session_and_its_panic_ends_it_alone() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let publisher = publisher(&session);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let mut panicking =
        Listener::new(&session, PATH, Text)
            .unwrap()
            .call(async |event: Event<String>| {
                assert_eq!(told(&event), "absent", "it panics at what follows");
            });
    let mut listening = {
        let (session, heard) = (session.clone(), Arc::clone(&heard));
        let listener = Listener::new(&session, PATH, Text).unwrap();
        listener.call(move |event: Event<String>| {
            let (session, heard) = (session.clone(), Arc::clone(&heard));
            async move {
                // It asks the session it is called for, and takes its time.
                session.exists("/").await.ok();
                pass(Duration::from_secs(3)).await;
                heard.lock().unwrap().push(told(&event));
            }
        })
    };
    pass(Duration::from_secs(5)).await;
    for value in ["one", "two", "three"] {
        publisher.publish(PATH, &text(value)).await.unwrap();
        pass(Duration::from_secs(1)).await;
    }
    for _ in 0..2 {
        soon("it panics", panicking.ended()).await.unwrap_err();
    }
    pass(Duration::from_secs(20)).await;
    // While it was busy, two changes became one.
    assert_eq!(
        *heard.lock().unwrap(),
        ["absent", "created one", "changed three"]
    );
    ensemble.expire(session.id());
    for _ in 0..2 {
        soon("it ends", listening.ended()).await.unwrap();
    }
    assert_eq!(heard.lock().unwrap().last().unwrap(), "session lost");
}

// covers: G2
#[tokio::test(start_paused = true)]
async fn dropped_wait_for_an_event_misses_nothing() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let mut events = Listener::new(&session, PATH, Text)
        .unwrap()
        .events::<String>();
    let mut heard = Vec::new();
    let mut moment = Duration::from_micros(100);
    for round in 0..40 {
        // At every moment of a look.
        drop(
            tokio::time::timeout(moment, events.next())
                .await
                .map(|event| heard.push(told(&event.unwrap()))),
        );
        moment += Duration::from_micros(150);
        publisher(&other)
            .publish(PATH, &round.to_string())
            .await
            .unwrap();
    }
    while let Ok(event) = tokio::time::timeout(Duration::from_secs(5), events.next()).await {
        heard.push(told(&event.unwrap()));
    }
    assert_eq!(heard.last().unwrap(), "changed 39", "{heard:?}");
}

// covers: G2
#[test]
fn whatever_happens_events_are_in_order_and_end_at_the_last_value() {
    let events = Cell::new(0);
    let checked = Check::new(0..SEEDS)
        .seeds_from_env()
        .run(async |ensemble, seed| {
            let listening = ensemble.connect().await;
            let publishing = ensemble.connect().await;
            let heard = Arc::new(Mutex::new(Vec::new()));
            let task = {
                let heard = Arc::clone(&heard);
                let mut all = Listener::new(&listening, PATH, Text)
                    .unwrap()
                    .events::<String>();
                tokio::spawn(async move {
                    while let Some(event) = all.next().await {
                        heard.lock().unwrap().push(event);
                    }
                })
            };
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(5))
                .every(Duration::from_millis(200));
            let disturbing = tokio::spawn(chaos.unleash(&ensemble));
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
                &heard.lock().unwrap(),
                data_of(&ensemble, PATH).as_deref(),
                seed,
            );
            events.set(events.get() + heard.lock().unwrap().len());
            task.abort();
        });
    println!("{} events in {checked}", events.get());
    assert!(checked.seeds == 1 || events.get() > 5 * checked.seeds);
}

/// Judges what was heard: a life has a beginning and an end, revisions rise, and the last word is what is there.
fn judge(heard: &[Event<String>], now: Option<&str>, seed: u64) {
    let what = heard.iter().map(told).collect::<Vec<_>>();
    let mut last: Option<i64> = None;
    let mut value: Option<String> = None;
    for (at, event) in heard.iter().enumerate() {
        let is_new = match event {
            Event::Absent => {
                assert_eq!(at, 0, "seed {seed}: {what:?}");
                continue;
            }
            Event::Deleted => {
                assert!(value.take().is_some(), "seed {seed}: {what:?}");
                continue;
            }
            Event::SessionLost => {
                assert_eq!(at, heard.len() - 1, "seed {seed}: {what:?}");
                return;
            }
            Event::Present(new) => {
                assert_eq!(at, 0, "seed {seed}: {what:?}");
                new
            }
            Event::Created(new) => {
                assert!(value.is_none(), "seed {seed}: {what:?}");
                new
            }
            Event::Changed(new) => {
                assert!(value.is_some(), "seed {seed}: {what:?}");
                new
            }
            other => panic!("seed {seed}: {other:?}"),
        };
        assert!(last < Some(is_new.stat.mzxid), "seed {seed}: {what:?}");
        last = Some(is_new.stat.mzxid);
        value = Some(is_new.value.clone());
    }
    assert_eq!(value.as_deref(), now, "seed {seed}: {what:?}");
}

const SEEDS: u64 = 200;
