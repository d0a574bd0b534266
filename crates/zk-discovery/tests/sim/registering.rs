//! Registering and unregistering, with each request and each await gone wrong.

use std::time::Duration;

use zk_core::{RetryPolicy, Update, WatchEvent};
use zk_discovery::{Dubbo, DubboProvider, Instance, RegisterError, RegistrationLoss};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{DropFault, Ensemble, matching};
use zk_testkit::sim::lose;

use crate::{instance, path, register, registered, registry};

fn one(payload: &str) -> Vec<(String, String)> {
    vec![("a".to_owned(), payload.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_there_until_it_is_unregistered_or_dropped_or_its_session_ends() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let registry = registry(&session);
    let registration = registry.register(instance("a", "1")).await.unwrap();
    assert_eq!(registered(&ensemble), one("1"));
    let node = ensemble.tree().node(&path("a")).unwrap().clone();
    assert_eq!(node.owner(), Some(session.id()));
    assert!(registration.is_registered());
    assert_eq!(registration.session_id(), session.id());
    registration.unregister().await.unwrap();
    assert_eq!(registered(&ensemble), []);
    assert_eq!(registration.lost().await, RegistrationLoss::Unregistered);
    // Again and again.
    registration.unregister().await.unwrap();
    // It may be registered anew although the old handle is still there.
    let anew = registry.register(instance("a", "1")).await.unwrap();
    session.delete(path("a")).await.unwrap();
    assert_eq!(
        soon("the loss is reported", anew.lost()).await,
        RegistrationLoss::Deleted
    );
    let anew = (registry.register(instance("a", "1")).await.unwrap(), anew);
    drop(anew);

    let dropped = registry.register(instance("a", "2")).await;
    drop(dropped.unwrap());
    session.settled().await;
    assert_eq!(registered(&ensemble), []);

    let last = registry.register(instance("a", "3")).await;
    let last = last.unwrap();
    session.close().await.unwrap();
    assert_eq!(registered(&ensemble), []);
    assert_eq!(last.lost().await, RegistrationLoss::SessionLost);
    assert!(!last.is_registered());
    last.unregister().await.unwrap();
    let error = registry.register(instance("a", "4")).await;
    assert!(matches!(error, Err(RegisterError::SessionLost)));
}

/// Whichever request or answer is lost, what was asked for is so, once.
#[tokio::test(start_paused = true)]
async fn each_request_of_a_life_may_be_lost_on_the_way_or_back() {
    let mut struck = 0;
    for on_the_way_back in [false, true] {
        for nth in 1..30 {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let script = ensemble.on(matching::anything()).session(session.id());
            let script = script.nth(nth);
            let lost = lose(script, on_the_way_back);
            let registry = registry(&session);
            let what = format!("request {nth}, {on_the_way_back}");
            let registration = registry.register(instance("a", "1")).await;
            let registration = registration.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(registered(&ensemble), one("1"), "{what}");
            let czxid = ensemble.tree().node(&path("a")).unwrap().stat().czxid;
            let updated = registration.set_payload("2".to_owned()).await;
            updated.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(registered(&ensemble), one("2"), "{what}");
            let stat = ensemble.tree().node(&path("a")).unwrap().stat();
            assert_eq!((stat.czxid, stat.version), (czxid, 1), "{what}");
            let gone = registration.unregister().await;
            gone.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(registered(&ensemble), [], "{what}");
            struck += lost.count();
            drop(registration);
            ensemble.assert_nothing_left([session]).await;
        }
    }
    assert!(struck > 20, "only {struck} requests were lost");
}

/// A call that is dropped at any of its awaits, whatever befalls the session then, leaves nothing behind, and the next one
/// finds its place free.
#[tokio::test(start_paused = true)]
async fn a_dropped_registration_leaves_nothing_and_can_be_made_again_at_once() {
    for drop_fault in DropFault::ALL {
        for times in 0.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let registry = registry(&session);
            let registering = registry.register(instance("a", "1"));
            let done = polled(times, registering).await;
            drop_fault.inject(&ensemble, session.id());
            let is_done = done.is_some();
            drop(done);
            let again = soon("it is registered", registry.register(instance("a", "2")));
            let again = again.await.unwrap();
            pass(Duration::from_secs(3)).await;
            assert_eq!(registered(&ensemble), [("a".into(), "2".into())]);
            drop(again);
            ensemble.assert_nothing_left([session]).await;
            if is_done {
                assert!(times > 3, "done after {times} polls");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unregistration_that_was_dropped_or_failed_is_made_again() {
    for drop_fault in DropFault::ALL {
        for times in 0.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let registration = register(&session, "1").await;
            let done = polled(times, registration.unregister()).await;
            drop_fault.inject(&ensemble, session.id());
            soon("it is gone", registration.unregister()).await.unwrap();
            assert_eq!(registered(&ensemble), []);
            assert_eq!(registration.lost().await, RegistrationLoss::Unregistered);
            drop(registration);
            ensemble.assert_nothing_left([session]).await;
            if done.is_some() {
                break;
            }
        }
    }
    // One that failed, for lack of a connection.
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let impatient = session
        .with_operation_timeout(Duration::from_millis(200))
        .with_retry(RetryPolicy::never());
    let registration = register(&impatient, "1").await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(1));
    registration.unregister().await.unwrap_err();
    assert!(registration.is_registered());
    pass(Duration::from_secs(2)).await;
    registration.unregister().await.unwrap();
    assert_eq!(registered(&ensemble), []);
}

/// What is removed is the node of the registration, and not one that took its place.
#[tokio::test(start_paused = true)]
async fn a_node_that_took_the_place_is_never_removed_nor_written() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registration = register(&session, "1").await;
    other.delete(path("a")).await.unwrap();
    let theirs = register(&other, "theirs").await;
    let update = registration.set_payload("mine".to_owned()).await;
    let message = update.unwrap_err().to_string();
    assert_eq!(message, "/services/orders/a is no longer registered");
    assert_eq!(
        soon("it is lost", registration.lost()).await,
        RegistrationLoss::Deleted
    );
    registration.unregister().await.unwrap();
    drop(registration);
    session.settled().await;
    assert_eq!(registered(&ensemble), one("theirs"));
    assert!(theirs.is_registered());
}

/// The same before it has heard that its own node is gone, at a server that lags.
#[tokio::test(start_paused = true)]
async fn a_node_that_took_the_place_unseen_is_not_removed_either() {
    for by_dropping in [false, true] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().server(1).await;
        let other = ensemble.connect().server(3).await;
        let registration = register(&session, "1").await;
        ensemble.server(1).lag_by(Duration::from_millis(500));
        other.delete(path("a")).await.unwrap();
        let theirs = register(&other, "theirs").await;
        assert!(registration.is_registered(), "it was not to know yet");
        if by_dropping {
            drop(registration);
        } else {
            registration.unregister().await.unwrap();
        }
        session.settled().await;
        assert_eq!(registered(&ensemble), one("theirs"));
        drop(theirs);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_registered_is_told_when_that_ends() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let other = ensemble.connect().await;
    let registration = register(&session, "1").await;
    let lost = polled(1, registration.lost()).await;
    assert_eq!(lost, None);
    other.delete(path("a")).await.unwrap();
    assert_eq!(
        soon("the loss is reported", registration.lost()).await,
        RegistrationLoss::Deleted
    );

    let again = registry(&session).register(instance("b", "1")).await;
    let again = again.unwrap();
    ensemble.expire(session.id());
    let loss = soon("the loss is reported", again.lost()).await;
    assert_eq!(loss, RegistrationLoss::SessionLost);
}

/// A connection that breaks and comes back changes no node.
#[tokio::test(start_paused = true)]
async fn nobody_sees_an_instance_flap_over_broken_connections() {
    let ensemble = Ensemble::new(3);
    let (session, watching) = (ensemble.connect().await, ensemble.connect().await);
    let registration = register(&session, "1").await;
    let keeper = registry(&session);
    let keeping = tokio::spawn(async move { keeper.keep_registered(&instance("b", "1")).await });
    pass(Duration::from_secs(1)).await;
    let subscribe = watching.subscribe("/services").recursive();
    let mut events = subscribe.await.unwrap();
    for round in 0..20 {
        let link = ensemble.session(session.id());
        match round % 4 {
            0 => link.cut(),
            1 => link.cut_for(Duration::from_secs(2)),
            2 => link.move_to(1 + round % 3),
            _ => link.silence(),
        }
        pass(Duration::from_secs(8)).await;
    }
    assert!(registration.is_registered() && !keeping.is_finished());
    let mut seen = Vec::new();
    while let Some(Some(event)) = polled(1, events.next()).await {
        if let Update::Changed { path, event, .. } = event {
            seen.push((path, event));
        }
    }
    assert_eq!(seen, []);
    // It does see what there is to be seen.
    keeping.abort();
    soon("it is unregistered", async {
        loop {
            let event = events.next().await.unwrap();
            if matches!(
                event,
                Update::Changed {
                    event: WatchEvent::Deleted,
                    ..
                }
            ) {
                break;
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_too_large_or_not_to_be_written_is_refused_before_anything_is_sent() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let before = ensemble.request_count();
    let registry = registry(&session);
    let large = instance("a", &"x".repeat(2 << 20));
    let error = registry.register(large).await.unwrap_err();
    assert!(
        matches!(&error, RegisterError::Failed(error) if error.kind() == zk_core::ErrorKind::TooLarge)
    );
    let dubbo = registry.with_layout(Dubbo);
    let nowhere = Instance::builder("a.B", DubboProvider::new("dubbo")).build();
    let error = dubbo.register(nowhere.unwrap()).await.unwrap_err();
    assert!(matches!(error, RegisterError::Encode(_)), "{error}");
    assert_eq!(ensemble.request_count(), before);
}

#[tokio::test(start_paused = true)]
async fn a_provider_of_dubbo_is_registered_under_its_url_and_found_again() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let registry = crate::Registry::new(&session, "/dubbo")
        .unwrap()
        .with_layout(Dubbo);
    let build = |port| {
        let provider = DubboProvider::new("dubbo").with("side", "provider");
        let built = Instance::builder("com.example.Orders", provider);
        built.address("10.0.0.7").port(port).build().unwrap()
    };
    let first = registry.register(build(20880)).await.unwrap();
    let prefix = "/dubbo/com.example.Orders/providers/dubbo%3A%2F%2F10.0.0.7%3A20880%2Fcom.example.Orders%3Fside%3Dprovider%26timestamp%3D";
    assert!(
        first.path().as_str().starts_with(prefix),
        "{}",
        first.path()
    );
    let providers = registry
        .providers::<DubboProvider>("com.example.Orders")
        .unwrap();
    let list = providers.synchronized().await.unwrap();
    assert_eq!(list.instances().next().unwrap().port(), Some(20880));
    assert_eq!(registry.services().await.unwrap(), ["com.example.Orders"]);
    // What stands in the name of a node cannot be changed in place.
    let error = first.update(|one| one.set_port(Some(1))).await.unwrap_err();
    assert!(
        matches!(error, zk_discovery::UpdateError::OtherNode { .. }),
        "{error}"
    );
    first.update(|_| ()).await.unwrap();
    // Two of one host and port are two.
    let second = registry.register(build(20880)).await.unwrap();
    assert_ne!(first.path(), second.path());
    first.unregister().await.unwrap();
    second.unregister().await.unwrap();
}

/// A removal that was given up tells nothing of who removes the node later.
#[tokio::test(start_paused = true)]
async fn after_an_unregistration_that_failed_a_removal_by_somebody_else_is_told_as_such() {
    for is_dropped in [false, true] {
        let ensemble = Ensemble::new(3);
        let (session, other) = (ensemble.connect().await, ensemble.connect().await);
        let impatient = session
            .with_operation_timeout(Duration::from_millis(200))
            .with_retry(RetryPolicy::never());
        let registration = register(&impatient, "1").await;
        if is_dropped {
            ensemble
                .on(matching::deletes(&path("a")))
                .session(session.id())
                .lose_request();
            assert!(polled(1, registration.unregister()).await.is_none());
            pass(session.session_timeout()).await;
        } else {
            ensemble
                .session(session.id())
                .cut_for(Duration::from_secs(1));
            registration.unregister().await.unwrap_err();
            pass(Duration::from_secs(2)).await;
        }
        assert!(registration.is_registered());
        other.delete(path("a")).await.unwrap();
        let loss = soon("the loss is reported", registration.lost()).await;
        assert_eq!(loss, RegistrationLoss::Deleted, "{is_dropped}");
    }
}

/// What an earlier create of the same call may have made is removed in the background, and the later one's node is not.
#[tokio::test(start_paused = true)]
async fn a_cleanup_of_an_earlier_create_does_not_remove_the_node_of_a_later_one() {
    let mut struck = 0;
    for nth in 1..6 {
        for pause in [0, 5, 20, 50, 100, 200] {
            let ensemble = Ensemble::new(3);
            let (session, other) = (ensemble.connect().await, ensemble.connect().await);
            let theirs = registry(&other).register(instance("a", "theirs")).await;
            let creates = ensemble.on(matching::creates(&path("a")));
            let lost = creates.session(session.id()).lose_request();
            // The cleanup looks at the node, and late.
            let gets = ensemble.on(matching::gets(&path("a")));
            let late = gets.session(session.id()).nth(nth).lose_request();
            let mine = registry(&session);
            let registering = mine.register(instance("a", "1"));
            let leaving = async {
                drop(tokio::time::timeout(Duration::from_secs(2), late.happened()).await);
                pass(Duration::from_millis(pause)).await;
                theirs.unwrap().unregister().await.unwrap();
            };
            let (registration, ()) = tokio::join!(biased; registering, leaving);
            let registration = registration.unwrap();
            pass(Duration::from_secs(10)).await;
            assert!(registration.is_registered(), "{nth} {pause}");
            assert_eq!(registered(&ensemble), one("1"), "{nth} {pause}");
            struck += lost.count() + late.count();
        }
    }
    assert!(struck > 40, "only {struck} requests were lost");
}
