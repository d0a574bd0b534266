//! Acknowledgements that wait while others are in flight, and are joined into one transaction.

use futures_util::future::join_all;
use tokio::time::Instant;
use zk_core::ErrorClass;
use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::Claim;
use zk_queue::SettleError;
use zk_queue::WorkOptions;
use zk_queue::WorkQueue;
use zk_queue::WorkerOptions;
use zk_sim::Ensemble;
use zk_sim::matching;

use crate::PATH;
use crate::cancellation::dropped_everywhere;
use crate::children;
use crate::data;
use crate::faults::swept;
use crate::soon;
use crate::texts;
use crate::work;

const CLAIMS: &str = "/queues/a/claims";
const ITEMS: &str = "/queues/a/items";

async fn acknowledge_all(claims: Vec<Claim<String>>) -> Vec<Result<(), SettleError>> {
    join_all(claims.into_iter().map(Claim::acknowledge)).await
}

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

// covers: Q3
#[tokio::test(start_paused = true)]
async fn acknowledgements_that_wait_go_together() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = used(&session, 100..200).await;
    let claims = queue.claim_batch(100).await.unwrap();
    assert_eq!(claims.len(), 100);
    let writes = || ensemble.arrived(matching::transactions("/queues/a/claims/*"));
    let before = writes();
    for settled in soon("they are settled", acknowledge_all(claims)).await {
        settled.unwrap();
    }
    assert_eq!(writes() - before, 2);
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

/// Each item is removed once, and none is delivered again, whichever reply is lost.
// covers: Q3
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
        for settled in acknowledge_all(claims).await {
            settled.expect(what);
        }
        assert_eq!(data(ensemble, ITEMS), ["9"], "{what}");
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
    })
    .await;
}

// covers: Q3
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
    let settled = soon("they end", acknowledge_all(claims)).await;
    for (at, settled) in settled.into_iter().enumerate() {
        let is_lost = matches!(settled, Err(SettleError::Lost { .. }));
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
    for settled in acknowledge_all(theirs).await {
        settled.unwrap();
    }
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
}

/// The preconditions of the claims differ then, and those of the first ones no longer hold.
// covers: Q3 Q5
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
    for settled in soon("they are settled", acknowledge_all(claims)).await {
        settled.unwrap();
    }
    assert!(queue.is_empty().await.unwrap());
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

// covers: Q3
#[tokio::test(start_paused = true)]
async fn joined_acknowledgements_continue_when_they_are_dropped() {
    dropped_everywhere(
        async |session| {
            let queue = used(session, 100..104).await;
            let claims = queue.claim_batch(4).await.unwrap();
            (queue, std::cell::RefCell::new(claims))
        },
        async |(_, claims)| drop(acknowledge_all(claims.take()).await),
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

// covers: Q3
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
    let settling = soon("they end", acknowledge_all(claims));
    let (settled, ()) = tokio::join!(settling, ending);
    for settled in settled {
        assert_eq!(settled.unwrap_err().class(), ErrorClass::Fatal);
    }
}

/// The acknowledgement and the next claim are sent together: an item takes one round trip, not two.
// covers: Q3
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
