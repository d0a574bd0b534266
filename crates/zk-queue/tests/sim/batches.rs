//! Batches: what fits into a request, and items that other consumers take meanwhile.

use std::time::Duration;

use zk_core::Session;
use zk_core::codec::{Raw, Text};
use zk_queue::{Layout, Queue, WorkOptions, WorkQueue, WorkerOptions};
use zk_sim::{Ensemble, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::recreated::until_read;
use crate::{PATH, children, data, pass, queue, queue_of, reads, soon, text, texts, work};

const CLAIMS: &str = "/queues/a/claims";

/// Claims and acknowledges one item, so that the costs of the first use are not counted.
async fn one_done(queue: &WorkQueue<String>) {
    let claim = queue.try_claim().await.unwrap();
    claim.unwrap().acknowledge().await.unwrap();
}

/// Another consumer takes many items of a batch after they were read: that costs one check, not an attempt for each.
#[tokio::test(start_paused = true)]
async fn a_batch_of_which_many_are_gone_costs_two_tries() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let ours = queue(&one);
    ours.offer_all(texts(100..200)).await.unwrap();
    assert_eq!(ours.poll().await.unwrap().as_deref(), Some("100"));
    let mut taking = Box::pin(ours.poll_batch(99));
    until_read(&ensemble, &mut taking).await;
    for name in children(&ensemble, PATH).iter().step_by(2) {
        two.delete(format!("{PATH}/{name}")).await.unwrap();
    }
    let tries = || ensemble.arrived(matching::transactions("/queues/a/*"));
    let before = tries();
    let taken = soon("it takes", taking).await.unwrap();
    let expected: Vec<_> = (102..200).step_by(2).collect();
    assert_eq!(taken, texts(expected));
    assert_eq!(tries() - before, 2);
    assert_eq!(data(&ensemble, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_claims_of_which_many_are_gone_costs_two_tries() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let (ours, theirs) = (work(&one), work(&two));
    ours.offer_all(texts(10..50)).await.unwrap();
    one_done(&ours).await;
    let mut claiming = Box::pin(ours.try_claim_batch(39));
    let looks = || ensemble.arrived(reads("/queues/a/items/*"));
    let before = looks();
    while looks() == before {
        tokio::select! {
            biased;
            _ = &mut claiming => panic!("it was not to go on"),
            () = pass(Duration::from_millis(1)) => {}
        }
    }
    let rivals = theirs.try_claim_batch(15).await.unwrap();
    assert_eq!(rivals.len(), 15);
    let tries = || ensemble.arrived(matching::transactions("/queues/a/claims/*"));
    let before = tries();
    let claims = soon("it claims", claiming).await.unwrap();
    assert_eq!(tries() - before, 2);
    let items: Vec<_> = claims.iter().map(|claim| claim.item().clone()).collect();
    assert_eq!(items, texts(26..50));
}

/// A path may be longer than an item.
#[tokio::test(start_paused = true)]
async fn no_batch_is_larger_than_a_request_may_be() {
    let ensemble = Ensemble::builder().max_request(1 << 20).build();
    let session = ensemble.connect().await;
    let path = format!("/queues/{}", "long".repeat(700));
    let ours = Queue::new(&session, path.as_str(), Text).unwrap();
    let all = texts(1000..2200);
    ours.offer_all(&all).await.unwrap();
    let mut taken = ours.poll_batch(1000).await.unwrap();
    assert!((2..1000).contains(&taken.len()), "{}", taken.len());
    let drained = ours.drain().await;
    drained.end.unwrap();
    taken.extend(drained.items);
    assert_eq!(taken, all);
}

/// Taking an item out of a shared node of Curator's writes the items that stay in it.
#[tokio::test(start_paused = true)]
async fn no_batch_leaves_more_than_a_request_may_have() {
    let ensemble = Ensemble::builder().max_request(1 << 20).build();
    let session = ensemble.connect().await;
    let ours = queue_of(&session, Layout::Curator);
    ours.offer(&text("first")).await.unwrap();
    let mut frame = b"\x00\x01\x00\x01\x01\x00\x00\x00\x01a\x01\x00\x04\x00\x00".to_vec();
    frame.resize(frame.len() + (4 << 16), b'b');
    frame.push(2);
    for _ in 0..8 {
        let create = session.create("/queues/a/queue-", frame.clone());
        create.sequential().await.unwrap();
    }
    let drained = ours.drain().await;
    drained.end.unwrap();
    let lengths: Vec<_> = drained.items.iter().map(String::len).collect();
    assert_eq!(lengths.iter().filter(|length| **length == 1).count(), 8);
    assert_eq!(
        lengths.iter().filter(|length| **length == 4 << 16).count(),
        8
    );
    assert_eq!(lengths.len(), 17);
}

/// A claim writes the item again.
#[tokio::test(start_paused = true)]
async fn no_batch_of_claims_is_larger_than_a_request_may_be() {
    let ensemble = Ensemble::builder().max_request(1 << 20).build();
    let session = ensemble.connect().await;
    let ours = work(&session);
    let all: Vec<_> = (0..10).map(|at| text(at).repeat(300_000)).collect();
    ours.offer_all(&all).await.unwrap();
    let mut items = Vec::new();
    while items.len() < all.len() {
        let claims = ours.try_claim_batch(10).await.unwrap();
        assert!(!claims.is_empty());
        for claim in claims {
            items.push(claim.item().clone());
            claim.acknowledge().await.unwrap();
        }
    }
    assert!(items == all, "not in their order");
    assert!(ours.try_claim_batch(0).await.unwrap().is_empty());
    assert!(ours.claim_batch(0).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_item_of_a_batch_has_a_claim_of_its_own() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ours = work(&session);
    let waiting = {
        let ours = ours.clone();
        tokio::spawn(async move { ours.claim_batch(3).await })
    };
    pass(Duration::from_secs(2)).await;
    ours.offer_all(texts(0..5)).await.unwrap();
    let mut claims = soon("there are some", waiting).await.unwrap().unwrap();
    let items: Vec<_> = claims.iter().map(|claim| claim.item().clone()).collect();
    assert_eq!(items, texts(0..3));
    assert_eq!(children(&ensemble, CLAIMS).len(), 3);
    claims.remove(0).acknowledge().await.unwrap();
    claims.remove(1).reject(Duration::ZERO, "no").await.unwrap();
    assert_eq!(children(&ensemble, CLAIMS).len(), 1);
    assert!(claims[0].is_valid());
    drop(claims);
    soon("it settles", session.settled()).await;
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
    pass(Duration::from_secs(2)).await;
    let rest = ours.try_claim_batch(9).await.unwrap();
    let rest: Vec<_> = rest
        .iter()
        .map(|claim| (claim.item().clone(), claim.deliveries()))
        .collect();
    let expected = [("1", 2), ("2", 2), ("3", 1), ("4", 1)];
    assert_eq!(rest, expected.map(|(item, times)| (text(item), times)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_claims_dropped_at_any_await_is_released() {
    dropped_everywhere(
        async |session| {
            let ours = work(session);
            ours.offer_all(texts(0..3)).await.unwrap();
            ours
        },
        async |ours| drop(ours.try_claim_batch(2).await.unwrap()),
        async |what, ensemble, session, _| {
            assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
            let claims = work(&session).try_claim_batch(9).await.unwrap();
            assert_eq!(claims.len(), 3, "{what}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_claimed_once_whichever_answer_is_lost() {
    let three = async |session: &Session| {
        work(session).offer_all(texts(0..3)).await.unwrap();
        soon("it settles", session.settled()).await;
    };
    swept(three, async |what, ensemble, session, ()| {
        let ours = work(&session);
        let claims = ours.try_claim_batch(3).await.expect(what);
        assert_eq!(claims.len(), 3, "{what}");
        for claim in claims {
            assert_eq!(claim.deliveries(), 1, "{what}");
            claim.acknowledge().await.expect(what);
        }
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
        assert!(ours.is_empty().await.expect(what), "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_claims_as_many_at_once_as_it_has_room_for() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let ours = work(&session);
    ours.offer_all(texts(0..20)).await.unwrap();
    one_done(&ours).await;
    let writes = || ensemble.arrived(matching::transactions("/queues/a/claims/*"));
    let before = writes();
    let options = WorkerOptions::default().with_concurrency(8);
    let started = std::cell::Cell::new(0);
    let stop = async {
        while started.get() < 8 {
            pass(Duration::from_millis(1)).await;
        }
        pass(Duration::from_millis(100)).await;
        assert_eq!((started.get(), writes() - before), (8, 1));
    };
    let handler = async |_| {
        started.set(started.get() + 1);
        pass(Duration::from_secs(1)).await;
        Ok::<_, String>(())
    };
    let tally = soon("it ends", ours.work_until(stop, &options, handler)).await;
    assert_eq!(tally.unwrap().acknowledged, 8);
    assert_eq!(ours.len().await.unwrap(), 11);
}

/// A consumer takes the first item again and again, as fast as possible.
async fn take_the_first(ensemble: Ensemble, session: Session, path: &str) {
    while let Some(name) = children(&ensemble, path).first() {
        drop(session.delete(format!("{path}/{name}")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_does_not_starve_beside_single_takes() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let ours = queue(&one);
    ours.offer_all(texts(1000..1200)).await.unwrap();
    assert!(ours.poll().await.unwrap().is_some());
    let rival = tokio::spawn(take_the_first(ensemble.clone(), two, PATH));
    let tries = || ensemble.arrived(matching::transactions("/queues/a/*"));
    let before = tries();
    let taken = soon("it takes some", ours.poll_batch(100)).await.unwrap();
    assert!(!rival.is_finished());
    rival.abort();
    assert!(taken.len() > 20 && taken.is_sorted(), "{taken:?}");
    assert!(tries() - before <= 3, "{}", tries() - before);
    let left = data(&ensemble, PATH);
    assert!(left.iter().all(|item| !taken.contains(item)));
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_claims_does_not_starve_beside_single_takes() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let ours = work(&one);
    ours.offer_all(texts(1000..1200)).await.unwrap();
    let first = ours.try_claim().await.unwrap().unwrap();
    first.acknowledge().await.unwrap();
    let rival = take_the_first(ensemble.clone(), two, "/queues/a/items");
    let rival = tokio::spawn(rival);
    let tries = || ensemble.arrived(matching::transactions("/queues/a/claims/*"));
    let before = tries();
    let claims = soon("it claims some", ours.try_claim_batch(100)).await;
    let claims = claims.unwrap();
    assert!(!rival.is_finished());
    rival.abort();
    assert!(claims.len() > 20, "{}", claims.len());
    assert!(tries() - before <= 3, "{}", tries() - before);
}

/// All selected items are gone; the list is not read again for that.
#[tokio::test(start_paused = true)]
async fn items_that_are_buried_or_gone_cost_no_lists() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let raw = WorkQueue::new(&session, PATH, Raw).unwrap();
    raw.offer_all((0..30).map(|_| vec![0xff])).await.unwrap();
    raw.offer(&b"good".to_vec()).await.unwrap();
    let once = WorkOptions::default().with_max_deliveries(1);
    let ours = WorkQueue::with_options(&session, PATH, Text, &once).unwrap();
    let claim = ours.try_claim().await.unwrap().unwrap();
    assert_eq!(claim.item(), "good");
    assert_eq!(ours.dead_letters().await.unwrap().len(), 30);
    let lists = ensemble.arrived(matching::lists("/queues/a/items"));
    assert!(lists <= 4, "{lists}");
}
