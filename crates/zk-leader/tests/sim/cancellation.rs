//! Futures dropped at every await.

use std::ops::ControlFlow;
use std::time::Duration;

use zk_core::Session;
use zk_leader::LeaderLease;
use zk_sim::{DropFault, Ensemble};

use crate::{latch, left, pass, polled, selector, soon};

/// Lets `act` be dropped after every number of polls, with another leader that resigns after a while, until it is done
/// before that; and looks each time that nothing is left and that the next one leads.
async fn dropped_everywhere(led_for: Option<Duration>, act: impl AsyncFn(Session)) {
    for drop_fault in DropFault::ALL {
        for polls in 0.. {
            let what = format!("{drop_fault:?} after {polls} polls");
            let ensemble = Ensemble::new(3);
            let session: Session = ensemble.connect().server(1).await;
            let other = ensemble.connect().server(3).await;
            let (leads, led) = tokio::sync::oneshot::channel();
            let leading = tokio::spawn(async move {
                let Some(led_for) = led_for else {
                    return leads.send(()).unwrap();
                };
                // The latch and the selector, whichever it is that is dropped.
                let ahead = latch(&other).join();
                soon("it leads", ahead.leading()).await.unwrap();
                let first = selector(&other).run_once(async |_| {
                    leads.send(()).unwrap();
                    pass(led_for).await;
                });
                soon("it is done", first).await.unwrap();
                ahead.leave().await;
            });
            soon("another one leads", led).await.unwrap();
            let done = soon(&what, polled(polls, act(session.clone())))
                .await
                .is_some();
            drop_fault.inject(&ensemble, session.id());
            soon(&what, leading).await.unwrap();
            soon(&what, session.settled()).await;
            // Whatever were still on its way would be there by now.
            pass(Duration::from_secs(3)).await;
            assert_eq!(left(&ensemble), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            let next = latch(&session).join();
            soon(&what, next.leading()).await.expect(&what);
            next.leave().await;
            if done {
                assert!(polls > 1, "{what}");
                break;
            }
        }
    }
}

const A_WHILE: Option<Duration> = Some(Duration::from_millis(200));

#[tokio::test(start_paused = true)]
async fn a_selector_dropped_at_any_await_leaves_nothing() {
    for led_for in [None, A_WHILE] {
        dropped_everywhere(led_for, async |session| {
            let task = async |_| pass(Duration::from_millis(30)).await;
            selector(&session).run_once(task).await.unwrap();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_joins_again_leaves_nothing_at_any_await() {
    dropped_everywhere(None, async |session| {
        let mut rounds = 0;
        let task = |_: LeaderLease| {
            rounds += 1;
            let is_last = rounds == 3;
            async move {
                pass(Duration::from_millis(20)).await;
                if is_last {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
        };
        selector(&session).run(task).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_latch_participant_dropped_at_any_await_leaves_nothing() {
    for led_for in [None, A_WHILE] {
        dropped_everywhere(led_for, async |session| {
            let participant = latch(&session).join();
            participant.leading().await.unwrap();
            participant.resign().await.unwrap();
            participant.leading().await.unwrap();
            participant.leave().await;
        })
        .await;
    }
}

/// The task of a participant runs on its own; here it is aborted at every moment.
#[tokio::test(start_paused = true)]
async fn a_latch_participant_dropped_at_any_moment_leaves_nothing() {
    for quarter in 0..120 {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let participant = latch(&session).join();
        pass(Duration::from_micros(quarter * 250)).await;
        let handle = participant.handle().clone();
        drop(participant);
        assert!(!handle.is_leader());
        soon("it is removed", session.settled()).await;
        pass(Duration::from_secs(1)).await;
        assert_eq!(
            left(&ensemble),
            [""; 0],
            "after {quarter} quarters of a millisecond"
        );
        assert_eq!(ensemble.watch_count(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn leaving_and_resigning_continue_when_their_futures_are_dropped() {
    for resigns in [true, false] {
        for polls in 1..4 {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let participant = latch(&session).join();
            let lease = soon("it leads", participant.leading()).await.unwrap();
            if resigns {
                drop(polled(polls, participant.resign()).await);
            } else {
                drop(polled(polls, participant.handle().leave()).await);
            }
            soon("it resigns", lease.lost()).await;
            if resigns {
                let again = soon("it leads again", participant.leading()).await.unwrap();
                assert!(again.fencing_token() > lease.fencing_token());
            } else {
                soon("it leaves", participant.handle().ended()).await;
                assert!(left(&ensemble).is_empty());
            }
        }
    }
}
