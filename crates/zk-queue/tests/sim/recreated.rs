//! A queue that is deleted and created again while a consumer has read an item and not taken it yet: the numbers
//! restart, and another item has the name of the one that was read.

use std::time::Duration;

use zk_core::codec::Text;
use zk_core::transport::TransportError;
use zk_core::{ErrorKind, Session};
use zk_queue::{ClaimLoss, Layout, SettleError, WorkQueue};
use zk_sim::{Ensemble, matching};

use crate::{
    PATH, all, children, data, pass, queue, queue_of, reads, soon, text, texts, triggered, work,
};

const CONTROL_NODE: &str = "/queues/a-receipts";

/// Which client creates the queue again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Creator {
    /// A producer of this crate.
    Ours,
    /// A client that knows only the recipe.
    Foreign,
}

/// How the queue is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletion {
    /// The leader removes the empty node.
    Reaped,
    /// A client deletes it, and its control node too.
    Deleted,
}

/// What other consumers do with the new queue before ours continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherConsumers {
    Nothing,
    /// They take the first item.
    Take,
}

const ALL: [(Creator, Deletion, OtherConsumers); 8] = [
    (Creator::Ours, Deletion::Reaped, OtherConsumers::Nothing),
    (Creator::Ours, Deletion::Reaped, OtherConsumers::Take),
    (Creator::Ours, Deletion::Deleted, OtherConsumers::Nothing),
    (Creator::Ours, Deletion::Deleted, OtherConsumers::Take),
    (Creator::Foreign, Deletion::Reaped, OtherConsumers::Nothing),
    (Creator::Foreign, Deletion::Reaped, OtherConsumers::Take),
    (Creator::Foreign, Deletion::Deleted, OtherConsumers::Nothing),
    (Creator::Foreign, Deletion::Deleted, OtherConsumers::Take),
];

/// Empties the old queue, creates the new one with two items, and returns the items that stay in it.
async fn recreate(
    ensemble: &Ensemble,
    (creator, end, others): (Creator, Deletion, OtherConsumers),
) -> Vec<String> {
    let session = ensemble.connect().await;
    all(&queue(&session)).await;
    match end {
        Deletion::Reaped => assert!(ensemble.reap() > 0),
        Deletion::Deleted => {
            for path in [PATH, CONTROL_NODE] {
                session.delete(path).recursive().await.unwrap();
            }
        }
    }
    assert!(ensemble.tree().node(PATH).is_none());
    let mut items = texts(["new 0", "new 1"]);
    match creator {
        Creator::Ours => {
            for item in &items {
                queue(&session).offer(item).await.unwrap();
            }
        }
        Creator::Foreign => {
            session.create(PATH, "").parents().await.unwrap();
            for item in &items {
                let create = session.create(format!("{PATH}/qn-"), item.as_str());
                create.sequential().await.unwrap();
            }
        }
    }
    assert_eq!(children(ensemble, PATH), ["qn-0000000000", "qn-0000000001"]);
    if others == OtherConsumers::Take {
        let taken = queue(&session).poll().await.unwrap();
        assert_eq!(taken, Some(items.remove(0)));
    }
    items
}

/// The next item was read together with the one before.
#[tokio::test(start_paused = true)]
async fn a_prefetched_item_is_not_mistaken_after_recreation() {
    for how in ALL {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ours = queue(&session);
        ours.offer_all(texts(["old 0", "old 1"])).await.unwrap();
        assert_eq!(ours.poll().await.unwrap().as_deref(), Some("old 0"));
        let left = recreate(&ensemble, how).await;
        assert_eq!(all(&ours).await, left, "{how:?}");
        assert_eq!(data(&ensemble, PATH), [""; 0], "{how:?}");
    }
}

