//! Static and permanent instances, whose nodes outlive their sessions.

use std::time::Duration;

use zk_core::{ErrorClass, Session};
use zk_discovery::{
    Instance, RegisterError, Registration, RegistrationLoss, ServiceType, WhenTaken,
};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{Ensemble, matching};
use zk_testkit::sim::lose;

use crate::{SERVICE, instance, path, registered, registry};

fn of_type(service_type: ServiceType, payload: &str) -> Instance<String> {
    let builder = Instance::builder(SERVICE, payload.to_owned()).id("a");
    builder.service_type(service_type).build().unwrap()
}

fn fixed(payload: &str) -> Instance<String> {
    of_type(ServiceType::Static, payload)
}

fn one(payload: &str) -> Vec<(String, String)> {
    vec![("a".to_owned(), payload.to_owned())]
}

async fn register(session: &Session, payload: &str) -> Registration<String> {
    registry(session).register(fixed(payload)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_static_instance_stays_until_it_is_unregistered() {
    for service_type in [ServiceType::Static, ServiceType::Permanent] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let registry = registry(&session);
        let registration = registry.register(of_type(service_type, "1")).await.unwrap();
        let node = ensemble.tree().node(&path("a")).unwrap().clone();
        assert_eq!(node.owner(), None);
        let text = String::from_utf8_lossy(node.data()).into_owned();
        assert!(text.contains(service_type.as_str()), "{text}");
        let again = registry.register(of_type(service_type, "1")).await;
        let error = again.unwrap_err();
        assert!(
            matches!(error, RegisterError::AlreadyRegistered { .. }),
            "{error}"
        );
        registration.set_payload("2".to_owned()).await.unwrap();
        drop(registration);
        session.settled().await;
        assert_eq!(registered(&ensemble), one("2"));
        session.close().await.unwrap();
        pass(Duration::from_secs(60)).await;
        assert_eq!(registered(&ensemble), one("2"));

        // The next process finds it, and does not create it again.
        let next = ensemble.connect().await;
        let found = crate::registry(&next)
            .register(of_type(service_type, "2"))
            .await;
        let found = found.unwrap();
        let stat = ensemble.tree().node(&path("a")).unwrap().stat();
        assert_eq!((stat.czxid, stat.version), (node.stat().czxid, 1));
        found.unregister().await.unwrap();
        assert_eq!(registered(&ensemble), []);
        assert_eq!(found.lost().await, RegistrationLoss::Unregistered);
        found.unregister().await.unwrap();
        drop(found);
        ensemble.assert_nothing_left([next]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_request_of_a_static_instance_may_be_lost() {
    let mut struck = 0;
    for is_reply in [false, true] {
        for nth in 1..25 {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let script = ensemble.on(matching::anything()).session(session.id());
            let script = script.nth(nth);
            let lost = lose(script, is_reply);
            let what = format!("request {nth}, {is_reply}");
            let registration = register(&session, "1").await;
            assert_eq!(registered(&ensemble), one("1"), "{what}");
            let updated = registration.set_payload("2".to_owned()).await;
            updated.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(registered(&ensemble), one("2"), "{what}");
            let gone = registration.unregister().await;
            gone.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(registered(&ensemble), [], "{what}");
            struck += lost.count();
            drop(registration);
            ensemble.assert_nothing_left([session]).await;
        }
    }
    assert!(struck > 16, "only {struck} requests were lost");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_made_up_for_by_the_next_one() {
    for polls in 0..30 {
        let ensemble = Ensemble::new(3);
        let (session, next) = (ensemble.connect().await, ensemble.connect().await);
        let done = polled(polls, registry(&session).register(fixed("1"))).await;
        let is_done = done.is_some();
        drop(done);
        if polls % 2 == 0 {
            ensemble
                .session(session.id())
                .cut_for(Duration::from_secs(1));
        }
        let registration = soon("it is registered", register(&next, "1")).await;
        pass(Duration::from_secs(30)).await;
        assert_eq!(registered(&ensemble), one("1"), "{polls}");
        assert!(registration.is_registered(), "{polls}");
        registration.unregister().await.unwrap();
        assert_eq!(registered(&ensemble), [], "{polls}");
        assert!(is_done || polls < 29);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_instance_is_neither_taken_nor_removed() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let theirs = register(&other, "theirs").await;
    let error = registry(&session)
        .register(fixed("ours"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, RegisterError::Taken { owner: None, .. }),
        "{error}"
    );
    assert!(!error.is_transient());
    assert_eq!(registered(&ensemble), one("theirs"));
    // One that replaced ours.
    theirs.unregister().await.unwrap();
    let ours = register(&session, "ours").await;
    other.delete(path("a")).await.unwrap();
    let _theirs = register(&other, "theirs").await;
    let lost = soon("the loss is seen", ours.lost()).await;
    assert_eq!(lost, RegistrationLoss::Deleted);
    ours.unregister().await.unwrap();
    assert!(ours.set_payload("ours".to_owned()).await.is_err());
    assert_eq!(registered(&ensemble), one("theirs"));
}

#[tokio::test(start_paused = true)]
async fn a_dynamic_instance_in_its_place_is_waited_for() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let dynamic = registry(&other)
        .register(instance("a", "dynamic"))
        .await
        .unwrap();
    let refusing = registry(&session).with_taken(WhenTaken::Refuse);
    let error = refusing.register(fixed("static")).await.unwrap_err();
    assert!(matches!(error, RegisterError::Taken { owner, .. } if owner == Some(other.id())));
    let waiting = tokio::spawn(async move { register(&session, "static").await });
    pass(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    dynamic.unregister().await.unwrap();
    let registration = soon("it is registered", waiting).await.unwrap();
    assert_eq!(registered(&ensemble), one("static"));
    drop(registration);
    // And the other way round it is refused: a persistent node does not go away.
    let error = registry(&other).register(instance("a", "dynamic")).await;
    assert!(matches!(
        error.unwrap_err(),
        RegisterError::Taken { owner: None, .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn unregistering_after_the_session_fails_and_removes_nothing() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let registration = register(&session, "1").await;
    ensemble.expire(session.id());
    let lost = soon("the loss is seen", registration.lost()).await;
    assert_eq!(lost, RegistrationLoss::SessionLost);
    for _ in 0..2 {
        let error = registration.unregister().await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Fatal);
    }
    assert_eq!(registered(&ensemble), one("1"));
}

#[tokio::test(start_paused = true)]
async fn a_sequential_instance_is_refused_with_the_reason() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let sequential = of_type(ServiceType::DynamicSequential, "1");
    let error = registry(&session).register(sequential).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Outcome);
    assert!(error.to_string().contains("DYNAMIC_SEQUENTIAL"), "{error}");
    assert_eq!(registered(&ensemble), []);
}

#[tokio::test(start_paused = true)]
async fn a_static_instance_stays_and_is_watched_when_keeping_it_ends() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registry = registry(&session);
    let (sender, mut handles) = tokio::sync::mpsc::unbounded_channel();
    let instance = fixed("1");
    let keeping = registry.keep_registered_with(&instance, |registration| {
        sender.send(registration).unwrap();
        std::future::pending()
    });
    drop(tokio::time::timeout(Duration::from_secs(1), keeping).await);
    let handle = handles.recv().await.unwrap();
    session.settled().await;
    assert_eq!(registered(&ensemble), one("1"));
    assert!(handle.is_registered());
    other.delete(path("a")).await.unwrap();
    let lost = soon("the loss is seen", handle.lost()).await;
    assert_eq!(lost, RegistrationLoss::Deleted);
}
