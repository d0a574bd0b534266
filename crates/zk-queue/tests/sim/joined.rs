//! Offers that wait while others are in flight, and are joined into one transaction.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Runtime;
use tokio::time::{Instant, timeout};
use zk_core::transport::TransportError;
use zk_core::{Acl, AclEntry, ErrorClass, ErrorKind, Permissions, Session};
use zk_queue::{ItemId, OfferError, Queue};
use zk_sim::{Ensemble, Scripted, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::{PATH, all, data, pass, polled, queue, soon, text, texts, triggered};

/// Offers all of them concurrently.
async fn offer_each(
    queue: &Queue<String>,
    items: &[String],
) -> Vec<Result<Option<ItemId>, OfferError>> {
    join_all(items.iter().map(|item| queue.offer(item).into_future())).await
}

/// A queue whose first offer is done, so that the costs of the first use are not counted.
async fn used(session: &Session) -> Queue<String> {
    let queue = queue(session);
    queue
        .offer(&text("first"))
        .await
        .expect("nothing is in the way yet");
    assert_eq!(queue.poll().await.unwrap().as_deref(), Some("first"));
    queue
}

fn offers(ensemble: &Ensemble) -> usize {
    ensemble.arrived(matching::transactions("/queues/a/qn-"))
}

/// Holds the reply to the next offer, so that later ones wait.
fn hold_next(ensemble: &Ensemble, session: &Session) -> Scripted {
    let script = ensemble.on(matching::transactions("/queues/a/qn-"));
    script.session(session.id()).nth(1).hold()
}

#[tokio::test(start_paused = true)]
async fn offers_that_wait_go_together_and_keep_their_order() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session).await;
    let before = offers(&ensemble);
    let items = texts(100..300);
    let began = Instant::now();
    queue.offer(&text("lone")).await.unwrap();
    let round_trip = began.elapsed();
    let began = Instant::now();
    for offered in soon("all are offered", offer_each(&queue, &items)).await {
        offered.unwrap();
    }
    assert!(began.elapsed() <= 3 * round_trip, "{:?}", began.elapsed());
    assert_eq!(offers(&ensemble) - before, 3);
    assert_eq!(data(&ensemble, PATH)[1..], items);
}

/// An offer is there once and each of them succeeds, whichever reply is lost.
#[tokio::test(start_paused = true)]
async fn joined_offers_are_not_duplicated_whichever_reply_is_lost() {
    swept(
        async |_| {},
        async |what, ensemble, session, ()| {
            let queue = queue(&session);
            let items = texts(100..120);
            for offered in offer_each(&queue, &items).await {
                offered.expect(what);
            }
            let mut offered = data(ensemble, PATH);
            offered.sort();
            assert_eq!(offered, items, "{what}");
            for offered in offer_each(&queue, &texts(200..220)).await {
                offered.expect(what);
            }
            let all = data(ensemble, PATH);
            assert_eq!(all.len(), 40, "{what}: {all:?}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_offer_fails_alone_and_the_others_succeed() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session).await;
    let before = offers(&ensemble);
    // The first one goes alone. In the transaction of the others, the token and the check come first.
    let fault = |index| TransportError::RefusedAt {
        index,
        kind: ErrorKind::QuotaExceeded,
    };
    let joined = || ensemble.on(matching::transactions("/queues/a/qn-"));
    let refused = [
        joined().nth(2).refuse(fault(2 + 4)),
        joined().nth(3).refuse(fault(2)),
    ];
    let items = texts(0..10);
    let offered = soon("all end", offer_each(&queue, &items)).await;
    for script in refused {
        assert_eq!(script.count(), 1);
    }
    for (at, offered) in offered.iter().enumerate() {
        match (at, offered) {
            (5 | 1, Err(OfferError::Core(error))) => {
                assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
            }
            (_, offered) => assert!(offered.is_ok(), "{at}: {offered:?}"),
        }
    }
    assert_eq!(data(&ensemble, PATH), texts([0, 2, 3, 4, 6, 7, 8, 9]));
    assert_eq!(offers(&ensemble) - before, 4);
}

/// Each refusal settles one offer: none of them is sent alone once more.
#[tokio::test(start_paused = true)]
async fn refused_offers_cost_no_more_requests_than_one_each() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session).await;
    let before = offers(&ensemble);
    let refusal = TransportError::RefusedAt {
        index: 2,
        kind: ErrorKind::NoAuth,
    };
    let script = ensemble.on(matching::transactions("/queues/a/qn-"));
    let script = script.every().refuse(refusal);
    for offered in soon("all end", offer_each(&queue, &texts(0..50))).await {
        let error = offered.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Outcome, "{error:?}");
    }
    assert_eq!(offers(&ensemble) - before, 50);
    script.withdraw();
    queue.offer(&text("after")).await.unwrap();
    assert_eq!(data(&ensemble, PATH), ["after"]);
}

#[tokio::test(start_paused = true)]
async fn joined_offers_dropped_at_any_await_are_made_once_or_not() {
    dropped_everywhere(
        async |session| queue(session),
        async |queue| drop(offer_each(queue, &texts(0..3)).await),
        async |what, _, session, done| {
            let mut taken = all(&queue(&session)).await;
            taken.sort();
            let count = taken.len();
            taken.dedup();
            assert!(
                taken.len() == count && (count == 3 || done.is_none()),
                "{what}: {taken:?}"
            );
        },
    )
    .await;
}