/// The reply to the read arrives only after the queue was created again.
#[tokio::test(start_paused = true)]
async fn an_item_read_slowly_is_not_mistaken_after_recreation() {
    for how in ALL {
        for is_batch in [false, true] {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let ours = queue(&session);
            ours.offer_all(texts(["old 0", "old 1"])).await.unwrap();
            if how.2 == OtherConsumers::Take {
                // Then the remaining item has the name of the old one.
                assert!(ours.poll().await.unwrap().is_some());
                pass(Duration::from_secs(2)).await;
            }
            let held = ensemble
                .on(reads("/queues/a/*"))
                .session(session.id())
                .hold();
            let taking = tokio::spawn(async move {
                if is_batch {
                    ours.poll_batch(2).await
                } else {
                    ours.poll().await.map(|item| item.into_iter().collect())
                }
            });
            triggered(&held).await;
            let left = recreate(&ensemble, how).await;
            held.release();
            let mut taken = soon("it takes", taking).await.unwrap().unwrap();
            taken.extend(all(&queue(&session)).await);
            assert_eq!(taken, left, "{how:?}, batch: {is_batch}");
        }
    }
}

/// Peeking writes nothing that would distinguish the queue from the next one.
#[tokio::test(start_paused = true)]
async fn a_peeked_item_is_read_again_before_it_is_taken() {
    for how in ALL {
        let ensemble = Ensemble::new(3);
        let (session, producer) = (ensemble.connect().await, ensemble.connect().await);
        queue(&producer)
            .offer_all(texts(["old 0", "old 1"]))
            .await
            .unwrap();
        let ours = queue(&session);
        assert_eq!(ours.peek().await.unwrap().as_deref(), Some("old 0"));
        let left = recreate(&ensemble, how).await;
        assert_eq!(all(&ours).await, left, "{how:?}");
    }
}

/// An item that is put back goes behind the items of the new queue, not to a name that one of them will get.
#[tokio::test(start_paused = true)]
async fn an_item_of_a_deleted_queue_is_put_back_at_the_end() {
    for how in ALL {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ours = queue(&session);
        ours.offer_all(texts(0..9)).await.unwrap();
        assert_eq!(ours.poll_batch(8).await.unwrap().len(), 8);
        let held = ensemble
            .on(matching::transactions("/queues/a/*"))
            .session(session.id())
            .hold();
        let mut taking = Box::pin(ours.poll());
        let is_held = async {
            tokio::select! {
                _ = &mut taking => panic!("its reply is held"),
                () = triggered(&held) => {}
            }
        };
        is_held.await;
        drop(taking);
        assert_eq!(data(&ensemble, PATH), [""; 0]);
        let mut left = recreate(&ensemble, how).await;
        held.release();
        soon("it settles", session.settled()).await;
        let names = children(&ensemble, PATH);
        assert_eq!(
            names.last().map(String::as_str),
            Some("qn-0000000002"),
            "{how:?}"
        );
        left.push(text(8));
        assert_eq!(all(&ours).await, left, "{how:?}");
    }
}

/// One task has the item in flight when another one finds the queue deleted; then it releases the item.
#[tokio::test(start_paused = true)]
async fn an_item_released_after_recreation_is_listed_again() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let ours = queue(&session);
    ours.offer_all(texts(["old 0", "old 1"])).await.unwrap();
    assert_eq!(ours.poll().await.unwrap().as_deref(), Some("old 0"));
    pass(Duration::from_secs(2)).await;
    let mut taking = Box::pin(ours.poll());
    until_read(&ensemble, &mut taking).await;
    other.delete(PATH).recursive().await.unwrap();
    pass(Duration::from_secs(2)).await;
    assert_eq!(ours.poll().await.unwrap(), None);
    other.create(PATH, "").parents().await.unwrap();
    for item in ["new 0", "new 1"] {
        let create = other.create(format!("{PATH}/qn-"), item).sequential();
        create.await.unwrap();
    }
    drop(taking);
    let looks = || ensemble.arrived(reads("/queues/a/*"));
    let before = looks();
    assert_eq!(all(&ours).await, ["new 0", "new 1"]);
    assert!(looks() - before < 9, "it reads the item again and again");
}

