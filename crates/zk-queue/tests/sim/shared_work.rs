//! Work queues that share a path with kazoo's `LockingQueue` and with Curator's queues that have a lock path.

use std::time::Duration;

use zk_core::ErrorKind;
use zk_core::codec::{Raw, Text};
use zk_queue::{ClaimLoss, PathError, SettleError, WorkLayout, WorkOptions, WorkQueue};
use zk_sim::{Ensemble, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::other_client::{LOCKS, OtherClient, curator, layouts, parents, shared};
use crate::{PATH, children, ephemerals, pass, soon, text, texts};

/// Claims and acknowledges all items.
async fn finish(queue: &WorkQueue<String>) -> Vec<String> {
    let mut items = Vec::new();
    while let Some(claim) = soon("an item or none", queue.try_claim()).await.unwrap() {
        items.push(claim.item().clone());
        claim.acknowledge().await.unwrap();
    }
    items
}

#[tokio::test(start_paused = true)]
async fn neither_client_gets_an_item_that_the_other_one_has() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let ours = shared(&one, &layout);
        let theirs = OtherClient::new(&two, &layout);
        ours.offer_all(texts([1, 2, 3])).await.unwrap();
        let first = ours.claim().await.unwrap();
        assert_eq!(first.item(), "1", "{layout:?}");
        let second = theirs.take().await.unwrap().unwrap();
        assert_eq!(second.item, "2", "{layout:?}");
        let third = ours.claim().await.unwrap();
        assert_eq!(third.item(), "3", "{layout:?}");
        assert!(theirs.take().await.unwrap().is_none(), "{layout:?}");
        assert!(ours.try_claim().await.unwrap().is_none(), "{layout:?}");
        let (items, claims) = parents(&layout);
        assert_eq!(children(&ensemble, &items).len(), 3);
        // The claims are named after the items.
        assert_eq!(children(&ensemble, &claims), children(&ensemble, &items));
        let owners = ours.claims().await.unwrap();
        let owners: Vec<_> = owners.iter().map(|claim| claim.session).collect();
        assert_eq!(owners, [Some(one.id()), Some(two.id()), Some(one.id())]);
        let counts = ours.counts().await.unwrap();
        assert_eq!((counts.ready, counts.claimed), (0, 3), "{layout:?}");
        first.acknowledge().await.unwrap();
        theirs.finish(&second).await.unwrap();
        drop(third);
        soon("it settles", one.settled()).await;
        let third = theirs.take().await.unwrap().unwrap();
        assert_eq!(third.item, "3", "{layout:?}");
        theirs.finish(&third).await.unwrap();
        assert!(ours.is_empty().await.unwrap(), "{layout:?}");
        assert_eq!(children(&ensemble, &claims), [""; 0], "{layout:?}");
    }
}

/// The parents that other clients create once and for all are not deleted when they are empty.
#[tokio::test(start_paused = true)]
async fn the_parents_of_items_and_claims_stay_when_they_are_empty() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ours = shared(&session, &layout);
        ours.offer(&text(1)).await.unwrap();
        assert_eq!(finish(&ours).await, ["1"]);
        session.close().await.unwrap();
        while ensemble.reap() > 0 {}
        let (items, claims) = parents(&layout);
        for parent in [&items, &claims] {
            assert!(ensemble.tree().node(parent).is_some(), "{parent}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_comes_back_from_the_other_client_when_its_session_ends() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let ours = shared(&one, &layout);
        ours.offer(&text(1)).await.unwrap();
        OtherClient::new(&two, &layout)
            .take()
            .await
            .unwrap()
            .unwrap();
        let waiting = {
            let ours = ours.clone();
            tokio::spawn(async move { ours.claim().await })
        };
        pass(Duration::from_secs(5)).await;
        assert!(!waiting.is_finished(), "{layout:?}");
        ensemble.expire(two.id());
        let claim = soon("it comes back", waiting).await.unwrap().unwrap();
        // Only our deliveries count.
        assert_eq!((claim.item().as_str(), claim.deliveries()), ("1", 1));
        claim.acknowledge().await.unwrap();
    }
}

