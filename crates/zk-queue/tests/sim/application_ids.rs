//! Items with ids of the application, as in Curator's `DistributedIdQueue`.

use std::time::Duration;

use zk_core::codec::Text;
use zk_core::{ErrorClass, Session};
use zk_queue::{
    CancelError, CancelledItems, Layout, OfferError, Queue, QueueOptions, WorkLayout, WorkOptions,
    WorkQueue,
};
use zk_sim::Ensemble;

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::other_client::locks;
use crate::{LAYOUTS, PATH, all, children, queue_of, queue_with, soon, text, texts};

fn queue(session: &Session) -> Queue<String> {
    queue_of(session, Layout::CuratorId)
}

fn counts(cancelled: CancelledItems) -> (usize, usize) {
    (cancelled.removed, cancelled.claimed)
}

/// Offers each item with the id that is its first letter.
async fn offer(queue: &Queue<String>, items: &[&str]) {
    for item in items {
        let id = item.get(..1).expect("it has a letter");
        queue.offer(&text(item)).id(id).await.expect("no fault");
    }
}

#[tokio::test(start_paused = true)]
async fn all_items_with_an_id_are_removed_and_no_others() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let (ours, theirs) = (queue(&one), queue(&two));
    offer(&ours, &["a1", "b1", "a2", "c1"]).await;
    assert_eq!(
        children(&ensemble, PATH),
        [
            "queue-|a|0000000000",
            "queue-|a|0000000002",
            "queue-|b|0000000001",
            "queue-|c|0000000003"
        ]
    );
    let removed = theirs.cancel_with_id("a").await.unwrap();
    assert_eq!(counts(removed), (2, 0));
    for unknown in ["a", "x", "", "|", "a\n"] {
        let removed = theirs.cancel_with_id(unknown).await.unwrap();
        assert_eq!(counts(removed), (0, 0), "{unknown:?}");
    }
    // The order is that of the numbers, whatever the ids are.
    offer(&ours, &["a3"]).await;
    assert_eq!(all(&theirs).await, ["b1", "c1", "a3"]);
}

/// Curator stores `_` for `/` and `|`, but looks for the id as it was given, and finds nothing.
#[tokio::test(start_paused = true)]
async fn an_id_with_a_slash_or_bar_finds_its_items() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer(&text(1)).id("a/b|c").await.unwrap();
    assert_eq!(children(&ensemble, PATH), ["queue-|a_b_c|0000000000"]);
    let removed = queue.cancel_with_id("a/b|c").await.unwrap();
    assert_eq!(counts(removed), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_refused_where_it_cannot_be_stored() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    for layout in LAYOUTS {
        let queue = queue_of(&session, layout);
        let error = queue.offer(&text(1)).id("7").await.unwrap_err();
        assert!(matches!(error, OfferError::Id { .. }), "{error:?}");
        let error = queue.cancel_with_id("7").await.unwrap_err();
        assert!(matches!(error, CancelError::NoIds { .. }), "{error:?}");
        assert_eq!(error.class(), ErrorClass::Outcome);
    }
    let error = queue_of(&session, Layout::Recipe).offer(&text(1)).id("7");
    assert_eq!(
        error.await.unwrap_err().to_string(),
        "the layout Recipe cannot store an item with the id \"7\"; use Layout::CuratorId"
    );
    let queue = queue(&session);
    for id in ["", "a\n"] {
        let error = queue.offer(&text(1)).id(id).await.unwrap_err();
        assert!(error.to_string().contains("use one that is not empty"));
    }
    let error = queue.offer_all(texts([1])).await.unwrap_err();
    assert_eq!(error.source.class(), ErrorClass::Outcome);
    assert_eq!(
        error.source.to_string(),
        "the layout CuratorId cannot store an item without an id; give it one with Offer::id"
    );
    assert_eq!(children(&ensemble, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn items_with_an_id_are_found_in_every_segment() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = QueueOptions::default()
        .with_layout(Layout::CuratorId)
        .with_segment_size(2);
    let queue = queue_with(&session, &options);
    let items = ["a1", "b1", "a2", "b2", "a3", "b3", "a4"];
    offer(&queue, &items).await;
    assert!(
        ensemble
            .tree()
            .node("/queues/a-receipts/segments")
            .is_some()
    );
    let removed = queue.cancel_with_id("a").await.unwrap();
    assert_eq!(counts(removed), (4, 0));
    assert_eq!(all(&queue).await, ["b1", "b2", "b3"]);
}

#[tokio::test(start_paused = true)]
async fn a_claimed_item_is_counted_and_keeps_its_id() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let lock_path = locks();
    let options = WorkOptions::default().with_layout(WorkLayout::CuratorId { lock_path });
    let ours = WorkQueue::with_options(&one, PATH, Text, &options).unwrap();
    let theirs = WorkQueue::with_options(&two, PATH, Text, &options).unwrap();
    for item in texts([1, 2, 3]) {
        ours.offer(&item).id("7").await.unwrap();
    }
    let claim = theirs.claim().await.unwrap();
    let removed = ours.cancel_with_id("7").await.unwrap();
    assert_eq!(counts(removed), (2, 1));
    claim.bury("for a test").await.unwrap();
    let letters = ours.dead_letters().await.unwrap();
    ours.redrive(&letters[0]).await.unwrap();
    assert_eq!(children(&ensemble, PATH), ["queue-|7|0000000003"]);
    let removed = ours.cancel_with_id("7").await.unwrap();
    assert_eq!(counts(removed), (1, 0));
}

/// A take that is dropped puts the item back, at last under the same id.
#[tokio::test(start_paused = true)]
async fn an_item_that_is_put_back_at_the_end_keeps_its_id() {
    dropped_everywhere(
        async |session| {
            let queue = queue(session);
            offer(&queue, &["a1", "b1"]).await;
            // Once it was written, its old place is not used again.
            let first = format!("{PATH}/queue-|a|0000000000");
            let (data, _) = session.get(&first).await.unwrap();
            session.set(&first, data).await.unwrap();
            queue
        },
        async |queue| queue.poll().await.unwrap(),
        async |what, _, session, done| {
            let removed = queue(&session).cancel_with_id("a").await.unwrap();
            let expected = usize::from(done.is_none());
            assert_eq!(counts(removed), (expected, 0), "{what}");
            assert_eq!(all(&queue(&session)).await, ["b1"], "{what}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn items_are_removed_once_whichever_reply_is_lost() {
    let prepare = async |session: &Session| {
        offer(&queue(session), &["a1", "b1", "a2"]).await;
        soon("it settles", session.settled()).await;
    };
    swept(prepare, async |what, _, session, ()| {
        let queue = queue(&session);
        let removed = queue.cancel_with_id("a").await.expect(what);
        assert_eq!(counts(removed), (2, 0), "{what}");
        let offered = queue.offer(&text("c1")).id("c");
        offered.await.expect(what);
        assert_eq!(all(&queue).await, ["b1", "c1"], "{what}");
    })
    .await;
}

/// The offer returned to a client of a server that is ahead of ours.
#[tokio::test(start_paused = true)]
async fn an_item_that_a_lagging_server_does_not_show_is_removed() {
    let ensemble = Ensemble::new(3);
    let ours = ensemble.connect().server(2).await;
    let theirs = ensemble.connect().server(1).await;
    offer(&queue(&ours), &["b1"]).await;
    ensemble.server(2).lag_for(Duration::from_secs(5));
    offer(&queue(&theirs), &["a1"]).await;
    let removed = queue(&ours).cancel_with_id("a").await.unwrap();
    assert_eq!(counts(removed), (1, 0));
}
