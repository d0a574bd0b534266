//! Updates in place.

use std::time::Duration;

use zk_core::{ErrorKind, Session};
use zk_discovery::{Instance, Registration, UpdateError};
use zk_sim::wait::{polled, soon};
use zk_sim::{DropFault, Ensemble, Scripted, matching};
use zk_testkit::sim::lose;

use crate::{instance, path, register, registered, registry};

fn version(ensemble: &Ensemble) -> i32 {
    ensemble.tree().node(&path("a")).unwrap().stat().version
}

fn data(ensemble: &Ensemble) -> String {
    let tree = ensemble.tree();
    String::from_utf8(tree.node(&path("a")).unwrap().data().to_vec()).unwrap()
}

async fn add(registration: &Registration<String>, more: &str) -> Result<(), UpdateError> {
    let update = |one: &mut Instance<String>| one.payload_mut().push_str(more);
    registration.update(update).await
}

/// Loses a write of the instance, before or after it is made.
fn lose_write(ensemble: &Ensemble, session: &Session, on_the_way_back: bool) -> Scripted {
    let script = ensemble.on(matching::sets(&path("a")));
    let script = script.session(session.id());
    lose(script, on_the_way_back)
}

#[tokio::test(start_paused = true)]
async fn an_update_begins_with_what_the_node_has() {
    let ensemble = Ensemble::new(3);
    let (session, operator) = (ensemble.connect().await, ensemble.connect().await);
    let registration = register(&session, "1").await;
    add(&registration, "2").await.unwrap();
    add(&registration, "").await.unwrap();
    assert_eq!(
        (registered(&ensemble)[0].1.as_str(), version(&ensemble)),
        ("12", 1)
    );
    // An operator takes it out of service by hand.
    let text = data(&ensemble);
    let disabled = text.replace("\"uriSpec\":null", "\"uriSpec\":null,\"enabled\":false");
    operator.set(path("a"), disabled).await.unwrap();
    add(&registration, "3").await.unwrap();
    assert!(data(&ensemble).contains("\"enabled\":false"));
    assert!(!registration.instance().await.is_enabled());
    assert_eq!(registered(&ensemble)[0].1, "123");
    // What cannot be read is mended.
    operator.set(path("a"), "{").await.unwrap();
    add(&registration, "4").await.unwrap();
    assert_eq!(registered(&ensemble)[0].1, "1234");
}

#[tokio::test(start_paused = true)]
async fn updates_that_are_made_at_once_are_all_made() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let registration = registry(&session).register(instance("a", "")).await;
    let registration = std::sync::Arc::new(registration.unwrap());
    let mut tasks = Vec::new();
    for _ in 0..20 {
        let registration = std::sync::Arc::clone(&registration);
        tasks.push(tokio::spawn(async move { add(&registration, "x").await }));
    }
    for task in tasks {
        soon("it is updated", task).await.unwrap().unwrap();
    }
    assert_eq!(registered(&ensemble)[0].1.len(), 20);
    assert_eq!(version(&ensemble), 20);
}

/// A writer that writes between each read and each write.
#[tokio::test(start_paused = true)]
async fn an_update_that_others_always_overtake_gives_up_and_says_so() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let registration = register(&session, "1").await;
    let refused = zk_core::transport::TransportError::Refused(ErrorKind::BadVersion, None);
    ensemble
        .on(matching::sets(&path("a")))
        .every()
        .refuse(refused);
    let error = add(&registration, "2").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "other clients changed /services/orders/a between read and write 8 times; update again"
    );
    assert_eq!(registration.instance().await.payload(), "1");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_was_dropped_is_made_or_not_and_the_next_one_knows() {
    for drop_fault in DropFault::ALL {
        for times in 0.. {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let registration = register(&session, "1").await;
            let done = polled(times, add(&registration, "2")).await;
            drop_fault.inject(&ensemble, session.id());
            let set = |one: &mut Instance<String>| one.set_payload("3".to_owned());
            let next = soon("it is updated", registration.update(set));
            next.await.unwrap();
            assert_eq!(registered(&ensemble)[0].1, "3");
            assert!(registration.is_registered());
            if done.is_some() {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_of_what_is_gone_says_so() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registration = register(&session, "1").await;
    // Between the look and the write.
    let held = ensemble
        .on(matching::gets(&path("a")))
        .session(session.id())
        .hold();
    let mut update = Box::pin(add(&registration, "2"));
    assert!(polled(1, &mut update).await.is_none());
    soon("it looks", held.happened()).await;
    other.delete(path("a")).await.unwrap();
    held.release();
    let error = soon("it ends", update).await.unwrap_err();
    assert!(matches!(error, UpdateError::Gone { .. }), "{error}");
    assert_eq!(registered(&ensemble), []);
    ensemble.expire(session.id());
    session.lost().await;
    let error = add(&registration, "3").await.unwrap_err();
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal);
    let timeout = Duration::from_secs(1);
    assert!(
        tokio::time::timeout(timeout, registration.lost())
            .await
            .is_ok()
    );
}

/// The repetition of a write whose answer was lost would be one.
#[tokio::test(start_paused = true)]
async fn an_update_that_is_lost_does_not_write_a_node_that_took_the_place_meanwhile() {
    for on_the_way_back in [false, true] {
        let ensemble = Ensemble::new(3);
        let (session, other) = (ensemble.connect().await, ensemble.connect().await);
        let registration = register(&session, "1").await;
        let lost = lose_write(&ensemble, &session, on_the_way_back);
        let replacing = async {
            soon("the write is lost", lost.happened()).await;
            ensemble
                .session(session.id())
                .cut_for(Duration::from_secs(1));
            other.delete(path("a")).await.unwrap();
            registry(&other).register(instance("a", "theirs")).await
        };
        let (updated, theirs) = tokio::join!(biased; add(&registration, "2"), replacing);
        let error = updated.unwrap_err();
        assert!(matches!(error, UpdateError::Gone { .. }), "{error}");
        assert_eq!(registered(&ensemble)[0].1, "theirs");
        drop(theirs);
    }
}

/// What was written is not applied to itself.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_made_once() {
    for on_the_way_back in [false, true] {
        for theirs in [false, true] {
            let ensemble = Ensemble::new(3);
            let (session, other) = (ensemble.connect().await, ensemble.connect().await);
            let registration = register(&session, "1").await;
            let lost = lose_write(&ensemble, &session, on_the_way_back);
            let writing = async {
                soon("the write is lost", lost.happened()).await;
                ensemble
                    .session(session.id())
                    .cut_for(Duration::from_secs(1));
                if theirs {
                    let text = data(&ensemble).replace("8080", "9090");
                    other.set(path("a"), text).await.unwrap();
                }
            };
            let (updated, ()) = tokio::join!(biased; add(&registration, "2"), writing);
            if on_the_way_back && theirs {
                // The outcome cannot be known.
                let error = updated.unwrap_err();
                assert_eq!(error.class(), zk_core::ErrorClass::Recoverable, "{error}");
            } else {
                updated.unwrap();
            }
            assert_eq!(
                registered(&ensemble)[0].1,
                "12",
                "{on_the_way_back} {theirs}"
            );
            assert_eq!(data(&ensemble).contains("9090"), theirs);
        }
    }
}