/// CURATOR-605: after an expiry, lock mode gives an item to two consumers, and the first one deletes it although
/// the second one has it. Ours, which lost its claim, does not touch the item or the claim of the other client.
#[tokio::test(start_paused = true)]
async fn a_lost_claim_settles_nothing_that_the_other_client_has() {
    for layout in layouts() {
        for act in 0..5 {
            let ensemble = Ensemble::new(3);
            let (one, two) = (ensemble.connect().await, ensemble.connect().await);
            let ours = shared(&one, &layout);
            let theirs = OtherClient::new(&two, &layout);
            ours.offer(&text(1)).await.unwrap();
            let claim = ours.claim().await.unwrap();
            let (_, claims) = parents(&layout);
            for name in children(&ensemble, &claims) {
                two.delete(format!("{claims}/{name}")).await.unwrap();
            }
            let taken = theirs.take().await.unwrap().unwrap();
            let guarded = claim.txn().set(&taken.path, "guarded").commit().await;
            assert_eq!(guarded.unwrap_err().kind(), ErrorKind::BadVersion);
            let what = format!("{layout:?}, {act}");
            let settled = match act {
                0 => claim.acknowledge().await.map_err(SettleError::from),
                1 => {
                    let rejected = claim.reject(Duration::from_secs(1), "too late").await;
                    // The claim is gone, and so is what there is to do.
                    rejected.map_err(SettleError::from)
                }
                2 => claim.bury("too late").await.map_err(SettleError::from),
                3 => {
                    let settled = claim.acknowledge_with(|txn| txn.create("/guarded", ""));
                    settled.await.map_err(SettleError::from)
                }
                _ => {
                    drop(claim);
                    Ok(())
                }
            };
            if matches!(act, 0 | 2 | 3) {
                assert!(matches!(settled, Err(SettleError::Lost { .. })), "{what}");
            }
            soon("it settles", one.settled()).await;
            let tree = ensemble.tree();
            assert!(tree.node(&taken.path).is_some(), "{what}");
            let claim = tree.node(&taken.claim).expect(&what);
            assert_eq!(claim.owner(), Some(two.id()), "{what}");
            theirs.finish(&taken).await.unwrap();
            assert_eq!(ours.dead_letters().await.unwrap(), [], "{what}");
            assert!(ours.is_empty().await.unwrap(), "{what}");
        }
    }
}

/// CURATOR-605 from the other side: a consumer of another client whose session expired deletes the item that ours has.
#[tokio::test(start_paused = true)]
async fn an_item_that_an_expired_consumer_deletes_is_reported_as_lost() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let ours = shared(&one, &layout);
        ours.offer_all(texts([1, 2])).await.unwrap();
        let theirs = OtherClient::new(&two, &layout);
        let taken = theirs.take().await.unwrap().unwrap();
        ensemble.expire(two.id());
        let claim = soon("it comes back", ours.claim()).await.unwrap();
        assert_eq!(claim.item(), "1");
        // It goes on with its next session.
        let theirs = OtherClient::new(&ensemble.connect().await, &layout);
        theirs.finish(&taken).await.unwrap();
        let loss = soon("the loss is reported", claim.lost()).await;
        assert_eq!(loss, ClaimLoss::ClaimDeleted);
        let error = claim.acknowledge().await.unwrap_err();
        assert!(matches!(error.error, SettleError::Lost { .. }), "{error:?}");
        assert_eq!(finish(&ours).await, ["2"], "{layout:?}");
    }
}

