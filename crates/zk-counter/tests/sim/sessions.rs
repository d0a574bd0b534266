//! Counters and shared values whose session ends.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_counter::{AtomicCounter, CounterError, CounterOptions, SharedCount};
use zk_sim::Ensemble;
use zk_sim::matching::transactions;
use zk_testkit::sim::lose;

use crate::{counter, number, pass, soon};

#[tokio::test(start_paused = true)]
async fn counter_goes_on_with_the_next_session() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let counter = AtomicCounter::new(&sessions, "/c", &CounterOptions::default()).unwrap();
    for expected in 1..=5 {
        assert_eq!(counter.increment().await.unwrap(), expected);
        let session = sessions.session().await.unwrap();
        sim.expire(session.id());
        soon("it is lost", session.lost()).await;
    }
    assert_eq!(counter.get().await.unwrap(), 5);
    assert_eq!(sim.tree().node("/c").unwrap().stat().num_children, 0);
}

#[tokio::test(start_paused = true)]
async fn outcome_is_unknown_only_if_the_session_ends_with_a_write_in_flight() {
    for is_applied in [false, true] {
        let sim = Ensemble::builder()
            .reconnect_after(Duration::from_secs(5))
            .build();
        let sessions = sim.open_sessions();
        let counter = AtomicCounter::new(&sessions, "/c", &CounterOptions::default()).unwrap();
        counter.increment().await.unwrap();
        let session = sessions.session().await.unwrap();
        let script = sim.on(transactions("/c"));
        let lost = lose(script, is_applied);
        let (incremented, later) = tokio::join!(counter.increment(), async {
            soon("it is lost", lost.happened()).await;
            sim.expire(session.id());
            counter.add(10).await
        });
        let error = incremented.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error}");
        assert_eq!(error.class(), ErrorClass::Fatal);
        let applied = i64::from(is_applied);
        assert_eq!(later.unwrap(), 11 + applied);
        assert_eq!(number(&sim), 11 + applied);
    }
}

#[tokio::test(start_paused = true)]
async fn counter_of_one_session_ends_with_it() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let counter = counter(&session);
    counter.increment().await.unwrap();
    sim.expire(session.id());
    soon("it is lost", session.lost()).await;
    let error = soon("it ends", counter.increment()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fatal, "{error}");
    assert!(!error.is_outcome_unknown());
    pass(Duration::from_secs(1)).await;
    let error = soon("it ends", counter.increment()).await.unwrap_err();
    assert!(matches!(error, CounterError::Ended { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn shared_count_goes_on_with_the_next_session() {
    let sim = Ensemble::new(3);
    let sessions = sim.open_sessions();
    let count = SharedCount::start(&sessions, "/n", 4).unwrap();
    let mut changes = count.changes();
    let first = soon("it is read", changes.next()).await.unwrap().unwrap();
    assert_eq!(first.map(|now| now.value), Some(4));
    let session = sessions.session().await.unwrap();
    sim.expire(session.id());
    soon("it is lost", session.lost()).await;
    count.set(5).await.unwrap();
    loop {
        let now = soon("it changes", changes.next()).await.unwrap().unwrap();
        if now.map(|now| now.value) == Some(5) {
            break;
        }
    }
    sessions.close().await.unwrap();
    assert!(soon("it ends", changes.next()).await.is_none());
    let before = sim.request_count();
    let error = count.set(6).await.unwrap_err();
    assert!(matches!(error, CounterError::Ended { .. }), "{error}");
    assert_eq!(sim.request_count(), before, "nothing is sent");
}
