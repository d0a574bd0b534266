//! Work: claims, acknowledgements, rejections, dead letters, and the worker.

use std::cell::Cell;
use std::time::Duration;

use zk_core::codec::{Raw, Text};
use zk_core::{ErrorKind, Session};
use zk_queue::{ClaimLoss, DeadLetterError, SettleError, WorkOptions, WorkQueue, WorkerOptions};
use zk_sim::{Ensemble, matching};

use crate::cancellation::dropped_everywhere;
use crate::faults::swept;
use crate::{PATH, children, ephemerals, pass, soon, text, texts, work};

const ITEMS: &str = "/queues/a/items";
const CLAIMS: &str = "/queues/a/claims";

fn work_with(session: &Session, options: &WorkOptions) -> WorkQueue<String> {
    WorkQueue::with_options(session, PATH, Text, options).expect("a good path")
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

#[tokio::test(start_paused = true)]
async fn a_claimed_item_stays_and_is_delivered_to_no_one_else() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let options = WorkOptions::default().with_owner("anna");
    let (ours, theirs) = (work_with(&one, &options), work(&two));
    ours.offer_all(texts([1, 2])).await.unwrap();
    let first = ours.claim().await.unwrap();
    assert_eq!((first.item().as_str(), first.deliveries()), ("1", 1));
    assert!(first.is_valid());
    assert_eq!(children(&ensemble, ITEMS).len(), 2);
    let claims = theirs.claims().await.unwrap();
    assert_eq!(claims.len(), 1);
    assert_eq!(
        (claims[0].owner.as_str(), claims[0].session),
        ("anna", Some(one.id()))
    );
    assert_eq!(claims[0].item, *first.path());
    let second = theirs.try_claim().await.unwrap().unwrap();
    assert_eq!(second.item(), "2");
    assert!(theirs.try_claim().await.unwrap().is_none());
    assert_eq!(ours.len().await.unwrap(), 2);
    first.acknowledge().await.unwrap();
    second.acknowledge().await.unwrap();
    assert_eq!(children(&ensemble, ITEMS), [""; 0]);
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_ends_with_its_session_and_the_item_is_delivered_again() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    work(&one).offer(&text(1)).await.unwrap();
    let claim = work(&one).claim().await.unwrap();
    let waiting = {
        let queue = work(&two);
        tokio::spawn(async move { queue.claim().await })
    };
    pass(Duration::from_secs(5)).await;
    assert!(!waiting.is_finished());
    ensemble.expire(one.id());
    let again = soon("it comes back", waiting).await.unwrap().unwrap();
    assert_eq!((again.item().as_str(), again.deliveries()), ("1", 2));
    assert_eq!(
        soon("the loss is reported", claim.lost()).await,
        ClaimLoss::SessionLost
    );
    assert!(!claim.is_valid());
    let error = claim.acknowledge().await.unwrap_err();
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal);
    again.acknowledge().await.unwrap();
    assert!(work(&two).is_empty().await.unwrap());
}