/// Kazoo's `consume` reports success though its transaction failed, and leaves its claim.
#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_failed_is_not_reported_as_done() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let ours = shared(&one, &WorkLayout::KazooLocking);
    ours.offer(&text(1)).await.unwrap();
    let claim = ours.claim().await.unwrap();
    two.delete(claim.path()).await.unwrap();
    let error = claim.acknowledge().await.unwrap_err();
    assert!(matches!(error.error, SettleError::Lost { .. }), "{error:?}");
    soon("it settles", one.settled()).await;
    assert_eq!(children(&ensemble, &format!("{PATH}/taken")), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_item_keeps_its_name_and_is_left_to_others() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let (ours, others) = (shared(&one, &layout), shared(&two, &layout));
        ours.offer(&text(1)).await.unwrap();
        let (items, claims) = parents(&layout);
        let names = children(&ensemble, &items);
        let claim = ours.claim().await.unwrap();
        let hour = Duration::from_secs(3600);
        claim.reject(hour, "not here").await.unwrap();
        assert_eq!(children(&ensemble, &items), names, "{layout:?}");
        assert_eq!(children(&ensemble, &claims), [""; 0], "{layout:?}");
        let none = ours.claim_timeout(Duration::from_secs(60)).await.unwrap();
        assert!(none.is_none(), "{layout:?}");
        let claim = others.claim().await.unwrap();
        assert_eq!((claim.item().as_str(), claim.deliveries()), ("1", 2));
        claim.reject(Duration::from_secs(5), "later").await.unwrap();
        let began = tokio::time::Instant::now();
        let claim = soon("its time has come", others.claim()).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(4), "{layout:?}");
        assert_eq!(claim.deliveries(), 3, "{layout:?}");
        let theirs = OtherClient::new(&two, &layout);
        claim.reject(hour, "not here").await.unwrap();
        let taken = theirs.take().await.unwrap().unwrap();
        assert_eq!(taken.item, "1", "{layout:?}");
    }
}

/// A list that is read while another consumer has the item does not end the time.
#[tokio::test(start_paused = true)]
async fn a_delay_goes_on_while_another_consumer_has_the_item() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let (ours, others) = (shared(&one, &layout), shared(&two, &layout));
        ours.offer(&text(1)).await.unwrap();
        let claim = ours.claim().await.unwrap();
        let hour = Duration::from_secs(3600);
        claim.reject(hour, "not here").await.unwrap();
        let waiting = tokio::spawn(async move {
            let claimed = ours.claim_timeout(Duration::from_secs(60)).await;
            claimed.unwrap().map(|claim| claim.item().clone())
        });
        let claim = others.claim().await.unwrap();
        pass(Duration::from_secs(5)).await;
        claim.reject(hour, "nor here").await.unwrap();
        let theirs = OtherClient::new(&two, &layout);
        let taken = theirs.take().await.unwrap().unwrap();
        pass(Duration::from_secs(5)).await;
        theirs.release(&taken).await.unwrap();
        assert_eq!(waiting.await.unwrap(), None, "{layout:?}");
        let none = others.try_claim().await.unwrap();
        assert!(none.is_none(), "{layout:?}");
    }
}