/// An offer that is dropped while it waits is not made; one that was sent is, once, and closing waits for it.
#[tokio::test(start_paused = true)]
async fn a_waiting_offer_that_is_dropped_is_not_made() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session).await;
    let held = hold_next(&ensemble, &session);
    let mut lone = Box::pin(queue.offer(&text("lone")).into_future());
    assert!(polled(1, &mut lone).await.is_none());
    let [dropped, kept] = ["dropped", "kept"].map(text);
    let mut dropped = Box::pin(queue.offer(&dropped).into_future());
    let mut kept = Box::pin(queue.offer(&kept).into_future());
    assert!(polled(1, &mut dropped).await.is_none());
    assert!(polled(1, &mut kept).await.is_none());
    drop(dropped);
    triggered(&held).await;
    pass(Duration::from_millis(500)).await;
    // It was sent meanwhile, although the first reply has not arrived.
    drop(kept);
    held.release();
    soon("the lone one is made", lone).await.unwrap();
    soon("it closes", session.close()).await.unwrap();
    assert_eq!(data(&ensemble, PATH), ["lone", "kept"]);
}

/// The caller that sends alone may stop polling its future: others do not depend on it.
#[tokio::test(start_paused = true)]
async fn an_offer_that_is_not_polled_does_not_block_others() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session).await;
    let lone = text("lone");
    let mut lone = Box::pin(queue.offer(&lone).into_future());
    assert!(polled(1, &mut lone).await.is_none());
    for round in 0..10 {
        let offered = soon("they are made", offer_each(&queue, &texts([round; 5]))).await;
        assert!(offered.iter().all(Result::is_ok), "{offered:?}");
    }
    lone.await.unwrap();
    assert_eq!(data(&ensemble, PATH).len(), 51);
}

/// During an outage each offer ends at its deadline, and none is made later that was reported as not made.
#[tokio::test(start_paused = true)]
async fn offers_that_wait_through_an_outage_end_at_their_deadlines() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session.with_operation_timeout(Duration::from_secs(1))).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    let mut offering = Vec::new();
    for at in 0..40 {
        let offer = queue.offer(&text(at));
        offering.push(tokio::spawn(async move {
            let began = Instant::now();
            (offer.await, began.elapsed())
        }));
        pass(Duration::from_millis(20)).await;
    }
    let mut maybe = Vec::new();
    for (at, offering) in offering.into_iter().enumerate() {
        let (offered, took) = soon("it ends", offering).await.unwrap();
        assert!(took <= Duration::from_millis(2_001), "{at}: {took:?}");
        match offered {
            Err(OfferError::Unknown(_)) => maybe.push(text(at)),
            Err(error) => assert_eq!(error.class(), ErrorClass::Recoverable, "{error:?}"),
            Ok(_) => panic!("{at}: there was no connection"),
        }
    }
    pass(Duration::from_secs(20)).await;
    queue.offer(&text("after")).await.unwrap();
    let offered = data(&ensemble, PATH);
    let (after, before) = offered.split_last().unwrap();
    assert_eq!(after, "after");
    assert!(
        before.iter().all(|item| maybe.contains(item)),
        "{before:?}, {maybe:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn joined_offers_of_a_lost_session_end_with_a_fatal_error() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session).await;
    let lost = ensemble
        .on(matching::transactions("/queues/a/qn-"))
        .every()
        .lose_reply();
    let items = texts(0..20);
    let offering = async {
        let offering = offer_each(&queue, &items);
        soon("all end", offering).await
    };
    let ending = async {
        triggered(&lost).await;
        ensemble.expire(session.id());
    };
    let (offered, ()) = tokio::join!(offering, ending);
    for (at, offered) in offered.iter().enumerate() {
        let error = offered.as_ref().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Fatal, "{at}: {error:?}");
        let is_in_queue = data(&ensemble, PATH).contains(&items[at]);
        assert!(
            !is_in_queue || matches!(error, OfferError::Unknown(_)),
            "{at}: {error:?}"
        );
    }
}

/// The size of the ACL in a request is not known in advance.
#[tokio::test(start_paused = true)]
async fn joined_offers_under_a_long_acl_are_halved() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let rules = (0..100).map(|at| AclEntry::new(Permissions::ALL, "ip", format!("10.0.0.{at}")));
    let open = Acl::open();
    let rules = Acl::new(open.entries().iter().cloned().chain(rules));
    let queue = used(&session.with_acl(rules)).await;
    let items = texts(1000..1600);
    for offered in soon("all are offered", offer_each(&queue, &items)).await {
        offered.unwrap();
    }
    // Halves of two transactions may overtake each other.
    let mut offered = data(&ensemble, PATH);
    offered.sort();
    assert_eq!(offered, items);
}

/// In real time, because the session has a runtime of its own, which ends.
#[test]
fn offers_that_wait_end_with_the_runtime_of_the_session() {
    let (owner, callers) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (ensemble, queue) = owner.block_on(async {
        let ensemble = Ensemble::new(1);
        let session = ensemble.connect().await;
        // The one that goes alone waits for so long.
        let session = session.with_operation_timeout(Duration::from_secs(1));
        let queue = used(&session).await;
        hold_next(&ensemble, &session);
        (ensemble, queue)
    });
    callers.block_on(async {
        let offered = |item| {
            let queue = queue.clone();
            Box::pin(async move { queue.offer(&text(item)).await })
        };
        // One goes alone, some have a sender, and the others wait.
        let mut offering: Vec<_> = (0..50).map(offered).collect();
        for offer in &mut offering {
            assert!(polled(1, offer).await.is_none());
        }
        owner.shutdown_background();
        for offer in offering {
            let ended = timeout(LONGEST, offer).await;
            ended.expect("it ends").unwrap_err();
        }
    });
    drop(ensemble);
}

const LONGEST: Duration = Duration::from_secs(60);
