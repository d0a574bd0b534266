//! Calls that join, wait, fail and are given up.

use std::time::Duration;

use zk_core::ErrorKind;
use zk_core::transport::{Request, TransportError};
use zk_counter::{AtomicCounter, CompareAndSetOutcome, CounterError, CounterOptions};
use zk_sim::Ensemble;
use zk_sim::matching::{creates, gets, transactions};

use crate::{counter, number, pass, soon};

type Requests = Box<dyn Fn(&Request) -> bool + Send>;
/// Makes a matcher.
type Matcher = fn() -> Requests;

#[tokio::test(start_paused = true)]
async fn refusal_of_any_request_fails_the_call_at_once() {
    let matchers: [(&str, Matcher, bool); 4] = [
        ("parent", || Box::new(creates("/app")), true),
        ("token", || Box::new(creates("/app/c/*")), true),
        ("read", || Box::new(gets("/app/c")), true),
        ("read alone", || Box::new(gets("/app/c")), false),
    ];
    for (what, matcher, is_write) in matchers {
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        if what != "parent" {
            session.create("/app/c", "").parents().await.unwrap();
        }
        let refusal = TransportError::Refused(ErrorKind::NoAuth, None);
        let refused = sim.on(matcher()).every().refuse(refusal);
        let options = CounterOptions::default();
        let counter = AtomicCounter::new(&session, "/app/c", &options).unwrap();
        let before = sim.request_count();
        let call = async || {
            if is_write {
                counter.increment().await
            } else {
                counter.get().await
            }
        };
        for _ in 0..2 {
            let error = call().await.unwrap_err();
            let CounterError::Failed(error) = error else {
                panic!("{what}: {error}")
            };
            assert_eq!(error.kind(), ErrorKind::NoAuth, "{what}");
        }
        pass(Duration::from_secs(60)).await;
        let requests = sim.request_count() - before;
        assert!(requests < 20, "{what}: {requests} requests");
        refused.withdraw();
        assert_eq!(call().await.unwrap(), i64::from(is_write), "{what}");
    }
}

/// What is read for one call is too old for another that begins before the reply arrives.
#[tokio::test(start_paused = true)]
async fn call_is_not_decided_on_data_that_was_read_before_it() {
    let sim = Ensemble::new(3);
    let (session, other) = (sim.connect().await, sim.connect().await);
    let (counter, theirs) = (counter(&session), counter(&other));
    theirs.increment().await.unwrap();
    let held = sim.on(gets("/c")).session(session.id()).hold();
    let (first, second) = tokio::join!(counter.get(), async {
        soon("it is read", held.happened()).await;
        theirs.increment().await.unwrap();
        let (second, ()) = tokio::join!(biased; counter.get(), async { held.release() });
        second
    });
    assert_eq!((first.unwrap(), second.unwrap()), (1, 2));
    // The second read of a call that does not write decides it.
    let held = sim.on(gets("/c")).session(session.id()).nth(2).hold();
    let (first, second) = tokio::join!(counter.compare_and_set(5, 6), async {
        soon("it is read", held.happened()).await;
        theirs.increment().await.unwrap();
        let second = counter.compare_and_set(3, 4);
        let (second, ()) = tokio::join!(biased; second, async { held.release() });
        second
    });
    assert_eq!(first.unwrap(), CompareAndSetOutcome::Different { found: 2 });
    assert_eq!(second.unwrap(), CompareAndSetOutcome::Done);
    assert_eq!(number(&sim), 4);
}

#[tokio::test(start_paused = true)]
async fn call_without_a_connection_is_withdrawn() {
    let sim = Ensemble::new(3);
    let session = sim.connect().timeout(Duration::from_secs(60)).await;
    let options = CounterOptions::default().with_timeout(Duration::from_secs(2));
    let counter = AtomicCounter::new(&session, "/c", &options).unwrap();
    counter.increment().await.unwrap();
    sim.session(session.id()).cut_for(Duration::from_secs(10));
    pass(Duration::from_millis(10)).await;
    for _ in 0..3 {
        let error = counter.increment().await.unwrap_err();
        assert!(matches!(error, CounterError::TimedOut { .. }), "{error}");
    }
    pass(Duration::from_secs(20)).await;
    assert_eq!(number(&sim), 1);
    assert_eq!(counter.increment().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn call_given_up_between_two_attempts_is_not_applied() {
    for is_expired in [false, true] {
        let sim = Ensemble::new(3);
        let sessions = sim.open_sessions();
        let options = CounterOptions::default().with_timeout(Duration::from_secs(5));
        let counter = AtomicCounter::new(&sessions, "/c", &options).unwrap();
        counter.increment().await.unwrap();
        let refusal = TransportError::Refused(ErrorKind::BadVersion, None);
        let refused = sim.on(transactions("/c")).every().refuse(refusal);
        counter.increment().await.unwrap_err();
        assert!(refused.count() > 3);
        if is_expired {
            let session = sessions.session().await.unwrap();
            sim.expire(session.id());
            soon("it is lost", session.lost()).await;
        }
        refused.withdraw();
        pass(Duration::from_secs(20)).await;
        assert_eq!(number(&sim), 1, "{is_expired}");
        assert_eq!(counter.increment().await.unwrap(), 2, "{is_expired}");
    }
}