/// A consumer that has lost its claim cannot settle the item that another one has since.
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_settles_nothing() {
    for is_claimed_again in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        for act in 0..4 {
            work(&one).offer(&text(act)).await.unwrap();
            let claim = work(&one).claim().await.unwrap();
            let lost = soon("the loss is reported", async {
                let (lost, ()) = tokio::join!(claim.lost(), async {
                    pass(Duration::from_millis(50)).await;
                    for name in children(&ensemble, CLAIMS) {
                        two.delete(format!("{CLAIMS}/{name}")).await.unwrap();
                    }
                });
                lost
            });
            assert_eq!(lost.await, ClaimLoss::ClaimDeleted);
            let theirs = if is_claimed_again {
                Some(work(&two).claim().await.unwrap())
            } else {
                None
            };
            let error = claim.txn().set(PATH, "guarded").commit().await.unwrap_err();
            let expected = if is_claimed_again {
                ErrorKind::BadVersion
            } else {
                ErrorKind::NoNode
            };
            assert_eq!(error.kind(), expected);
            let settled = match act {
                0 => claim.acknowledge().await.map_err(SettleError::from),
                1 => {
                    let rejected = claim.reject(Duration::from_secs(1), "too late").await;
                    rejected.map_err(SettleError::from)
                }
                2 => claim.bury("too late").await.map_err(SettleError::from),
                _ => {
                    // A drop does not delete another consumer's claim either.
                    drop(claim);
                    soon("it settles", one.settled()).await;
                    Err(SettleError::Lost {
                        path: zk_core::NodePath::root(),
                    })
                }
            };
            assert!(
                matches!(settled, Err(SettleError::Lost { .. })),
                "{settled:?}"
            );
            assert_eq!(
                children(&ensemble, CLAIMS).len(),
                usize::from(is_claimed_again)
            );
            let theirs = match theirs {
                Some(theirs) => theirs,
                None => work(&two).claim().await.unwrap(),
            };
            assert_eq!(theirs.item(), &text(act));
            theirs.acknowledge().await.unwrap();
        }
        assert_eq!(work(&two).dead_letters().await.unwrap(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_item_returns_in_place_or_after_its_delay() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    queue.offer_all(texts([1, 2])).await.unwrap();
    let claim = queue.claim().await.unwrap();
    claim.reject(Duration::ZERO, "not now").await.unwrap();
    pass(Duration::from_secs(2)).await;
    let claim = queue.claim().await.unwrap();
    assert_eq!((claim.item().as_str(), claim.deliveries()), ("1", 2));
    let began = tokio::time::Instant::now();
    claim
        .reject(Duration::from_secs(30), "later")
        .await
        .unwrap();
    assert_eq!(finish(&queue).await, ["2"]);
    let claim = soon("it is due", queue.claim()).await.unwrap();
    assert_eq!((claim.item().as_str(), claim.deliveries()), ("1", 3));
    assert!(
        (30..32).contains(&began.elapsed().as_secs()),
        "{:?}",
        began.elapsed()
    );
    claim.acknowledge().await.unwrap();
    assert!(queue.is_empty().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_item_that_is_delivered_too_often_goes_to_the_dead_letters() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = WorkOptions::default().with_max_deliveries(3);
    let queue = work_with(&session, &options);
    queue.offer(&text("rejected")).priority(-1).await.unwrap();
    for times in 1..=3 {
        let claim = soon("it is delivered", queue.claim()).await.unwrap();
        assert_eq!(claim.deliveries(), times);
        let delay = Duration::from_millis(u64::from(times % 2) * 300);
        claim
            .reject(delay, format!("attempt {times}"))
            .await
            .unwrap();
        pass(Duration::from_secs(2)).await;
    }
    assert!(queue.try_claim().await.unwrap().is_none());
    // An item whose consumers died has a general reason.
    queue.offer(&text("killer")).await.unwrap();
    for _ in 0..3 {
        let victim = ensemble.connect().await;
        let claim = work_with(&victim, &options).claim().await.unwrap();
        assert_eq!(claim.item(), "killer");
        ensemble.expire(victim.id());
        soon("the loss is reported", claim.lost()).await;
    }
    pass(Duration::from_secs(2)).await;
    assert!(queue.try_claim().await.unwrap().is_none());
    assert!(queue.is_empty().await.unwrap());
    let letters = queue.dead_letters().await.unwrap();
    let told: Vec<_> = letters
        .iter()
        .map(|letter| (letter.deliveries, letter.reason.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (3, "attempt 3"),
            (3, "delivered 3 times and never acknowledged")
        ]
    );
    assert_eq!(queue.dead_letter(&letters[1]).await.unwrap(), b"killer");
    // They can be offered again, or deleted.
    queue.redrive(&letters[0]).await.unwrap();
    let again = queue.redrive(&letters[0]).await.unwrap_err();
    assert!(matches!(again, DeadLetterError::Gone { .. }), "{again:?}");
    queue.discard(&letters[1]).await.unwrap();
    queue.discard(&letters[1]).await.unwrap();
    assert_eq!(queue.dead_letters().await.unwrap(), []);
    let claim = queue.claim().await.unwrap();
    assert_eq!((claim.item().as_str(), claim.deliveries()), ("rejected", 1));
    assert!(claim.path().as_str().contains("/w-n1-"), "{}", claim.path());
}

/// An undecodable item is not deleted.
#[tokio::test(start_paused = true)]
async fn an_undecodable_item_becomes_a_dead_letter_unchanged() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let raw = WorkQueue::new(&session, PATH, Raw).unwrap();
    raw.offer(&b"\xff\xfe".to_vec()).await.unwrap();
    let queue = work_with(&session, &WorkOptions::default().with_max_deliveries(1));
    queue.offer(&text("good")).await.unwrap();
    assert_eq!(finish(&queue).await, ["good"]);
    let letters = queue.dead_letters().await.unwrap();
    assert_eq!(letters.len(), 1);
    assert!(
        letters[0].reason.starts_with("not readable: "),
        "{:?}",
        letters[0]
    );
    assert_eq!(queue.dead_letter(&letters[0]).await.unwrap(), b"\xff\xfe");
}

#[tokio::test(start_paused = true)]
async fn changes_commit_with_the_acknowledgement_or_not_at_all() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    session.create("/results", "").await.unwrap();
    let queue = work(&session);
    queue.offer_all(texts([1, 2])).await.unwrap();
    let claim = queue.claim().await.unwrap();
    claim
        .acknowledge_with(|txn| txn.create("/results/1", "done"))
        .await
        .unwrap();
    assert!(ensemble.tree().node("/results/1").is_some());
    let claim = queue.claim().await.unwrap();
    assert_eq!(claim.item(), "2");
    let error = claim
        .acknowledge_with(|txn| txn.create("/results/1", "twice"))
        .await
        .map_err(SettleError::from);
    let Err(SettleError::Refused(error)) = error else {
        panic!("{error:?}");
    };
    assert!(error.is_node_exists());
    soon("it settles", session.settled()).await;
    pass(Duration::from_secs(2)).await;
    let claim = queue.claim().await.unwrap();
    assert_eq!((claim.item().as_str(), claim.deliveries()), ("2", 2));
}

async fn two_items(session: &Session) {
    work(session).offer_all(texts([1, 2])).await.unwrap();
    soon("it settles", session.settled()).await;
}

#[tokio::test(start_paused = true)]
async fn work_is_done_once_whichever_reply_is_lost() {
    swept(two_items, async |what, ensemble, session, ()| {
        let queue = work(&session);
        let claim = queue.claim().await.expect(what);
        assert_eq!(
            (claim.item().as_str(), claim.deliveries()),
            ("1", 1),
            "{what}"
        );
        assert_eq!(children(ensemble, CLAIMS).len(), 1, "{what}");
        claim.acknowledge().await.expect(what);
        assert_eq!(children(ensemble, ITEMS).len(), 1, "{what}");
        let claim = queue.claim().await.expect(what);
        assert_eq!(
            (claim.item().as_str(), claim.deliveries()),
            ("2", 1),
            "{what}"
        );
        claim.acknowledge().await.expect(what);
        assert!(queue.try_claim().await.expect(what).is_none(), "{what}");
        assert_eq!(children(ensemble, ITEMS), [""; 0], "{what}");
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_moves_exactly_once_whichever_reply_is_lost() {
    swept(two_items, async |what, ensemble, session, ()| {
        let queue = work(&session);
        let claim = queue.claim().await.expect(what);
        claim
            .reject(Duration::from_millis(300), "later")
            .await
            .expect(what);
        assert_eq!(children(ensemble, ITEMS).len(), 2, "{what}");
        let claim = queue.claim().await.expect(what);
        assert_eq!(claim.item(), "2", "{what}");
        claim.bury("for a test").await.expect(what);
        let claim = queue.claim().await.expect(what);
        assert_eq!(
            (claim.item().as_str(), claim.deliveries()),
            ("1", 2),
            "{what}"
        );
        claim.reject(Duration::ZERO, "at once").await.expect(what);
        let claim = queue.claim().await.expect(what);
        assert_eq!(
            (claim.item().as_str(), claim.deliveries()),
            ("1", 3),
            "{what}"
        );
        drop(claim);
        soon(what, session.settled()).await;
        let letters = queue.dead_letters().await.expect(what);
        assert_eq!(letters.len(), 1, "{what}");
        queue.redrive(&letters[0]).await.expect(what);
        assert_eq!(queue.dead_letters().await.expect(what), [], "{what}");
        assert_eq!(finish(&queue).await, ["1", "2"], "{what}");
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn work_dropped_at_any_await_is_done_or_delivered_again() {
    dropped_everywhere(
        async |session| {
            two_items(session).await;
            work(session)
        },
        async |queue| {
            let claim = queue.claim().await.unwrap();
            claim.acknowledge().await.unwrap();
            let claim = queue.claim().await.unwrap();
            claim
                .reject(Duration::from_millis(200), "later")
                .await
                .unwrap();
        },
        async |what, ensemble, session, done| {
            assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
            let left = finish(&work(&session)).await;
            let is_whole = left == ["1", "2"] && done.is_none();
            assert!(is_whole || left == ["2"], "{what}: {left:?}");
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_limits_its_concurrency_and_stops_on_request() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    queue.offer_all(texts(0..40)).await.unwrap();
    let (running, most, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let options = WorkerOptions::default().with_concurrency(5);
    let options = options.with_delays(Duration::from_millis(100), Duration::from_secs(1));
    let working = queue.work_until(pass(Duration::from_secs(20)), &options, async |delivery| {
        running.set(running.get() + 1);
        most.set(most.get().max(running.get()));
        pass(Duration::from_millis(200)).await;
        running.set(running.get() - 1);
        let number: u32 = delivery.item().parse().unwrap();
        if number.is_multiple_of(10) && delivery.deliveries() < 3 {
            return Err("not yet");
        }
        done.set(done.get() + 1);
        Ok(())
    });
    let tally = soon("it ends", working).await.unwrap();
    assert_eq!((most.get(), done.get()), (5, 40));
    assert_eq!((tally.acknowledged, tally.rejected, tally.lost), (40, 8, 0));
    assert!(queue.is_empty().await.unwrap());
    drop(queue);
    soon("it settles", session.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
    assert_eq!(ensemble.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_worker_finishes_within_its_grace_period() {
    for (grace, expected) in [(Duration::from_secs(60), 1), (Duration::from_secs(5), 0)] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = work(&session);
        queue.offer_all(texts([1, 2])).await.unwrap();
        let options = WorkerOptions::default().with_grace(grace);
        let working = queue.work_until(pass(Duration::from_secs(1)), &options, async |_| {
            pass(Duration::from_secs(30)).await;
            Ok::<_, String>(())
        });
        let tally = soon("it ends", working).await.unwrap();
        assert_eq!(tally.acknowledged, expected);
        soon("it settles", session.settled()).await;
        let left = finish(&queue).await;
        assert_eq!(left.len(), 2 - usize::try_from(expected).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_claim_drops_the_handler_a_lost_session_the_worker() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = work(&session);
    queue.offer(&text(1)).await.unwrap();
    let working = tokio::spawn(async move {
        let options = WorkerOptions::default();
        let forever = std::future::pending();
        queue
            .work_until(forever, &options, async |_| {
                std::future::pending::<Result<(), String>>().await
            })
            .await
    });
    pass(Duration::from_secs(1)).await;
    assert_eq!(children(&ensemble, CLAIMS).len(), 1);
    // The connection is lost for longer than the session lives.
    ensemble.session(session.id()).partition();
    let claim = soon("it comes back", work(&other).claim()).await.unwrap();
    assert_eq!(claim.deliveries(), 2);
    let error = soon("it ends", working).await.unwrap().unwrap_err();
    assert_eq!(error.class(), zk_core::ErrorClass::Fatal);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_work_sends_no_requests() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    queue
        .offer(&text(1))
        .delay(Duration::from_secs(50))
        .await
        .unwrap();
    let waiting = tokio::spawn(async move { queue.claim().await });
    pass(Duration::from_secs(1)).await;
    let before = ensemble.requests().len();
    pass(Duration::from_secs(40)).await;
    let seen = ensemble.requests().into_iter().skip(before);
    assert_eq!(
        seen.filter(|seen| matching::lists("**")(&seen.request))
            .count(),
        0
    );
    drop(soon("it is due", waiting).await.unwrap().unwrap());
}

/// The reply to a claim is held until its call has failed.
#[tokio::test(start_paused = true)]
async fn a_claim_in_doubt_after_a_failed_call_is_released() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    work(&two).offer(&text(1)).await.unwrap();
    let claim = work(&two).claim().await.unwrap();
    claim.reject(Duration::ZERO, "not now").await.unwrap();
    let quick = work(&one.with_operation_timeout(Duration::from_secs(1)));
    let held = ensemble
        .on(matching::transactions("/queues/a/claims/**"))
        .session(one.id())
        .hold();
    let error = soon("it fails", quick.try_claim()).await.unwrap_err();
    assert_eq!(error.class(), zk_core::ErrorClass::Recoverable);
    assert_eq!((held.count(), children(&ensemble, CLAIMS).len()), (1, 1));
    held.release();
    soon("it settles", one.settled()).await;
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
    assert_eq!(finish(&work(&two)).await, ["1"]);
}

/// A client created a node below an item, which then cannot be deleted.
#[tokio::test(start_paused = true)]
async fn an_item_with_a_child_does_not_stop_the_others() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let raw = WorkQueue::new(&session, PATH, Raw).unwrap();
    let items = [b"1".to_vec(), vec![0xff], b"3".to_vec()];
    raw.offer_all(&items).await.unwrap();
    for name in children(&ensemble, ITEMS).iter().take(2) {
        session
            .create(format!("{ITEMS}/{name}/child"), "")
            .await
            .unwrap();
    }
    let queue = work(&session);
    let claim = queue.claim().await.unwrap();
    assert_eq!(claim.item(), "1");
    let error = claim.acknowledge().await.unwrap_err();
    assert!(
        matches!(&error.error, SettleError::Core(error) if error.kind() == ErrorKind::NotEmpty),
        "{error:?}"
    );
    assert_eq!(finish(&queue).await, ["3"]);
    assert_eq!(queue.len().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn foreign_children_beside_the_claims_are_skipped() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    queue.offer(&text(1)).await.unwrap();
    let claim = queue.claim().await.unwrap();
    for name in ["0-..", "0-foreign", "x"] {
        session
            .create(format!("{CLAIMS}/{name}"), "")
            .await
            .unwrap();
    }
    assert_eq!(queue.claims().await.unwrap().len(), 1);
    claim.acknowledge().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_claim_of_a_deleted_item_is_deleted() {
    for is_dropped in [false, true] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let queue = work(&one);
        queue.offer(&text(1)).await.unwrap();
        let claim = queue.claim().await.unwrap();
        two.delete(claim.path()).await.unwrap();
        if is_dropped {
            drop(claim);
        } else {
            let error = claim.acknowledge().await.unwrap_err();
            assert!(matches!(error.error, SettleError::Lost { .. }), "{error:?}");
        }
        soon("it settles", one.settled()).await;
        assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_another_one_replaced_is_lost() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    work(&one).offer(&text(1)).await.unwrap();
    let claim = work(&one).claim().await.unwrap();
    for name in children(&ensemble, CLAIMS) {
        two.delete(format!("{CLAIMS}/{name}")).await.unwrap();
    }
    let theirs = work(&one).claim().await.unwrap();
    assert_eq!(
        soon("the loss is reported", claim.lost()).await,
        ClaimLoss::ClaimDeleted
    );
    theirs.acknowledge().await.unwrap();
}
