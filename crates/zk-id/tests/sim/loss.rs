//! Worker numbers and reservations that are lost.

use std::time::Duration;

use zk_core::transport::Request;
use zk_id::{Layout, NextError, Snowflakes, WorkerLoss};
use zk_sim::{Ensemble, matching};

use crate::{PATH, Seen, TestClock, children, pass, polled, soon, taken};

const MARK: &str = "/ids/a/mark-00000";

/// A generator with the one worker number there is.
async fn claimed(ensemble: &Ensemble) -> (zk_core::Session, zk_id::Snowflake, TestClock) {
    let session = ensemble.connect().await;
    let reserve = session.session_timeout();
    let (ids, clock) = claimed_by(&session, reserve).await;
    (session, ids, clock)
}

async fn claimed_by(
    session: &zk_core::Session,
    reserve: Duration,
) -> (zk_id::Snowflake, TestClock) {
    const ONE: Layout = Layout::new(41, 0, 12, Duration::ZERO);
    let clock = TestClock::new();
    let ids = Snowflakes::new(session, PATH, ONE).unwrap();
    let ids = ids.with_clock(clock.clone()).with_reserve(reserve);
    let ids = ids.claim().await.unwrap();
    ids.next().await.unwrap();
    pass(Duration::from_millis(50)).await;
    (ids, clock)
}

#[tokio::test(start_paused = true)]
async fn no_id_is_given_out_once_another_process_can_have_the_number() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    // Enough time is reserved that nothing else stops it.
    let (ids, _) = claimed_by(&session, Duration::from_secs(3600)).await;
    let hasty = ids.generator().clone().with_max_wait(Duration::ZERO);
    ensemble.session(session.id()).partition();
    let mut last = tokio::time::Instant::now();
    // For as long as the ensemble keeps the session, and a little longer.
    while !taken(&ensemble).is_empty() {
        if ids.try_next().is_ok() {
            last = tokio::time::Instant::now();
        }
        pass(Duration::from_millis(1)).await;
    }
    let early = last.elapsed();
    assert!(ids.try_next().is_err() && hasty.next().await.is_err());
    assert!(early >= Duration::from_millis(15), "only {early:?} before");
    assert!(
        early < session.session_timeout() / 2,
        "{early:?} before that is too careful"
    );
    assert_eq!(
        soon("the loss is reported", ids.lost()).await,
        WorkerLoss::SessionLost
    );
    let error = ids.next().await.unwrap_err();
    assert_eq!(error, NextError::Lost(WorkerLoss::SessionLost));
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal);
}