/// Curator's queues put several items into one node.
#[tokio::test(start_paused = true)]
async fn an_item_of_a_shared_node_is_not_put_back_in_its_place() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let layout = Layout::Curator;
    let (ours, theirs) = (queue_of(&one, layout), queue_of(&two, layout));
    theirs.offer(&text("first")).await.unwrap();
    let both = b"\x00\x01\x00\x01\x01\x00\x00\x00\x01a\x01\x00\x00\x00\x01b\x02";
    let create = two.create("/queues/a/queue-", both).sequential();
    create.await.unwrap();
    assert_eq!(theirs.poll().await.unwrap().as_deref(), Some("first"));
    let mut taking = Box::pin(ours.poll());
    until_read(&ensemble, &mut taking).await;
    assert_eq!(theirs.poll().await.unwrap().as_deref(), Some("a"));
    let held = ensemble
        .on(matching::transactions("/queues/a/*"))
        .session(two.id())
        .hold();
    let mut dropped = Box::pin(theirs.poll());
    tokio::select! {
        _ = &mut dropped => panic!("its reply is held"),
        () = triggered(&held) => {}
    }
    drop(dropped);
    held.release();
    soon("it is put back", two.settled()).await;
    let taken = soon("the take completes", taking).await.unwrap();
    assert_eq!(taken.as_deref(), Some("b"));
    assert_eq!(all(&theirs).await, [""; 0]);
}

/// Polls a take until it has read an item, and then no more.
pub(crate) async fn until_read<T: std::fmt::Debug>(
    ensemble: &Ensemble,
    taking: &mut (impl Future<Output = T> + Unpin),
) {
    let looks = || ensemble.arrived(reads("/queues/a/*"));
    let before = looks();
    soon("it reads an item", async {
        while looks() == before {
            tokio::select! {
                biased;
                taken = &mut *taking => panic!("the take completed: {taken:?}"),
                () = pass(Duration::from_millis(1)) => {}
            }
        }
    })
    .await;
}

/// An ACL may allow writing the items, but not their parent.
#[tokio::test(start_paused = true)]
async fn items_are_taken_from_a_node_that_may_not_be_written() {
    for kind in [
        ErrorKind::NoAuth,
        ErrorKind::QuotaExceeded,
        ErrorKind::Unsupported,
    ] {
        for fault in [
            TransportError::RefusedAt { index: 3, kind },
            TransportError::Refused(kind, None),
        ] {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            let ours = queue(&session);
            ours.offer_all(texts(0..3)).await.unwrap();
            let refused = ensemble
                .on(matching::transactions(PATH))
                .session(session.id())
                .nth(1)
                .refuse(fault);
            assert_eq!(all(&ours).await, texts(0..3), "{kind:?}");
            assert_eq!(refused.count(), 1, "{kind:?}");
        }
    }
}

/// The list is that of the previous node, and does not show the order of the new items.
#[tokio::test(start_paused = true)]
async fn a_node_recreated_after_its_list_is_listed_again() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let ours = queue(&session);
    ours.offer_all(texts(["old 0", "old 1", "old 2"]))
        .await
        .unwrap();
    for name in ["qn-0000000000", "qn-0000000001"] {
        other.delete(format!("{PATH}/{name}")).await.unwrap();
    }
    let held = ensemble
        .on(matching::lists(PATH))
        .session(session.id())
        .hold();
    let taking = {
        let ours = ours.clone();
        tokio::spawn(async move { ours.poll().await })
    };
    triggered(&held).await;
    other.delete(PATH).recursive().await.unwrap();
    other.create(PATH, "").parents().await.unwrap();
    for item in ["new 0", "new 1", "new 2"] {
        let create = other.create(format!("{PATH}/qn-"), item).sequential();
        create.await.unwrap();
    }
    held.release();
    let taken = soon("it takes", taking).await.unwrap().unwrap();
    assert_eq!(taken.as_deref(), Some("new 0"));
    assert_eq!(all(&ours).await, ["new 1", "new 2"]);
}

/// Claims and acknowledges all items.
async fn finish(queue: &WorkQueue<String>) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(claim) = soon("an item or none", queue.try_claim()).await.unwrap() {
        items.push(claim.item().clone());
        claim.acknowledge().await.unwrap();
    }
    items
}

