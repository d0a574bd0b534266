//! Offers that are part of a transaction of the application.

use std::time::Duration;

use futures_util::future::join_all;
use zk_core::codec::Text;
use zk_core::{ErrorKind, Session, Transaction};
use zk_queue::{
    CancelOutcome, Claim, ItemId, OfferError, QueueOptions, SettleError, WorkOptions, WorkQueue,
};
use zk_sim::{Ensemble, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::{PATH, children, data, queue, queue_with, soon, text, texts, triggered, work};

const KEYS: &str = "/queues/keys";
const ITEMS: &str = "/queues/a/items";

async fn with_keys(session: &Session) {
    let created = session.create(KEYS, "").parents();
    created.await.expect("nothing is in the way");
}

fn key(item: &str) -> String {
    format!("{KEYS}/{item}")
}

fn create_key(item: &str) -> impl Fn(Transaction) -> Transaction + Send + Sync + use<> {
    let key = key(item);
    move |txn| txn.create(&key, "offered")
}

/// Offers an item unless its key exists; returns whether it did.
async fn offer_once(
    queue: &WorkQueue<String>,
    item: &str,
) -> Result<Option<Option<ItemId>>, OfferError> {
    match queue.offer(&text(item)).commit_with(create_key(item)).await {
        Ok(id) => Ok(Some(id)),
        Err(OfferError::Refused(error)) if error.is_node_exists() => {
            assert_eq!(error.failed_part(), Some(2));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_and_changes_are_both_made_or_none_whichever_reply_is_lost() {
    swept(with_keys, async |what, ensemble, session, ()| {
        let queue = queue(&session);
        let offer = queue.offer(&text(1));
        offer.commit_with(create_key("1")).await.expect(what);
        assert_eq!(data(ensemble, PATH), ["1"], "{what}");
        assert_eq!(children(ensemble, KEYS), ["1"], "{what}");
        let offer = queue.offer(&text(2));
        let error = offer
            .commit_with(|txn| txn.create(key("2"), "").set_version(key("1"), "", 7))
            .await
            .expect_err(what);
        let OfferError::Refused(error) = error else {
            panic!("{what}: {error:?}");
        };
        assert_eq!(error.kind(), ErrorKind::BadVersion, "{what}");
        assert_eq!(error.failed_part(), Some(3), "{what}");
        assert_eq!(data(ensemble, PATH), ["1"], "{what}");
        assert_eq!(children(ensemble, KEYS), ["1"], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_offer_with_changes_dropped_at_any_await_is_made_once_or_not() {
    dropped_everywhere(
        async |session| {
            with_keys(session).await;
            queue(session)
        },
        async |queue| {
            let offer = queue.offer(&text(1));
            offer.commit_with(create_key("1")).await.unwrap()
        },
        async |what, ensemble, _, done| {
            let items = data(ensemble, PATH);
            assert_eq!(children(ensemble, KEYS), items, "{what}");
            assert!(items == ["1"] || done.is_none(), "{what}");
        },
    )
    .await;
}

/// The changes are made in the transaction that succeeds, although the active segment changes.
#[tokio::test(start_paused = true)]
async fn an_offer_with_changes_follows_the_active_segment() {
    let ensemble = Ensemble::new(3);
    let (one, other) = (ensemble.connect().await, ensemble.connect().await);
    with_keys(&one).await;
    let options = QueueOptions::default().with_segment_size(2);
    let (ours, theirs) = (queue_with(&one, &options), queue_with(&other, &options));
    let mut ids = Vec::new();
    for item in 0..10 {
        let queue = if item % 3 == 0 { &ours } else { &theirs };
        let offer = queue.offer(&text(item));
        ids.extend(offer.commit_with(create_key(&text(item))).await.unwrap());
    }
    assert_eq!(children(&ensemble, KEYS).len(), 10);
    assert!(children(&ensemble, PATH).len() < 4);
    assert!(ids[9].to_string().contains("/segments/"), "{}", ids[9]);
    assert_eq!(ours.cancel(&ids[9]).await.unwrap(), CancelOutcome::Removed);
    assert_eq!(ours.drain().await.items.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn an_offer_with_changes_respects_the_capacity() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    with_keys(&session).await;
    let queue = queue_with(&session, &QueueOptions::default().with_capacity(1));
    let offer = queue.offer(&text(1));
    offer.commit_with(create_key("1")).await.unwrap();
    let offer = queue.offer(&text(2)).within(Duration::from_secs(3));
    let error = offer.commit_with(create_key("2")).await.unwrap_err();
    assert!(matches!(error, OfferError::Full { .. }), "{error:?}");
    assert_eq!(children(&ensemble, KEYS), ["1"]);
}

/// The recipe of the crate's page.
#[tokio::test(start_paused = true)]
async fn a_key_is_offered_once_until_its_item_was_processed() {
    swept(with_keys, async |what, ensemble, session, ()| {
        let other = ensemble.connect().server(3).await;
        let (ours, theirs) = (work(&session), work(&other));
        let offers = [&ours, &theirs, &ours, &theirs].map(|queue| offer_once(queue, "order"));
        let offered = join_all(offers).await;
        let offered = offered.into_iter().map(|offered| offered.expect(what));
        assert_eq!(offered.flatten().count(), 1, "{what}");
        assert_eq!(data(ensemble, ITEMS), ["order"], "{what}");
        let claim = ours.claim().await.expect(what);
        let key = key(claim.item());
        let acknowledged = claim.acknowledge_with(move |txn| txn.delete(&key));
        acknowledged.await.expect(what);
        assert_eq!(children(ensemble, KEYS), [""; 0], "{what}");
        let again = offer_once(&ours, "order").await.expect(what);
        assert!(again.is_some(), "{what}");
        other.close().await.expect("there is no fault");
    })
    .await;
}

/// A claimed item, and the queue to which it moves.
async fn two_queues(session: &Session) -> (Claim<String>, WorkQueue<String>) {
    let from = work(session);
    from.offer(&text("order")).await.expect("nothing yet");
    let claim = from.claim().await.expect("nothing is in the way yet");
    soon("it settles", session.settled()).await;
    let to = WorkQueue::new(session, "/queues/b", Text).expect("a good path");
    (claim, to)
}

#[tokio::test(start_paused = true)]
async fn work_moves_to_another_queue_once_whichever_reply_is_lost() {
    swept(two_queues, async |what, ensemble, _session, (claim, to)| {
        let offer = to.offer(claim.item()).delay(Duration::from_secs(60));
        let offer = offer.prepare().await.expect(what);
        assert_eq!(children(ensemble, "/queues/b/items"), [""; 0], "{what}");
        let moved = claim.acknowledge_with(move |txn| offer.add_to(txn));
        moved.await.expect(what);
        assert_eq!(data(ensemble, ITEMS), [""; 0], "{what}");
        assert_eq!(data(ensemble, "/queues/b/items"), ["order"], "{what}");
        let counts = to.counts().await.expect(what);
        assert_eq!((counts.ready, counts.delayed), (0, 1), "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_prepared_offer_dropped_at_any_await_leaves_nothing() {
    dropped_everywhere(
        async |session| queue(session),
        async |queue| queue.offer(&text(1)).prepare().await.unwrap(),
        async |what, ensemble, _, _| {
            assert_eq!(children(ensemble, PATH), [""; 0], "{what}");
        },
    )
    .await;
}

/// A segment is started, or the servers remove the empty node, before the transaction is committed.
#[tokio::test(start_paused = true)]
async fn an_outdated_offer_is_refused_and_prepared_again() {
    for is_reaped in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        let options = QueueOptions::default().with_segment_size(2);
        let (ours, theirs) = (queue_with(&one, &options), queue_with(&other, &options));
        theirs.offer(&text("old")).await.unwrap();
        assert_eq!(ours.poll().await.unwrap().as_deref(), Some("old"));
        let offer = ours.offer(&text("ours")).prepare().await.unwrap();
        if is_reaped {
            assert!(ensemble.reap() > 0);
        } else {
            // They start a segment, and the one before is no longer full.
            for item in 0..4 {
                theirs.offer(&text(item)).await.unwrap();
            }
            theirs.poll().await.unwrap().unwrap();
            assert_eq!(data(&ensemble, PATH).len(), 1);
        }
        let check = |txn: Transaction| txn.check("/queues");
        let refused = offer.add_to(check(one.transaction())).commit().await;
        let refused = refused.unwrap_err();
        assert!(offer.is_outdated(&refused), "{refused}");
        let other_part = one.transaction().check("/none");
        let other_part = offer.add_to(other_part).commit().await.unwrap_err();
        assert!(!offer.is_outdated(&other_part), "{other_part}");
        let offer = ours.offer(&text("ours")).prepare().await.unwrap();
        let committed = offer.add_to(check(one.transaction())).commit().await;
        assert_eq!(committed.unwrap().len(), 3);
        let items = ours.drain().await.items;
        assert_eq!(items.iter().filter(|item| *item == "ours").count(), 1);
        assert_eq!(items.len(), if is_reaped { 1 } else { 4 });
    }
}

/// The loop of the documentation: a segment of the next queue is started just before the transaction.
#[tokio::test(start_paused = true)]
async fn work_moves_once_although_its_offer_is_outdated_at_first() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let (mut claim, _) = two_queues(&session).await;
    let options = WorkOptions::default().with_segment_size(2);
    let to = WorkQueue::with_options(&session, "/queues/b", Text, &options).unwrap();
    let mut rounds = 0;
    loop {
        rounds += 1;
        let next = to.offer(claim.item()).prepare().await.unwrap();
        if rounds == 1 {
            for item in 0..4 {
                to.offer(&text(item)).await.unwrap();
            }
        }
        let added = next.clone();
        let moving = claim.acknowledge_with(move |txn| added.add_to(txn));
        let Err(failure) = soon("it is settled", moving).await else {
            break;
        };
        match (failure.error, failure.claim) {
            (SettleError::Refused(error), Some(same)) if next.is_outdated(&error) => claim = same,
            (error, _) => panic!("{error:?}"),
        }
    }
    assert_eq!(rounds, 2);
    assert_eq!(data(&ensemble, ITEMS), [""; 0]);
    assert_eq!(to.len().await.unwrap(), 5);
}

/// Segments stay bounded, although the queue does not see how the transactions end.
#[tokio::test(start_paused = true)]
async fn prepared_offers_respect_the_bounds() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = QueueOptions::default()
        .with_segment_size(2)
        .with_capacity(9);
    let queue = queue_with(&session, &options);
    for item in 0..9 {
        let offer = queue.offer(&text(item)).prepare().await.unwrap();
        offer.add_to(session.transaction()).commit().await.unwrap();
    }
    assert_eq!(data(&ensemble, PATH), ["0", "1"]);
    for segment in 1..5 {
        let path = format!("/queues/a-receipts/segments/{segment:010}");
        assert!(
            (1..=2).contains(&children(&ensemble, &path).len()),
            "{path}"
        );
    }
    let error = queue.offer(&text(9)).prepare().await.unwrap_err();
    assert!(matches!(error, OfferError::Full { .. }), "{error:?}");
    assert_eq!(queue.drain().await.items, texts(0..9));
}

/// A transaction whose outcome stays unknown is reported as such.
#[tokio::test(start_paused = true)]
async fn an_offer_with_changes_without_any_reply_is_unknown() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    with_keys(&session).await;
    let queue = queue(&session);
    queue.offer(&text(1)).await.unwrap();
    let script = ensemble.on(matching::transactions("/queues/keys/*"));
    let lost = script.lose_reply();
    let offer = queue.offer(&text(2));
    let offering = tokio::spawn(async move { offer.commit_with(create_key("2")).await });
    triggered(&lost).await;
    // Before the session can send it again.
    ensemble.session(session.id()).expire();
    let outcome = soon("it ends", offering).await.unwrap();
    match outcome {
        Err(error) => assert!(matches!(error, OfferError::Unknown(_)), "{error:?}"),
        Ok(_) => panic!("the reply was lost"),
    }
    assert_eq!(data(&ensemble, PATH), ["1", "2"]);
    assert_eq!(children(&ensemble, KEYS), ["2"]);
}
