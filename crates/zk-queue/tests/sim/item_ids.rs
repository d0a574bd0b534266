//! The ids of items, and cancelling an item by its id.

use std::time::Duration;

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::{
    CancelError, CancelOutcome, Claim, ItemId, Layout, Queue, QueueOptions, WorkOptions, WorkQueue,
};
use zk_sim::{Ensemble, Release, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::{of_queues, swept};
use crate::{
    LAYOUTS, PATH, all, data, queue, queue_of, queue_with, soon, text, texts, triggered, work,
};

const ITEMS: &str = "/queues/a/items";
const RECEIPTS: &str = "/queues/a-receipts";

/// Offers items, and returns their ids.
async fn offered(queue: &Queue<String>, items: &[String]) -> Vec<ItemId> {
    let ids = queue.offer_all(items).await.expect("nothing is in the way");
    ids.into_iter().map(|id| id.expect("it is known")).collect()
}

/// Offers one item to a work queue, and returns its id.
async fn offered_work(queue: &WorkQueue<String>, item: &str) -> ItemId {
    let id = queue.offer(&text(item)).await;
    id.expect("nothing is in the way").expect("it is known")
}

/// Cancels an item, without an error.
async fn cancelled(queue: &Queue<String>, id: &ItemId) -> CancelOutcome {
    soon("it is cancelled or not", queue.cancel(id))
        .await
        .expect("nothing is in the way")
}

#[tokio::test(start_paused = true)]
async fn an_id_stored_as_text_cancels_its_item_and_no_other() {
    for layout in LAYOUTS {
        let ensemble = Ensemble::new(3);
        let (one, other) = (ensemble.connect().await, ensemble.connect().await);
        // Items of one priority are taken in the order of their numbers.
        let items = texts(100..110);
        let ids = offered(&queue_of(&one, layout), &items).await;
        let lone = queue_of(&one, layout).offer(&text(110)).await.unwrap();
        let ids: Vec<_> = ids.into_iter().chain(lone).collect();
        let cancelling = queue_of(&other, layout);
        for nth in [10, 0, 7] {
            let id: ItemId = ids[nth].to_string().parse().unwrap();
            assert_eq!(id, ids[nth]);
            let first = cancelled(&cancelling, &id).await;
            assert_eq!(first, CancelOutcome::Removed, "{layout:?}");
            let again = cancelled(&cancelling, &id).await;
            assert_eq!(again, CancelOutcome::Gone, "{layout:?}");
        }
        let left = all(&queue_of(&one, layout)).await;
        assert_eq!(left, texts([101, 102, 103, 104, 105, 106, 108, 109]));
    }
}

/// The item is in the queue, although its id was in the reply.
#[tokio::test(start_paused = true)]
async fn an_offer_whose_reply_was_lost_has_no_id_and_others_do() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    let lost = ensemble.on(matching::transactions("/queues/a/qn-"));
    // The first attempt finds no parent.
    let lost = lost.nth(2).lose_reply();
    assert_eq!(queue.offer(&text(1)).await.unwrap(), None);
    triggered(&lost).await;
    assert!(queue.offer(&text(2)).await.unwrap().is_some());
    assert_eq!(data(&ensemble, PATH), ["1", "2"]);
}

/// Their replies to transactions do not have the stats of new nodes.
#[tokio::test(start_paused = true)]
async fn an_offer_on_old_servers_has_no_id() {
    let ensemble = Ensemble::builder().release(Release::V3_8).build();
    let session = ensemble.connect().await;
    let queue = queue(&session);
    assert_eq!(queue.offer(&text(1)).await.unwrap(), None);
    let ids = queue.offer_all(texts([2, 3])).await.unwrap();
    assert_eq!(ids, [None, None]);
    assert_eq!(data(&ensemble, PATH), ["1", "2", "3"]);
}

