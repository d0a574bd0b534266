//! The barrier: set, removed and waited for, over lost replies, lagging servers and dropped futures.

mod chaos;

use std::time::Duration;

use zk_barrier::Barrier;
use zk_core::{ErrorKind, Session};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{Ensemble, matching};

use crate::PATH;

fn barrier(session: &Session) -> Barrier {
    Barrier::new(session, PATH).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_passes_only_when_the_barrier_is_removed() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    soon("it is not set", barrier(&two).wait()).await.unwrap();
    assert!(barrier(&one).set().await.unwrap());
    assert!(barrier(&two).is_set().await.unwrap());
    let waiter = barrier(&two);
    let waiting = tokio::spawn(async move { waiter.wait().await });
    // B2: a barrier passed on any event.
    for data in ["a", "b"] {
        one.set(PATH, data).await.unwrap();
        pass(Duration::from_secs(1)).await;
        assert!(!waiting.is_finished());
    }
    ensemble.session(two.id()).cut();
    pass(Duration::from_secs(10)).await;
    assert!(!waiting.is_finished());
    assert!(barrier(&one).remove().await.unwrap());
    soon("it is removed", waiting).await.unwrap().unwrap();
    assert!(!barrier(&one).remove().await.unwrap());
    assert!(!barrier(&one).is_set().await.unwrap());
    pass(Duration::from_secs(1)).await;
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_barrier_removed_and_set_again_ends_the_wait() {
    for is_cut in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        barrier(&one).set().await.unwrap();
        let waiter = barrier(&two);
        let waiting = tokio::spawn(async move { waiter.wait().await });
        pass(Duration::from_secs(1)).await;
        if is_cut {
            ensemble.session(two.id()).cut_for(Duration::from_secs(1));
        }
        barrier(&one).remove().await.unwrap();
        barrier(&one).set().await.unwrap();
        soon("it was removed", waiting).await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lagging_server_lets_no_waiter_through() {
    let ensemble = Ensemble::new(3);
    let one = ensemble.connect().server(1).await;
    let two = ensemble.connect().server(2).await;
    ensemble.server(2).lag_for(Duration::from_secs(3));
    barrier(&one).set().await.unwrap();
    let waiter = barrier(&two);
    let waited = waiter.wait_timeout(Duration::from_secs(10)).await;
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
    ensemble.server(2).lag_for(Duration::from_secs(3));
    barrier(&one).remove().await.unwrap();
    barrier(&one).set().await.unwrap();
    assert!(barrier(&two).is_set().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn one_caller_sets_the_barrier_whichever_reply_is_lost() {
    for fault in 0..3 {
        let ensemble = Ensemble::new(3);
        let parent = ensemble.connect().await;
        parent.create("/barriers", "").await.unwrap();
        let mut calls = tokio::task::JoinSet::new();
        for at in 0..3 {
            let session = ensemble.connect().await;
            let script = || ensemble.on(matching::creates(PATH)).session(session.id());
            match (fault, at) {
                (1, _) => drop(script().lose_reply()),
                (2, 0) => drop(script().stall_then_move(2)),
                (2, _) => drop(script().lose_request()),
                _ => {}
            }
            calls.spawn(async move { barrier(&session).set().await });
        }
        let set = soon("all are answered", calls.join_all()).await;
        let set = set.into_iter().filter(|set| *set.as_ref().unwrap());
        assert_eq!(set.count(), 1, "fault {fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn removing_survives_a_lost_reply() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    barrier(&session).set().await.unwrap();
    ensemble.on(matching::deletes(PATH)).lose_reply();
    assert!(barrier(&session).remove().await.unwrap());
    assert!(!barrier(&session).remove().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_no_watch() {
    for polls in 0.. {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        barrier(&session).set().await.unwrap();
        let waiter = barrier(&session);
        let done = polled(polls, waiter.wait_timeout(Duration::from_secs(1))).await;
        pass(Duration::from_secs(2)).await;
        assert_eq!(ensemble.watch_count(), 0, "after {polls} polls");
        if done.is_some() {
            assert!(polls > 2, "{polls}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_wait_and_not_the_barrier() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    barrier(&one).set().await.unwrap();
    let waiter = barrier(&one);
    let waiting = tokio::spawn(async move { waiter.wait().await });
    pass(Duration::from_secs(1)).await;
    ensemble.session(one.id()).expire();
    let error = soon("the session is over", waiting).await.unwrap();
    assert!(error.unwrap_err().is_fatal());
    assert!(barrier(&two).is_set().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn many_waiters_are_notified_once_and_ask_nothing_more() {
    let ensemble = Ensemble::new(3);
    let one = ensemble.connect().await;
    barrier(&one).set().await.unwrap();
    let mut waits = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let session = ensemble.connect().await;
        let waiter = barrier(&session);
        waits.spawn(async move { waiter.wait().await.map(|()| session) });
    }
    pass(Duration::from_secs(1)).await;
    let before = ensemble.request_count();
    barrier(&one).remove().await.unwrap();
    let passed = soon("all pass", waits.join_all()).await;
    assert!(passed.iter().all(Result::is_ok));
    assert_eq!(ensemble.request_count() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn a_barrier_that_is_being_set_blocks_clients_of_the_leader() {
    // A leader answers a `sync` of its own clients before a quorum has committed what it proposed.
    for waits in [false, true] {
        let ensemble = Ensemble::new(2);
        let writer = ensemble.connect().server(1).await;
        let reader = ensemble.connect().server(2).await;
        writer.create("/barriers", "").await.unwrap();
        ensemble.server(2).lag_for(Duration::from_secs(1));
        let setter = barrier(&writer);
        let setting = tokio::spawn(async move { setter.set().await });
        pass(Duration::from_millis(100)).await;
        if waits {
            let waited = barrier(&reader).wait_timeout(Duration::from_secs(5)).await;
            assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
        } else {
            assert!(barrier(&reader).is_set().await.unwrap());
        }
        assert!(soon("it is set", setting).await.unwrap().unwrap());
    }
}