/// Curator's default `ErrorMode`: the new item has the name of its plain queue.
#[tokio::test(start_paused = true)]
async fn an_item_that_curator_requeues_is_delivered_to_ours() {
    let curators = layouts().into_iter().skip(1);
    for layout in curators {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let ours = shared(&one, &layout);
        ours.offer_all(texts([1, 2])).await.unwrap();
        let theirs = OtherClient::new(&two, &layout);
        let taken = theirs.take().await.unwrap().unwrap();
        theirs.requeue(&taken).await.unwrap();
        assert_eq!(ours.counts().await.unwrap().ready, 2, "{layout:?}");
        ours.check_layout().await.unwrap();
        let mut items = finish(&ours).await;
        items.sort();
        assert_eq!(items, ["1", "2"], "{layout:?}");
        assert!(ours.is_empty().await.unwrap(), "{layout:?}");
        // As a dead letter, it is offered again with the default priority.
        ours.offer(&text(3)).await.unwrap();
        let names = children(&ensemble, PATH);
        let taken = theirs.take().await.unwrap().unwrap();
        theirs.requeue(&taken).await.unwrap();
        ours.claim()
            .await
            .unwrap()
            .bury("for a test")
            .await
            .unwrap();
        let letters = ours.dead_letters().await.unwrap();
        ours.redrive(&letters[0]).await.unwrap();
        let without_number = |names: &[String]| names[0][..names[0].len() - 10].to_owned();
        let again = children(&ensemble, PATH);
        assert_eq!(without_number(&again), without_number(&names), "{layout:?}");
        assert_eq!(finish(&ours).await, ["3"], "{layout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_that_was_delivered_too_often_becomes_a_dead_letter() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let options = WorkOptions::default()
            .with_layout(layout.clone())
            .with_max_deliveries(2);
        let ours = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
        ours.offer(&text(1)).await.unwrap();
        for _ in 0..2 {
            let claim = ours.claim().await.unwrap();
            claim.reject(Duration::ZERO, "it is broken").await.unwrap();
        }
        assert!(ours.is_empty().await.unwrap(), "{layout:?}");
        let letters = ours.dead_letters().await.unwrap();
        assert_eq!(letters.len(), 1, "{layout:?}");
        assert_eq!(letters[0].deliveries, 2, "{layout:?}");
        let data = ours.dead_letter(&letters[0]).await.unwrap();
        assert_eq!(ours.decode_dead_letter(&data).unwrap(), "1");
        ours.redrive(&letters[0]).await.unwrap();
        let theirs = OtherClient::new(&session, &layout);
        let taken = theirs.take().await.unwrap().unwrap();
        assert_eq!(taken.item, "1", "{layout:?}");
    }
}

/// Curator logs and deletes an item that it cannot decode.
#[tokio::test(start_paused = true)]
async fn an_undecodable_item_stays_where_it_is_until_it_is_a_dead_letter() {
    for layout in layouts() {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let options = WorkOptions::default()
            .with_layout(layout.clone())
            .with_max_deliveries(3);
        let raw = WorkQueue::with_options(&session, PATH, Raw, &options).unwrap();
        raw.offer(&vec![0xff]).await.unwrap();
        let ours = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
        ours.offer(&text(2)).await.unwrap();
        let (items, claims) = parents(&layout);
        let names = children(&ensemble, &items);
        assert_eq!(finish(&ours).await, ["2"], "{layout:?}");
        assert_eq!(children(&ensemble, &items), names[..1], "{layout:?}");
        assert_eq!(children(&ensemble, &claims), [""; 0], "{layout:?}");
        // It counts as delivered once.
        let claim = raw.claim().await.unwrap();
        assert_eq!(
            (claim.item().as_slice(), claim.deliveries()),
            (&[0xff][..], 2)
        );
        drop(claim);
        let none = ours.claim_timeout(Duration::from_secs(60)).await.unwrap();
        assert!(none.is_none(), "{layout:?}");
        let letters = ours.dead_letters().await.unwrap();
        assert_eq!(letters.len(), 1, "{layout:?}");
        let data = ours.dead_letter(&letters[0]).await.unwrap();
        assert_eq!(data, [0xff], "{layout:?}");
    }
}

/// Curator's `putMulti`.
#[tokio::test(start_paused = true)]
async fn a_node_with_several_items_is_left_to_the_other_client() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ours = shared(&session, &curator());
    ours.offer(&text(1)).await.unwrap();
    let several = b"\x00\x01\x00\x01\x01\x00\x00\x00\x01a\x01\x00\x00\x00\x01b\x02";
    let several = session.create(format!("{PATH}/queue-"), several.to_vec());
    let (several, _) = several.sequential().await.unwrap();
    ours.offer(&text(2)).await.unwrap();
    assert_eq!(finish(&ours).await, ["1", "2"]);
    let (_, stat) = session.get(&several).await.unwrap();
    assert_eq!(stat.version, 0);
    assert_eq!(children(&ensemble, LOCKS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_path_that_is_the_queue_is_refused_with_the_remedy() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    let layout = WorkLayout::Curator {
        lock_path: zk_core::NodePath::parse(PATH).unwrap(),
    };
    let options = WorkOptions::default().with_layout(layout);
    let error = WorkQueue::with_options(&session, PATH, Text, &options).unwrap_err();
    assert!(matches!(error, PathError::LockPath { .. }));
    assert_eq!(
        error.to_string(),
        "the lock path /queues/a is a node of the queue itself; use the lock path of the other consumers"
    );
}

#[tokio::test(start_paused = true)]
async fn shared_work_is_done_once_whichever_reply_is_lost() {
    for layout in [WorkLayout::KazooLocking, curator()] {
        let three = async |session: &zk_core::Session| {
            let queue = shared(session, &layout);
            queue.offer_all(texts([1, 2, 3])).await.unwrap();
            soon("it settles", session.settled()).await;
        };
        swept(three, async |what, ensemble, session, ()| {
            let queue = shared(&session, &layout);
            let claim = queue.claim().await.expect(what);
            assert_eq!((claim.item().as_str(), claim.deliveries()), ("1", 1));
            claim.acknowledge().await.expect(what);
            let claim = queue.claim().await.expect(what);
            assert_eq!((claim.item().as_str(), claim.deliveries()), ("2", 1));
            let rejected = claim.reject(Duration::from_millis(200), "for a test");
            rejected.await.expect(what);
            let claim = queue.claim().await.expect(what);
            claim.bury("for a test").await.expect(what);
            let claim = queue.claim().await.expect(what);
            claim.acknowledge().await.expect(what);
            let (items, claims) = parents(&layout);
            let is_item = |name: &String| name.contains("0000000");
            let left = children(ensemble, &items).into_iter().filter(is_item);
            assert_eq!(left.count(), 0, "{what}");
            assert_eq!(children(ensemble, &claims), [""; 0], "{what}");
            assert_eq!(queue.dead_letters().await.expect(what).len(), 1, "{what}");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_claim_dropped_at_any_await_is_released() {
    for layout in [WorkLayout::KazooLocking, curator()] {
        dropped_everywhere(
            async |session| {
                let queue = shared(session, &layout);
                queue.offer_all(texts([1, 2])).await.unwrap();
                queue
            },
            async |queue| drop(queue.claim().await.unwrap()),
            async |what, _, session, _| {
                let mut items = finish(&shared(&session, &layout)).await;
                items.sort();
                assert_eq!(items, ["1", "2"], "{what}");
            },
        )
        .await;
    }
}

/// A claim of another client costs one more part of the transaction, and no more round trips.
#[tokio::test(start_paused = true)]
async fn a_shared_claim_costs_as_many_requests_as_another() {
    let mut counts = Vec::new();
    for layout in [WorkLayout::Native, WorkLayout::KazooLocking, curator()] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = shared(&session, &layout);
        queue.offer_all(texts(0..20)).await.unwrap();
        queue.claim().await.unwrap().acknowledge().await.unwrap();
        let before = ensemble.arrived(matching::anything());
        for _ in 0..10 {
            queue.claim().await.unwrap().acknowledge().await.unwrap();
        }
        counts.push(ensemble.arrived(matching::anything()) - before);
        session.close().await.unwrap();
        assert_eq!(ephemerals(&ensemble), [""; 0]);
    }
    assert_eq!(counts, [counts[0]; 3]);
}

/// An item that is being processed, or is delayed, does not hide those of the segments.
#[tokio::test(start_paused = true)]
async fn items_of_segments_are_claimed_beside_those_of_the_items_node() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = WorkOptions::default()
        .with_layout(curator())
        .with_segment_size(2);
    let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
    for item in texts(0..12) {
        queue.offer(&item).await.unwrap();
    }
    let in_node = children(&ensemble, PATH).len();
    assert!((2..8).contains(&in_node), "{in_node}");
    let rejected = queue.claim().await.unwrap();
    assert_eq!(rejected.item(), "0");
    let later = Duration::from_secs(600);
    rejected.reject(later, "for a test").await.unwrap();
    let mut held = Vec::new();
    for item in texts(1..12) {
        let claim = soon("another item", queue.claim()).await.unwrap();
        assert_eq!(claim.item(), &item);
        held.push(claim);
    }
    for claim in held {
        claim.acknowledge().await.unwrap();
    }
    pass(later).await;
    assert_eq!(finish(&queue).await, ["0"]);
}