/// Three items, and their ids.
async fn three(session: &Session) -> Vec<ItemId> {
    let ids = offered(&queue(session), &texts([1, 2, 3])).await;
    soon("it settles", session.settled()).await;
    ids
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_exactly_once_whichever_reply_is_lost() {
    swept(three, async |what, ensemble, session, ids| {
        let queue = queue(&session);
        let outcome = queue.cancel(&ids[1]).await.expect(what);
        assert_eq!(outcome, CancelOutcome::Removed, "{what}");
        assert_eq!(data(ensemble, PATH), ["1", "3"], "{what}");
        let outcome = queue.cancel(&ids[1]).await.expect(what);
        assert_eq!(outcome, CancelOutcome::Gone, "{what}");
        assert_eq!(
            queue.poll().await.expect(what).as_deref(),
            Some("1"),
            "{what}"
        );
        let outcome = queue.cancel(&ids[2]).await.expect(what);
        assert_eq!(outcome, CancelOutcome::Removed, "{what}");
        assert_eq!(queue.poll().await.expect(what), None, "{what}");
    })
    .await;
}

/// A work queue with an item that waits for its next delivery, a claimed one and another one, and their ids.
async fn a_delayed_one(session: &Session) -> ([ItemId; 3], Claim<String>) {
    let queue = work(session);
    let delayed = offered_work(&queue, "delayed").await;
    let claimed = offered_work(&queue, "claimed").await;
    let waiting = offered_work(&queue, "waiting").await;
    let claim = queue.claim().await.expect("nothing is in the way");
    let rejected = claim.reject(Duration::from_secs(60), "later").await;
    rejected.expect("nothing is in the way");
    let claim = queue.claim().await.expect("nothing is in the way");
    soon("it settles", session.settled()).await;
    ([delayed, claimed, waiting], claim)
}

#[tokio::test(start_paused = true)]
async fn only_unclaimed_work_is_cancelled_whichever_reply_is_lost() {
    swept(
        a_delayed_one,
        async |what, ensemble, session, (ids, claim)| {
            let queue = work(&session);
            let [delayed, claimed, waiting] = &ids;
            let outcome = queue.cancel(delayed).await.expect(what);
            assert_eq!(outcome, CancelOutcome::Removed, "{what}");
            let outcome = queue.cancel(claimed).await.expect(what);
            assert_eq!(outcome, CancelOutcome::Claimed, "{what}");
            let outcome = queue.cancel(waiting).await.expect(what);
            assert_eq!(outcome, CancelOutcome::Removed, "{what}");
            assert_eq!(data(ensemble, ITEMS), ["claimed"], "{what}");
            let outcome = queue.cancel(waiting).await.expect(what);
            assert_eq!(outcome, CancelOutcome::Gone, "{what}");
            claim.acknowledge().await.expect(what);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_that_was_finished_or_buried_is_gone() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    let finished = offered_work(&queue, "finished").await;
    let buried = offered_work(&queue, "buried").await;
    let released = offered_work(&queue, "released").await;
    queue.claim().await.unwrap().acknowledge().await.unwrap();
    queue.claim().await.unwrap().bury("broken").await.unwrap();
    let claim = queue.claim().await.unwrap();
    claim.reject(Duration::ZERO, "not now").await.unwrap();
    for (id, expected) in [
        (finished, CancelOutcome::Gone),
        (buried, CancelOutcome::Gone),
        (released, CancelOutcome::Removed),
    ] {
        assert_eq!(queue.cancel(&id).await.unwrap(), expected, "{id}");
    }
    assert_eq!(queue.dead_letters().await.unwrap().len(), 1);
}

/// A consumer takes the item after it was read for the cancellation, or before.
#[tokio::test(start_paused = true)]
async fn either_a_consumer_or_the_cancellation_gets_the_item() {
    for is_cancellation_first in [false, true] {
        let ensemble = Ensemble::new(3);
        let (ours, other) = (ensemble.connect().await, ensemble.connect().await);
        let id = three(&ours).await.remove(0);
        let cancelling = queue(&ours);
        // The reply to the deletion is held, or that to the read before.
        let held = if is_cancellation_first {
            ensemble.on(matching::transactions("/queues/a/qn-0000000000"))
        } else {
            ensemble.on(matching::exists("/queues/a/qn-0000000000"))
        };
        let held = held.session(ours.id()).hold();
        let cancelling = tokio::spawn(async move { cancelling.cancel(&id).await });
        triggered(&held).await;
        let taken = queue(&other).poll().await.unwrap();
        held.release();
        let outcome = soon("it is cancelled or not", cancelling).await.unwrap();
        let (expected, item) = if is_cancellation_first {
            (CancelOutcome::Removed, "2")
        } else {
            (CancelOutcome::Gone, "1")
        };
        assert_eq!(outcome.unwrap(), expected);
        assert_eq!(taken.as_deref(), Some(item));
    }
}

/// The requests are sent again to a server that lags, in another order.
#[tokio::test(start_paused = true)]
async fn an_item_is_not_gone_because_a_server_lags() {
    for nth in 1..7 {
        for kind in ["queue", "work queue"] {
            let ensemble = Ensemble::new(3);
            let ours = ensemble.connect().server(1).await;
            let other = ensemble.connect().server(3).await;
            // The session has tokens, and has seen nothing of the offer.
            offered(&queue(&ours), &texts(["first"])).await;
            queue(&ours).poll().await.unwrap();
            let (queue, work) = (queue(&ours), work(&ours));
            offered_work(&work, "first").await;
            queue.offer(&text("first")).await.unwrap();
            work.claim().await.unwrap().acknowledge().await.unwrap();
            queue.poll().await.unwrap();
            ensemble.server(2).lag_for(Duration::from_secs(2));
            let id = match kind {
                "queue" => offered(&crate::queue(&other), &texts(["late"]))
                    .await
                    .remove(0),
                _ => offered_work(&crate::work(&other), "late").await,
            };
            let script = ensemble.on(of_queues).session(ours.id()).nth(nth);
            script.stall_then_move(2);
            let outcome = soon("it is cancelled", async {
                match kind {
                    "queue" => queue.cancel(&id).await,
                    _ => work.cancel(&id).await,
                }
            });
            let outcome = outcome.await.unwrap();
            assert_eq!(outcome, CancelOutcome::Removed, "{kind}, request {nth}");
        }
    }
}

/// Another item has the name of the one that is cancelled, and the same version.
#[tokio::test(start_paused = true)]
async fn an_id_never_denotes_an_item_of_a_recreated_queue() {
    for is_reaped in [true, false] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ids = three(&session).await;
        assert_eq!(all(&queue(&session)).await, ["1", "2", "3"]);
        recreated(&ensemble, &session, is_reaped, &[PATH, RECEIPTS]).await;
        let new = three(&session).await;
        for id in &ids {
            let outcome = cancelled(&queue(&session), id).await;
            assert_eq!(outcome, CancelOutcome::Gone, "{id}");
        }
        assert_eq!(
            new[2].to_string().split('@').next(),
            ids[2].to_string().split('@').next()
        );
        assert_eq!(
            cancelled(&queue(&session), &new[2]).await,
            CancelOutcome::Removed
        );
        assert_eq!(all(&queue(&session)).await, ["1", "2"]);
    }
}

/// Removes the empty nodes of a queue.
async fn recreated(ensemble: &Ensemble, session: &Session, is_reaped: bool, paths: &[&str]) {
    if is_reaped {
        assert!(ensemble.reap() > 0);
        return;
    }
    for path in paths {
        session.delete(*path).recursive().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_item_is_not_mistaken_after_recreation() {
    for is_reaped in [true, false] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = work(&session);
        let id = offered_work(&queue, "old").await;
        queue.claim().await.unwrap().acknowledge().await.unwrap();
        recreated(&ensemble, &session, is_reaped, &[PATH]).await;
        let new = offered_work(&queue, "new").await;
        let claim = queue.claim().await.unwrap();
        claim
            .reject(Duration::from_secs(60), "later")
            .await
            .unwrap();
        // The new item has the old one's number, under another name.
        assert_eq!(queue.cancel(&id).await.unwrap(), CancelOutcome::Gone);
        assert_eq!(queue.cancel(&new).await.unwrap(), CancelOutcome::Removed);
        assert_eq!(data(&ensemble, ITEMS), [""; 0]);
    }
}

/// The queue is created again, with an item of that name, between the reads and the deletion.
#[tokio::test(start_paused = true)]
async fn a_cancellation_does_not_outlive_the_queue() {
    for (is_reaped, is_foreign) in [(true, true), (true, false), (false, true), (false, false)] {
        let ensemble = Ensemble::new(3);
        let (ours, other) = (ensemble.connect().await, ensemble.connect().await);
        let id = offered(&queue(&other), &texts(["old"])).await.remove(0);
        let read = ensemble.on(matching::exists("/queues/a/qn-0000000000"));
        let held = read.session(ours.id()).hold();
        let cancelling = queue(&ours);
        let cancelling = tokio::spawn(async move { cancelling.cancel(&id).await });
        triggered(&held).await;
        if is_foreign {
            // Another client takes it, and leaves the queue's node as it is.
            let path = format!("{PATH}/qn-0000000000");
            other.delete(path).await.unwrap();
        } else {
            assert_eq!(all(&queue(&other)).await, ["old"]);
        }
        recreated(&ensemble, &other, is_reaped, &[PATH, RECEIPTS]).await;
        offered(&queue(&other), &texts(["new"])).await;
        held.release();
        let outcome = soon("it is not cancelled", cancelling).await.unwrap();
        assert_eq!(outcome.unwrap(), CancelOutcome::Gone);
        assert_eq!(data(&ensemble, PATH), ["new"]);
    }
}

#[tokio::test(start_paused = true)]
async fn items_of_segments_are_cancelled_and_not_mistaken_later() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = QueueOptions::default().with_segment_size(2);
    let queue = queue_with(&session, &options);
    let mut ids = Vec::new();
    for item in 0..8 {
        ids.extend(queue.offer(&text(item)).await.unwrap());
    }
    assert_eq!(ids.len(), 8);
    assert!(ids[6].to_string().contains("/segments/"), "{}", ids[6]);
    for nth in [6, 1] {
        assert_eq!(cancelled(&queue, &ids[nth]).await, CancelOutcome::Removed);
    }
    assert_eq!(all(&queue).await, texts([0, 2, 3, 4, 5, 7]));
    // The segments were removed, and are started again.
    for item in 10..18 {
        queue.offer(&text(item)).await.unwrap();
    }
    for id in &ids {
        assert_eq!(cancelled(&queue, id).await, CancelOutcome::Gone, "{id}");
    }
    assert_eq!(all(&queue).await, texts(10..18));
}

#[tokio::test(start_paused = true)]
async fn an_id_of_another_queue_is_refused() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let id = three(&session).await.remove(0);
    let other = Queue::<String>::new(&session, "/queues/b", Text).unwrap();
    other.offer(&text("b")).await.unwrap();
    let native = queue_of(&session, Layout::Native);
    let chroot = ensemble.connect().chroot("/queues").await;
    chroot.create("/queues", "").await.unwrap();
    let same_path = queue(&chroot);
    same_path.offer(&text("c")).await.unwrap();
    for queue in [&other, &native, &same_path] {
        let error = queue.cancel(&id).await.unwrap_err();
        assert!(matches!(error, CancelError::OtherQueue { .. }), "{error:?}");
    }
    let same_queue = Queue::<String>::new(&chroot, "/a", Text).unwrap();
    assert_eq!(cancelled(&same_queue, &id).await, CancelOutcome::Removed);
    assert_eq!(data(&ensemble, PATH), ["2", "3"]);
}

/// The cancellation of an item that no consumer can read.
#[tokio::test(start_paused = true)]
async fn an_item_is_cancelled_whatever_its_data() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = WorkOptions::default();
    let raw = WorkQueue::with_options(&session, PATH, zk_core::codec::Raw, &options).unwrap();
    let id = raw.offer(&vec![0xff]).await.unwrap().unwrap();
    let queue = work(&session);
    assert!(queue.try_claim().await.unwrap().is_none());
    // It was delayed, because another consumer may know its format.
    assert_eq!(queue.cancel(&id).await.unwrap(), CancelOutcome::Removed);
    assert_eq!(data(&ensemble, ITEMS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_dropped_at_any_await_is_made_once_or_not() {
    dropped_everywhere(
        async |session| {
            let id = three(session).await.remove(1);
            (queue(session), id)
        },
        async |(queue, id)| queue.cancel(id).await.unwrap(),
        async |what, _, session, done| {
            let left = all(&queue(&session)).await;
            let without = ["1", "3"];
            assert!(
                left == without || (left == ["1", "2", "3"] && done.is_none()),
                "{what}: {left:?}"
            );
        },
    )
    .await;
}

/// Offers that wait are joined into one transaction.
#[tokio::test(start_paused = true)]
async fn each_of_several_joined_offers_gets_the_id_of_its_item() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    let items = texts(100..120);
    let offers = items.iter().map(|item| queue.offer(item).into_future());
    let ids = futures_util::future::join_all(offers).await;
    for (item, id) in items.iter().zip(ids) {
        let before = data(&ensemble, PATH);
        let id = id.unwrap().expect("it is known");
        assert_eq!(cancelled(&queue, &id).await, CancelOutcome::Removed);
        let after = data(&ensemble, PATH);
        let gone: Vec<_> = before.iter().filter(|it| !after.contains(it)).collect();
        assert_eq!(gone, [item]);
    }
}

/// A leader may not show its own clients yet what followers have shown others.
#[tokio::test(start_paused = true)]
async fn an_item_is_called_gone_only_behind_the_quorum() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    let ids = offered(&queue, &texts(["taken", "there"])).await;
    queue.take().await.unwrap();
    let asked = || ensemble.arrived(matching::transactions("/"));
    let before = asked();
    assert_eq!(queue.cancel(&ids[1]).await.unwrap(), CancelOutcome::Removed);
    assert_eq!(asked(), before, "it was found");
    assert_eq!(queue.cancel(&ids[0]).await.unwrap(), CancelOutcome::Gone);
    assert_eq!(asked(), before + 1);
}