#[tokio::test(start_paused = true)]
async fn short_break_of_the_connection_ends_nothing() {
    let ensemble = Ensemble::new(3);
    let (session, ids, _) = claimed(&ensemble).await;
    let mut seen = Seen::default();
    for _ in 0..50 {
        ensemble.session(session.id()).cut();
        for _ in 0..100 {
            seen.add([soon("there is an id", ids.next()).await.unwrap()]);
            pass(Duration::from_millis(7)).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deleting_the_nodes_of_a_worker_stops_its_generator() {
    for (path, loss) in [
        ("/ids/a/worker-00000", WorkerLoss::NodeDeleted),
        (MARK, WorkerLoss::MarkChanged),
    ] {
        let ensemble = Ensemble::new(3);
        let (_session, ids, _) = claimed(&ensemble).await;
        let operator = ensemble.connect().await;
        operator.delete(path).await.unwrap();
        assert_eq!(soon("the loss is reported", ids.lost()).await, loss);
        assert_eq!(ids.try_next(), Err(NextError::Lost(loss)));
        ids.release().await.unwrap();
    }
}

/// The watch fires only when another client already owns the node.
#[tokio::test(start_paused = true)]
async fn worker_whose_node_was_replaced_while_it_was_away_stops() {
    let ensemble = Ensemble::new(3);
    let (session, ids, _) = claimed(&ensemble).await;
    let operator = ensemble.connect().await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(1));
    let path = "/ids/a/worker-00000";
    operator.delete(path).await.unwrap();
    operator.create(path, "").ephemeral().await.unwrap();
    assert_eq!(
        soon("the loss is reported", ids.lost()).await,
        WorkerLoss::NodeDeleted
    );
    drop(ids);
    session.settled().await;
    // The new node belongs to another session and stays.
    assert_eq!(taken(&ensemble).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reservation_survives_lost_requests_and_replies() {
    let ensemble = Ensemble::new(3);
    let (session, ids, _) = claimed(&ensemble).await;
    let mut seen = Seen::default();
    for round in 0..60 {
        match round % 3 {
            0 => drop(ensemble.on(matching::sets(MARK)).lose_reply()),
            1 => drop(ensemble.on(matching::sets(MARK)).lose_request()),
            _ => drop(ensemble.on(matching::sets(MARK)).stall_then_move(3)),
        }
        pass(session.session_timeout() / 3).await;
        seen.add([soon("there is an id", ids.next()).await.unwrap()]);
    }
    ids.release().await.unwrap();
    assert_eq!(children(&ensemble, PATH), ["mark-00000"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_given_out_that_is_not_reserved() {
    let ensemble = Ensemble::new(3);
    let (session, ids, clock) = claimed(&ensemble).await;
    // The clock jumps past the reservation.
    clock.forwards(Duration::from_secs(30));
    pass(Duration::from_millis(3)).await;
    assert_eq!(ids.try_next(), Err(NextError::Unreserved));
    let id = soon("it is extended", ids.next()).await.unwrap();
    assert!(ids.layout().parts(id).time <= zk_id::Clock::now(&clock));
    drop(session);
}

#[tokio::test(start_paused = true)]
async fn clones_of_the_generator_end_with_the_lease() {
    let ensemble = Ensemble::new(3);
    let (session, ids, _) = claimed(&ensemble).await;
    let clone = ids.generator().clone();
    drop(ids);
    assert_eq!(clone.try_next(), Err(NextError::Lost(WorkerLoss::Released)));
    session.settled().await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(taken(&ensemble), [""; 0]);
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_generator_that_has_stopped_keeps_no_session_lease() {
    let ensemble = Ensemble::new(3);
    let (_session, ids, _) = claimed(&ensemble).await;
    let clone = ids.generator().clone();
    ids.release().await.unwrap();
    // The proofs that the session is alive end a minute after its last lease.
    pass(Duration::from_secs(120)).await;
    let proofs = ensemble.arrived(matching::syncs());
    pass(Duration::from_secs(120)).await;
    assert_eq!(ensemble.arrived(matching::syncs()), proofs);
    assert_eq!(clone.try_next(), Err(NextError::Lost(WorkerLoss::Released)));
}

/// An extension with an unknown outcome, its resolution, the write that gives time back, and the deletion: each reply takes
/// nearly as long as the timeout allows.
#[tokio::test(start_paused = true)]
async fn a_release_takes_no_longer_than_two_operations_may() {
    const MOST: Duration = Duration::from_secs(1);
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await.with_operation_timeout(MOST);
    let (ids, _) = claimed_by(&session, Duration::from_secs(4)).await;
    let looks =
        |request: &Request| matches!(request, Request::Sync { path } if path.as_str() == MARK);
    let answers = [
        ensemble.on(matching::sets(MARK)).hold(),
        ensemble.on(looks).hold(),
        ensemble.on(matching::gets(MARK)).hold(),
        ensemble.on(matching::sets(MARK)).nth(2).hold(),
        ensemble.on(matching::deletes("/ids/a/worker-00000")).hold(),
    ];
    soon("the reservation is extended", answers[0].happened()).await;
    let since = tokio::time::Instant::now();
    let mut releasing = Box::pin(ids.release());
    assert!(polled(1, &mut releasing).await.is_none());
    let releasing = tokio::spawn(releasing);
    let held = answers.clone();
    // The outcome of the extension is unknown from here on.
    let slow = tokio::spawn(async move {
        answers[0].release();
        for answer in &answers[1..] {
            answer.happened().await;
            pass(MOST * 9 / 10).await;
            answer.release();
        }
    });
    soon("it is released or not", releasing).await.unwrap().ok();
    assert!(since.elapsed() <= 2 * MOST, "{:?}", since.elapsed());
    slow.abort();
    for answer in held {
        answer.withdraw();
    }
    soon("nothing is left to do", session.settled()).await;
    assert_eq!(taken(&ensemble).len(), 0);
}
