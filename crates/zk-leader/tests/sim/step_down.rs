//! Requests to step down, dropped at every await.

use std::time::Duration;

use zk_core::Session;
use zk_leader::{LeaderLatch, LeaderLease, StepDown, StepDownPolicy};
use zk_sim::Ensemble;

use crate::{PATH, options, pass, polled, soon};

/// A leader that decides itself, and a session that asks.
async fn scene() -> (Ensemble, LeaderLease, zk_leader::LatchParticipant, Session) {
    let ensemble = Ensemble::new(3);
    let session: Session = ensemble.connect().server(1).await;
    let options = options().with_step_down(StepDownPolicy::Application);
    let latch = LeaderLatch::with_options(&session, PATH, &options).unwrap();
    let leader = latch.join();
    let lease = soon("it leads", leader.leading()).await.unwrap();
    let asking = ensemble.connect().server(2).await;
    (ensemble, lease, leader, asking)
}

fn ask(session: &Session) -> impl Future<Output = StepDown> + use<> {
    let election = LeaderLatch::new(session, PATH).unwrap();
    let request = election.request_step_down().limit(Duration::from_secs(5));
    async { request.await.unwrap() }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_drops_the_future_of_requests_at_any_await_loses_none() {
    for polls in 0..20 {
        let (_ensemble, lease, _leader, session) = scene().await;
        let asked = tokio::spawn(ask(&session));
        let early = soon("dropped", polled(polls, lease.step_down_requested())).await;
        let request = match early {
            Some(request) => request,
            None => soon("it is asked", lease.step_down_requested()).await,
        };
        request.unwrap().accept().await.unwrap();
        let answered = soon("it is answered", asked).await.unwrap();
        assert_eq!(answered, StepDown::Resigned, "after {polls} polls");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_at_any_await_is_withdrawn() {
    for polls in 0.. {
        let (ensemble, lease, _leader, session) = scene().await;
        let is_done = soon("dropped", polled(polls, ask(&session)))
            .await
            .is_some();
        soon("it is withdrawn", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        let what = format!("after {polls} polls");
        let tree = ensemble.tree();
        let inboxes = tree.node("/leaders/a-step-down");
        let inbox = inboxes.expect("it has an inbox").children().next();
        let inbox = tree.node(&format!("/leaders/a-step-down/{}", inbox.expect(&what)));
        let data = String::from_utf8_lossy(inbox.expect(&what).data()).into_owned();
        // The owner and its label; a request would be below.
        assert_eq!(data.lines().count(), 2, "{what}: {data}");
        assert!(lease.is_valid(), "{what}");
        if is_done {
            assert!(polls > 3, "{what}");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_dropped_at_any_await_still_resigns() {
    for polls in 1.. {
        let (_ensemble, lease, _leader, session) = scene().await;
        let asked = tokio::spawn(ask(&session));
        let request = soon("it is asked", lease.step_down_requested()).await;
        let accepting = request.unwrap().accept();
        let is_done = soon("dropped", polled(polls, accepting)).await.is_some();
        soon("it resigns", lease.lost()).await;
        let answered = soon("it is answered", asked).await.unwrap();
        assert_eq!(answered, StepDown::Resigned, "after {polls} polls");
        if is_done {
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_leader_drops_is_unanswered() {
    let (_ensemble, lease, _leader, session) = scene().await;
    let asked = tokio::spawn(ask(&session));
    let request = soon("it is asked", lease.step_down_requested()).await;
    drop(request.unwrap());
    let answered = soon("it is answered", asked).await.unwrap();
    assert_eq!(answered, StepDown::Unanswered);
    assert!(lease.is_valid());
    // It hears of the next one.
    let asked = tokio::spawn(ask(&session));
    let request = soon("it is asked", lease.step_down_requested()).await;
    request.unwrap().refuse("no").await.unwrap();
    let answered = soon("it is answered", asked).await.unwrap();
    let reason = "no".to_owned();
    assert_eq!(answered, StepDown::Refused { reason });
}