/// Deletes the old queue, and creates the new one with two items.
async fn recreate_work(ensemble: &Ensemble, session: &Session, end: Deletion) {
    match end {
        Deletion::Reaped => {
            assert_eq!(finish(&work(session)).await.len(), 1);
            assert!(ensemble.reap() > 0);
        }
        Deletion::Deleted => session.delete(PATH).recursive().await.unwrap(),
    }
    let items = texts(["new 0", "new 1"]);
    work(session).offer_all(items).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn prefetched_work_is_not_mistaken_after_recreation() {
    for end in [Deletion::Reaped, Deletion::Deleted] {
        for others in [OtherConsumers::Nothing, OtherConsumers::Take] {
            let how = format!("{end:?}, others: {others:?}");
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let ours = work(&one);
            ours.offer_all(texts(["old 0", "old 1"])).await.unwrap();
            let first = ours.try_claim().await.unwrap().unwrap();
            first.acknowledge().await.unwrap();
            recreate_work(&ensemble, &two, end).await;
            let mut left = texts(["new 0", "new 1"]);
            if others == OtherConsumers::Take {
                let theirs = work(&two).try_claim().await.unwrap().unwrap();
                assert_eq!(*theirs.item(), left.remove(0), "{how}");
                theirs.acknowledge().await.unwrap();
            }
            assert_eq!(finish(&ours).await, left, "{how}");
        }
    }
}

/// The queue was deleted and created again, and another consumer has claimed the item of that name.
#[tokio::test(start_paused = true)]
async fn a_claim_of_a_deleted_queue_ends_no_claim_of_the_next() {
    for act in ["acknowledge", "reject", "bury", "drop"] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let ours = work(&one);
        ours.offer(&text("old 0")).await.unwrap();
        let claim = ours.try_claim().await.unwrap().unwrap();
        recreate_work(&ensemble, &two, Deletion::Deleted).await;
        let theirs = work(&two).try_claim().await.unwrap().unwrap();
        assert_eq!(
            (claim.path(), theirs.item().as_str()),
            (theirs.path(), "new 0")
        );
        let settled = match act {
            "acknowledge" => claim.acknowledge().await.map_err(SettleError::from),
            "reject" => {
                let rejected = claim.reject(Duration::from_secs(1), "no").await;
                rejected.map_err(SettleError::from)
            }
            "bury" => claim.bury("no").await.map_err(SettleError::from),
            _ => {
                let path = claim.path().clone();
                drop(claim);
                Err(SettleError::Lost { path })
            }
        };
        assert!(
            matches!(settled, Err(SettleError::Lost { .. })),
            "{act}: {settled:?}"
        );
        soon("it settles", one.settled()).await;
        assert_eq!(theirs.item(), "new 0", "{act}");
        assert!(theirs.is_valid(), "{act}");
        theirs.acknowledge().await.unwrap();
        assert_eq!(finish(&ours).await, ["new 1"], "{act}");
    }
}

/// Another segment becomes active meanwhile; claims stay valid, and items keep their places.
#[tokio::test(start_paused = true)]
async fn a_claim_survives_the_start_of_a_segment() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = zk_queue::WorkOptions::default().with_segment_size(4);
    let ours = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
    ours.offer_all(texts(0..3)).await.unwrap();
    let mut claims = ours.try_claim_batch(3).await.unwrap();
    for item in texts(3..9) {
        ours.offer(&item).await.unwrap();
    }
    assert!(!children(&ensemble, "/queues/a/receipts/segments").is_empty());
    let released = claims.pop().unwrap();
    let rejected = claims.pop().unwrap();
    drop(released);
    rejected
        .reject(Duration::from_millis(1), "later")
        .await
        .unwrap();
    assert_ne!(
        tokio::time::timeout(Duration::from_secs(1), claims[0].lost()).await,
        Ok(ClaimLoss::ClaimDeleted)
    );
    claims.pop().unwrap().acknowledge().await.unwrap();
    soon("it settles", session.settled()).await;
    pass(Duration::from_secs(2)).await;
    let mut rest = finish(&ours).await;
    rest.sort();
    assert_eq!(rest, texts(1..9));
}

