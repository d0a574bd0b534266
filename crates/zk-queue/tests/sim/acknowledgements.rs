//! Acknowledgements that wait while others are in flight, and are joined into one transaction.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::codec::Text;
use zk_core::{ErrorClass, Session};
use zk_queue::{Claim, SettleError, WorkOptions, WorkQueue, WorkerOptions};
use zk_sim::{Ensemble, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::{PATH, children, data, pass, polled, soon, texts, work};

const CLAIMS: &str = "/queues/a/claims";
const ITEMS: &str = "/queues/a/items";

/// A queue with these items, of which one more is done, so that the costs of the first use are not counted.
async fn used(session: &Session, items: std::ops::Range<u32>) -> WorkQueue<String> {
    let queue = work(session);
    queue
        .offer_all(texts(items.start - 1..items.end))
        .await
        .unwrap();
    let claim = queue.claim().await.unwrap();
    claim.acknowledge().await.unwrap();
    queue
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_that_wait_go_together() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session, 100..200).await;
    let claims = queue.claim_batch(100).await.unwrap();
    assert_eq!(claims.len(), 100);
    let writes = || ensemble.arrived(matching::transactions("/queues/a/claims/*"));
    let before = writes();
    for settled in soon("they are settled", Claim::acknowledge_all(claims)).await {
        settled.unwrap();
    }
    assert_eq!(writes() - before, 2);
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

/// Each item is removed once, and none is delivered again, whichever reply is lost.
#[tokio::test(start_paused = true)]
async fn joined_acknowledgements_hold_whichever_reply_is_lost() {
    let ten = async |session: &Session| {
        work(session).offer_all(texts(0..10)).await.unwrap();
        soon("it settles", session.settled()).await;
    };
    swept(ten, async |what, ensemble, session, ()| {
        let queue = work(&session);
        let claims = queue.claim_batch(9).await.expect(what);
        assert_eq!(claims.len(), 9, "{what}");
        for settled in Claim::acknowledge_all(claims).await {
            settled.expect(what);
        }
        assert_eq!(data(ensemble, ITEMS), ["9"], "{what}");
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_fails_alone_and_the_others_are_settled() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = used(&session, 100..120).await;
    let claims = queue.claim_batch(20).await.unwrap();
    // Claims of others replace two of them, and one item is gone.
    let names = children(&ensemble, CLAIMS);
    for name in [&names[3], &names[11]] {
        other.delete(format!("{CLAIMS}/{name}")).await.unwrap();
    }
    let theirs = work(&other).claim_batch(2).await.unwrap();
    assert_eq!(theirs.len(), 2);
    other.delete(claims[7].path()).await.unwrap();
    let settled = soon("they end", Claim::acknowledge_all(claims)).await;
    for (at, settled) in settled.into_iter().enumerate() {
        let is_lost = matches!(
            &settled,
            Err(failed) if matches!(failed.error, SettleError::Lost { .. })
        );
        assert!(
            if matches!(at, 3 | 7 | 11) {
                is_lost
            } else {
                settled.is_ok()
            },
            "{at}"
        );
    }
    soon("it settles", session.settled()).await;
    assert_eq!(children(&ensemble, ITEMS).len(), 2);
    assert_eq!(children(&ensemble, CLAIMS).len(), 2);
    for settled in Claim::acknowledge_all(theirs).await {
        settled.unwrap();
    }
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
}

/// The preconditions of the claims differ then, and those of the first ones no longer hold.
#[tokio::test(start_paused = true)]
async fn claims_before_and_after_a_rotation_are_settled_together() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = WorkOptions::default().with_segment_size(4);
    let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
    let mut claims = Vec::new();
    for part in 0..4 {
        queue
            .offer_all(texts(part * 6..part * 6 + 6))
            .await
            .unwrap();
        claims.extend(queue.claim_batch(6).await.unwrap());
        claims.extend(queue.try_claim_batch(6).await.unwrap());
    }
    assert_eq!(claims.len(), 24);
    for settled in soon("they are settled", Claim::acknowledge_all(claims)).await {
        settled.unwrap();
    }
    assert!(queue.is_empty().await.unwrap());
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn joined_acknowledgements_continue_when_they_are_dropped() {
    dropped_everywhere(
        async |session| {
            let queue = used(session, 100..104).await;
            let claims = queue.claim_batch(4).await.unwrap();
            (queue, std::cell::RefCell::new(claims))
        },
        async |(_, claims)| drop(Claim::acknowledge_all(claims.take()).await),
        async |what, ensemble, _, _| {
            // Those whose acknowledgement had begun are done; the others are free.
            assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
            let left = children(ensemble, ITEMS).len();
            let has_begun = !what.ends_with(" 0 polls");
            assert_eq!(left, if has_begun { 0 } else { 4 }, "{what}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn joined_acknowledgements_of_a_lost_session_are_fatal() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session, 100..110).await;
    let claims = queue.claim_batch(10).await.unwrap();
    let lost = ensemble.on(matching::transactions("/queues/a/claims/*"));
    let lost = lost.every().lose_reply();
    let ending = async {
        crate::triggered(&lost).await;
        ensemble.expire(session.id());
    };
    let settling = soon("they end", Claim::acknowledge_all(claims));
    let (settled, ()) = tokio::join!(settling, ending);
    for settled in settled {
        assert_eq!(settled.unwrap_err().class(), ErrorClass::Fatal);
    }
}

/// The acknowledgement and the next claim are sent together: an item takes one round trip, not two.
#[tokio::test(start_paused = true)]
async fn a_worker_acknowledges_and_claims_in_one_round_trip() {
    for concurrency in [1, 8] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = used(&session, 1000..1200).await;
        let began = Instant::now();
        queue.offer(&"last".to_owned()).await.unwrap();
        let round_trip = began.elapsed();
        let done = tokio::sync::Notify::new();
        let handled = std::cell::Cell::new(0);
        let began = Instant::now();
        let handler = async |_| {
            handled.set(handled.get() + 1);
            if handled.get() == 160 {
                done.notify_one();
            }
            Ok::<_, String>(())
        };
        let options = WorkerOptions::default().with_concurrency(concurrency);
        let stats = soon(
            "it ends",
            queue.work_until(done.notified(), &options, handler),
        )
        .await;
        let rounds = u32::try_from(160 / concurrency).unwrap();
        // The first one has to read the items, and the last one to wait for acknowledgements.
        let most = round_trip * (rounds + rounds / 4 + 8);
        assert!(
            began.elapsed() < most,
            "{concurrency}: {:?} of {most:?}",
            began.elapsed()
        );
        let stats = stats.unwrap();
        assert!(stats.acknowledged >= 160, "{stats:?}");
        soon("it settles", session.settled()).await;
        assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
    }
}

/// The caller's part is refused, and the claim is settled without it.
#[tokio::test(start_paused = true)]
async fn a_refused_acknowledgement_returns_the_claim() {
    let one_item = async |session: &Session| {
        session
            .create("/queues/result", "")
            .parents()
            .await
            .unwrap();
        work(session).offer_all(texts([1, 2])).await.unwrap();
        soon("it settles", session.settled()).await;
    };
    swept(one_item, async |what, ensemble, session, ()| {
        let queue = work(&session);
        for item in ["1", "2"] {
            let claim = queue.claim().await.expect(what);
            assert_eq!(claim.item(), item, "{what}");
            let twice = claim.acknowledge_with(|txn| txn.create("/queues/result", "twice"));
            let failed = twice.await.expect_err(what);
            assert!(
                matches!(failed.error, SettleError::Refused(_)),
                "{what}: {failed:?}"
            );
            assert_eq!(failed.class(), ErrorClass::Outcome, "{what}");
            let claim = failed.claim.expect(what);
            assert!(claim.is_valid(), "{what}");
            assert_eq!(claim.deliveries(), 1, "{what}");
            assert_eq!(children(ensemble, CLAIMS).len(), 1, "{what}");
            if item == "1" {
                claim.acknowledge().await.expect(what);
            } else {
                claim.bury("there is a result").await.expect(what);
            }
        }
        assert_eq!(children(ensemble, ITEMS), [""; 0], "{what}");
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
        assert_eq!(children(ensemble, "/queues/a/dead").len(), 1, "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_returns_the_claim_that_was_refused() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session, 100..120).await;
    let claims = queue.claim_batch(20).await.unwrap();
    let child = format!("{}/child", claims[7].path());
    session.create(child.as_str(), "").await.unwrap();
    let settled = soon("they end", Claim::acknowledge_all(claims)).await;
    let failed = settled.into_iter().enumerate().filter_map(|(at, settled)| {
        let failed = settled.err()?;
        Some((at, failed))
    });
    let [(7, failed)] = <[_; 1]>::try_from(failed.collect::<Vec<_>>()).unwrap() else {
        panic!("another one failed");
    };
    assert!(matches!(failed.error, SettleError::Core(_)), "{failed:?}");
    // What was in the way is removed.
    session.delete(child.as_str()).await.unwrap();
    failed.claim.unwrap().acknowledge().await.unwrap();
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_over_is_not_returned() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = used(&session, 100..102).await;
    let claims = queue.claim_batch(2).await.unwrap();
    let [deleted, expired] = <[_; 2]>::try_from(claims).unwrap();
    other.delete(deleted.path()).await.unwrap();
    let failed = deleted.acknowledge().await.unwrap_err();
    assert!(failed.claim.is_none(), "{failed:?}");
    ensemble.expire(session.id());
    let failed = soon("it fails", expired.bury("no")).await.unwrap_err();
    assert_eq!(failed.class(), ErrorClass::Fatal);
    assert!(failed.claim.is_none(), "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_failure_releases_its_claim() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = used(&session, 100..101).await;
    let claim = queue.claim().await.unwrap();
    let refused = claim.acknowledge_with(|txn| txn.check("/missing"));
    let failed = refused.await.unwrap_err();
    pass(Duration::from_secs(5)).await;
    assert!(work(&other).try_claim().await.unwrap().is_none());
    drop(failed);
    let again = soon("it is delivered again", work(&other).claim()).await;
    assert_eq!(again.unwrap().deliveries(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_was_polled_once_is_acknowledged() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session, 100..300).await;
    let claims = queue.claim_batch(200).await.unwrap();
    assert_eq!(claims.len(), 200);
    assert!(polled(1, Claim::acknowledge_all(claims)).await.is_none());
    soon("it settles", session.settled()).await;
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}
