//! Futures dropped at every await: no item is lost or duplicated, and nothing else remains.

use std::time::Duration;

use zk_core::Session;
use zk_queue::QueueOptions;
use zk_sim::{Ensemble, matching};

use crate::{PATH, all, ephemerals, pass, polled, queue, queue_with, soon, text, texts};

/// The fault at the moment of the drop.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Besides {
    Nothing,
    Cut,
    CutFor(Duration),
    MoveToLagging,
}

pub(crate) const BESIDES: [Besides; 4] = [
    Besides::Nothing,
    Besides::Cut,
    Besides::CutFor(Duration::from_secs(2)),
    Besides::MoveToLagging,
];

/// Drops `act` after each number of polls until it completes first, and checks the tree each time.
pub(crate) async fn dropped_everywhere<S, T>(
    setting: impl AsyncFn(&Session) -> S,
    act: impl AsyncFn(&S) -> T,
    judge: impl AsyncFn(&str, &Ensemble, Session, Option<T>),
) {
    for besides in BESIDES {
        for polls in 0.. {
            let what = format!("{besides:?} after {polls} polls");
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().server(1).await;
            let stage = setting(&session).await;
            let done = soon(&what, polled(polls, act(&stage))).await;
            let link = ensemble.session(session.id());
            match besides {
                Besides::Nothing => {}
                Besides::Cut => link.cut(),
                Besides::CutFor(pause) => link.cut_for(pause),
                Besides::MoveToLagging => {
                    ensemble.server(2).lag_for(Duration::from_millis(500));
                    link.move_to(2);
                }
            }
            drop(stage);
            soon(&what, session.settled()).await;
            // Every request in flight would have arrived by now.
            pass(Duration::from_secs(3)).await;
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            let is_done = done.is_some();
            judge(&what, &ensemble, session, done).await;
            if is_done {
                assert!(polls > 1, "{what}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_offer_dropped_at_any_await_is_made_once_or_not() {
    dropped_everywhere(
        async |session| queue(session),
        async |queue| queue.offer(&text(1)).await.unwrap(),
        async |what, _, session, done| {
            let taken = all(&queue(&session)).await;
            let most = ["1"];
            assert!(
                taken == most || (taken.is_empty() && done.is_none()),
                "{what}: {taken:?}"
            );
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_poll_dropped_at_any_await_leaves_its_item_in_its_place() {
    dropped_everywhere(
        async |session| {
            let queue = queue(session);
            queue.offer_all(texts(1..4)).await.unwrap();
            queue
        },
        async |queue| queue.poll().await.unwrap(),
        async |what, _, session, done| {
            let mut seen: Vec<_> = done.flatten().into_iter().collect();
            seen.extend(all(&queue(&session)).await);
            assert_eq!(seen, ["1", "2", "3"], "{what}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_or_drain_dropped_at_any_await_loses_nothing() {
    dropped_everywhere(
        async |session| {
            let queue = queue(session);
            queue.offer_all(texts(100..110)).await.unwrap();
            queue
        },
        async |queue| {
            let mut taken = queue.poll_batch(4).await.unwrap();
            // Returned items belong to the caller; only a later drop is tested.
            taken.extend(queue.drain().await.items);
            taken
        },
        async |what, ensemble, session, done| {
            let mut seen: Vec<_> = done.unwrap_or_default();
            let left = all(&queue(&session)).await;
            let first_four = seen.is_empty() && left.len() == 6;
            seen.extend(left);
            let expected = texts(if first_four { 104..110 } else { 100..110 });
            assert_eq!(seen, expected, "{what}: {:?}", ensemble.tree().paths());
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_take_dropped_at_any_await_loses_nothing() {
    dropped_everywhere(
        async |session| {
            let queue = queue(session);
            let later = queue.clone();
            tokio::spawn(async move {
                pass(Duration::from_millis(20)).await;
                later.offer(&text(1)).await.unwrap();
            });
            queue
        },
        async |queue| queue.take().await.unwrap(),
        async |what, _, session, done| {
            let mut seen: Vec<_> = done.into_iter().collect();
            seen.extend(all(&queue(&session)).await);
            assert_eq!(seen, ["1"], "{what}");
        },
    )
    .await;
}

/// Closing the session loses no item of a call that was just dropped.
#[tokio::test(start_paused = true)]
async fn closing_the_session_waits_for_what_is_put_back() {
    for polls in 0..20 {
        let ensemble = Ensemble::new(3);
        let (session, other) = (ensemble.connect().await, ensemble.connect().await);
        let handle = queue(&session);
        handle.offer(&text(1)).await.unwrap();
        let done = polled(polls, handle.poll()).await;
        session.close().await.unwrap();
        let left = ensemble
            .tree()
            .node(PATH)
            .map_or(0, |node| node.children().count());
        assert_eq!(left + usize::from(done.is_some()), 1, "after {polls} polls");
        drop(other);
    }
}

/// Another task of the process waits for an item that this one has in flight, and no watch fires for that.
#[tokio::test(start_paused = true)]
async fn a_waiter_gets_the_item_that_a_dropped_call_was_taking() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer(&text(1)).await.unwrap();
    let mut dropped = Box::pin(queue.poll());
    let reads = matching::gets("/queues/a/**");
    while ensemble.arrived(reads.clone()) == 0 {
        let taken = tokio::time::timeout(Duration::from_millis(1), &mut dropped).await;
        assert!(taken.is_err(), "{taken:?}");
    }
    let waiting = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.take().await })
    };
    pass(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    drop(dropped);
    let taken = soon("it is handed on", waiting).await.unwrap().unwrap();
    assert_eq!(taken, "1");
}

/// Each of them was prefetching an item.
#[tokio::test(start_paused = true)]
async fn dropped_calls_do_not_block_prefetching() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = QueueOptions::default().with_refresh(Duration::from_secs(3600));
    let queue = queue_with(&session, &options);
    queue.offer_all(texts(100..200)).await.unwrap();
    queue.poll().await.unwrap();
    let takes = || ensemble.arrived(matching::transactions("/queues/a/*"));
    let at_once = || {
        let polls = (0..20).map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.poll().await })
        });
        polls.collect::<Vec<_>>()
    };
    // Then each of the next calls has a token, and takes its item at once.
    for poll in at_once() {
        soon("it takes", poll).await.unwrap().unwrap();
    }
    let before = takes();
    let polls = at_once();
    soon("most are about to take", async {
        while takes() - before < 10 {
            pass(Duration::from_micros(100)).await;
        }
    })
    .await;
    for poll in &polls {
        poll.abort();
    }
    for poll in polls {
        drop(soon("it is over", poll).await);
    }
    soon("they are put back", session.settled()).await;
    queue.poll().await.unwrap();
    let began = tokio::time::Instant::now();
    queue.offer(&text("one")).await.unwrap();
    let round_trip = began.elapsed();
    let began = tokio::time::Instant::now();
    for _ in 0..10 {
        queue.poll().await.unwrap().unwrap();
    }
    assert_eq!(began.elapsed(), 10 * round_trip);
}