/// The items node is deleted when its items are done; items of a segment that were claimed with them stay claimed.
#[tokio::test(start_paused = true)]
async fn a_claim_in_a_segment_survives_the_items_node() {
    for act in ["acknowledge", "reject", "drop"] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let options = zk_queue::WorkOptions::default().with_segment_size(4);
        let ours = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
        for item in texts(0..9) {
            ours.offer(&item).await.unwrap();
        }
        let claims = ours.try_claim_batch(9).await.unwrap();
        let is_in_own_node =
            |claim: &zk_queue::Claim<String>| claim.path().as_str().starts_with("/queues/a/items/");
        let (own, others): (Vec<_>, Vec<_>) = claims.into_iter().partition(is_in_own_node);
        assert!(own.len() > 1 && others.len() > 1, "{own:?} {others:?}");
        for claim in own {
            claim.acknowledge().await.unwrap();
        }
        assert!(ensemble.reap() > 0);
        assert!(
            !ensemble
                .tree()
                .nodes()
                .any(|(path, _)| path.as_str() == "/queues/a/items")
        );
        let left: Vec<_> = others.iter().map(|claim| claim.item().clone()).collect();
        for claim in others {
            match act {
                "acknowledge" => claim.acknowledge().await.unwrap(),
                "reject" => claim
                    .reject(Duration::from_millis(1), "later")
                    .await
                    .unwrap(),
                _ => drop(claim),
            }
        }
        soon("it settles", session.settled()).await;
        pass(Duration::from_secs(2)).await;
        let mut rest = finish(&ours).await;
        rest.sort();
        let expected = if act == "acknowledge" {
            Vec::new()
        } else {
            left
        };
        assert_eq!(rest, expected, "{act}");
    }
}

/// The claim has to find out itself, since no other request is sent meanwhile.
#[tokio::test(start_paused = true)]
async fn a_claim_ends_correctly_after_all_tokens_were_deleted() {
    for is_control_node_deleted in [false, true] {
        for act in ["drop", "reject", "acknowledge"] {
            let what = format!("{act}, control node deleted: {is_control_node_deleted}");
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let ours = work(&one);
            ours.offer(&text("it")).await.unwrap();
            let claim = ours.try_claim().await.unwrap().unwrap();
            let receipts = children(&ensemble, "/queues/a/receipts");
            assert!(!receipts.is_empty(), "{what}");
            for name in receipts {
                let path = format!("/queues/a/receipts/{name}");
                two.delete(path).await.unwrap();
            }
            if is_control_node_deleted {
                two.delete("/queues/a/receipts").await.unwrap();
            }
            let before = ensemble.request_count();
            match act {
                "acknowledge" => soon(&what, claim.acknowledge()).await.unwrap(),
                "reject" => {
                    let rejecting = claim.reject(Duration::ZERO, "no");
                    soon(&what, rejecting).await.unwrap();
                }
                _ => drop(claim),
            }
            soon(&what, one.settled()).await;
            assert_eq!(children(&ensemble, "/queues/a/claims"), [""; 0], "{what}");
            let requests = ensemble.request_count() - before;
            assert!(requests < 20, "{what}: {requests} requests");
            let left = finish(&work(&two)).await;
            let expected: &[&str] = if act == "acknowledge" { &[] } else { &["it"] };
            assert_eq!(left, expected, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_with_the_name_of_one_that_was_skipped_is_taken() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let (queue, others) = (queue(&session), queue(&session));
    others.offer(&text("first")).await.unwrap();
    let bad = format!("{PATH}/qn-0000000000");
    session.set(&bad, [0xff]).await.unwrap();
    assert_eq!(queue.poll().await.unwrap(), None, "it is not a text");
    for path in [PATH, CONTROL_NODE] {
        session.delete(path).recursive().await.unwrap();
    }
    others.offer(&text("good")).await.unwrap();
    assert!(ensemble.tree().node(&bad).is_some());
    assert_eq!(queue.poll().await.unwrap(), Some(text("good")));
}
