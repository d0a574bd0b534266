//! Items and claims as streams.

use std::pin::pin;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use zk_core::ErrorClass;
use zk_queue::{Claim, TakeError};
use zk_sim::{Ensemble, matching};

use crate::cancellation::dropped_everywhere;
use crate::{all, children, pass, polled, queue, soon, text, texts, work};

#[tokio::test(start_paused = true)]
async fn a_stream_returns_each_item_and_waits_for_more() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    queue(&session).offer_all(texts(0..5)).await.unwrap();
    let later = queue(&session);
    tokio::spawn(async move {
        pass(Duration::from_secs(20)).await;
        later.offer_all(texts(5..8)).await.unwrap();
    });
    let items = queue(&session).into_stream().take(8);
    let items: Vec<_> = soon("they come", items.try_collect()).await.unwrap();
    assert_eq!(items, texts(0..8));
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_claims_keeps_no_item_from_others() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    work(&one).offer_all(texts(0..10)).await.unwrap();
    let mut claims = Box::pin(work(&one).into_stream());
    for item in 0..4 {
        let claim: Claim<String> = soon("a claim", claims.next()).await.unwrap().unwrap();
        assert_eq!(claim.item(), &text(item));
        claim.acknowledge().await.unwrap();
    }
    let others = work(&two).claim_batch(10).await.unwrap();
    assert_eq!(others.len(), 6);
    drop(others);
    // With a claim that is never polled to its end.
    assert!(polled(2, claims.next()).await.is_none());
    drop(claims);
    soon("it settles", one.settled()).await;
    soon("it settles", two.settled()).await;
    assert_eq!(children(&ensemble, "/queues/a/claims"), [""; 0]);
    assert_eq!(work(&two).claim_batch(10).await.unwrap().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_stream_dropped_at_any_await_loses_nothing() {
    dropped_everywhere(
        async |session| {
            let queue = queue(session);
            queue.offer_all(texts(1..5)).await.unwrap();
            (queue, std::cell::RefCell::new(Vec::new()))
        },
        async |(queue, seen)| {
            let mut items = pin!(queue.clone().into_stream());
            for _ in 0..3 {
                let item = items.next().await.unwrap().unwrap();
                seen.borrow_mut().push(item);
            }
            seen.take()
        },
        async |what, ensemble, session, done| {
            let mut seen = done.unwrap_or_default();
            seen.extend(all(&queue(&session)).await);
            // What `next` has returned before the drop is the caller's.
            let returned = 4 - seen.len();
            assert!(returned < 3, "{what}: {seen:?}");
            assert_eq!(seen[..], texts(1..5)[returned..], "{what}");
            assert_eq!(children(ensemble, crate::PATH), [""; 0], "{what}");
        },
    )
    .await;
}

/// Each call of `next` is dropped after one more poll, until one returns.
#[tokio::test(start_paused = true)]
async fn dropped_calls_of_next_lose_nothing() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    queue(&session).offer_all(texts(0..20)).await.unwrap();
    let mut items = Box::pin(queue(&session).into_stream());
    let mut seen = Vec::new();
    let every = async {
        while seen.len() < 20 {
            let next = tokio::time::timeout(Duration::from_micros(300), items.next()).await;
            if let Ok(next) = next {
                seen.push(next.unwrap().unwrap());
            }
        }
    };
    soon("they come", every).await;
    assert_eq!(seen, texts(0..20));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_a_fatal_error_only() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let quick = session.with_operation_timeout(Duration::from_secs(1));
    work(&session).offer_all(texts(0..2)).await.unwrap();
    let mut claims = Box::pin(work(&quick).into_stream());
    let held = ensemble.on(matching::lists("/queues/a/**")).hold();
    let failed: Result<_, TakeError> = soon("it fails", claims.next()).await.unwrap();
    assert_eq!(failed.unwrap_err().class(), ErrorClass::Recoverable);
    held.release();
    let claim = soon("a claim", claims.next()).await.unwrap().unwrap();
    assert_eq!(claim.item(), "0");
    ensemble.expire(session.id());
    let mut left: Vec<_> = soon("it ends", claims.collect::<Vec<_>>()).await;
    let last = left.pop().unwrap().map(drop);
    assert_eq!(last.unwrap_err().class(), ErrorClass::Fatal);
    assert!(left.len() < 2, "{left:?}");
}
