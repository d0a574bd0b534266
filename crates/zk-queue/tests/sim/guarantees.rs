//! The guarantees of the crate's documentation for unknown outcomes, and for two holders of one item.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_core::codec::Text;
use zk_queue::{OfferError, SettleError, TakeError, WorkQueue};
use zk_sim::{Ensemble, Script, Scripted, matching};

use crate::{PATH, all, children, data, pass, queue, soon, text, texts, triggered};

/// Why a call ends without knowing the outcome of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    SessionEnds,
    TimeIsOver,
}

/// Whether the request is applied, by what, and why its call ends.
type Doubt = (bool, fn(Script) -> Scripted, Why);

const IN_DOUBT: [Doubt; 3] = [
    (true, Script::lose_reply, Why::SessionEnds),
    (false, Script::stall, Why::SessionEnds),
    (true, Script::hold, Why::TimeIsOver),
];

/// Guarantee 1: an offer without a reply is there at most once, and the error says that the outcome is unknown.
#[tokio::test(start_paused = true)]
async fn an_offer_in_doubt_is_unknown_and_there_at_most_once() {
    for (is_applied, inject, why) in IN_DOUBT {
        let what = format!("applied: {is_applied}, {why:?}");
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ours = queue(&session.with_operation_timeout(Duration::from_secs(1)));
        ours.offer(&text(1)).await.unwrap();
        let script = ensemble
            .on(matching::transactions("/queues/a/*"))
            .session(session.id());
        let script = inject(script.nth(1));
        let offering = tokio::spawn(ours.offer(&text(2)).into_future());
        triggered(&script).await;
        if why == Why::SessionEnds {
            ensemble.expire(session.id());
        }
        let error = soon(&what, offering).await.unwrap().unwrap_err();
        assert!(matches!(error, OfferError::Unknown(_)), "{what}: {error:?}");
        let is_fatal = error.class() == ErrorClass::Fatal;
        assert_eq!(is_fatal, why == Why::SessionEnds, "{what}");
        pass(Duration::from_secs(6)).await;
        script.release();
        pass(Duration::from_secs(6)).await;
        let items = data(&ensemble, PATH);
        assert!(
            items == ["1", "2"] || items == ["1"] && !is_applied,
            "{what}: {items:?}"
        );
    }
}

/// Guarantee 2 at the deadline of a call: the item is in the error, and we do not take it twice.
#[tokio::test(start_paused = true)]
async fn a_take_in_doubt_at_its_deadline_returns_the_item() {
    for (is_applied, inject, why) in IN_DOUBT {
        if why == Why::SessionEnds {
            continue;
        }
        let what = format!("applied: {is_applied}");
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ours = queue(&session.with_operation_timeout(Duration::from_secs(1)));
        ours.offer_all(texts(0..4)).await.unwrap();
        assert_eq!(ours.poll().await.unwrap().as_deref(), Some("0"));
        let script = ensemble
            .on(matching::transactions("/queues/a/*"))
            .session(session.id());
        let script = inject(script.nth(1));
        let taking = {
            let ours = ours.clone();
            tokio::spawn(async move { ours.poll().await })
        };
        triggered(&script).await;
        let error = soon(&what, taking).await.unwrap().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Recoverable, "{what}");
        let TakeError::Unknown(unknown) = error else {
            panic!("{what}: {error:?}");
        };
        let items: Vec<_> = unknown
            .items
            .iter()
            .map(|(_, data)| data.as_slice())
            .collect();
        assert_eq!(items, [b"1"], "{what}");
        pass(Duration::from_secs(6)).await;
        script.release();
        pass(Duration::from_secs(6)).await;
        let left = all(&ours).await;
        let has_one = left.first().is_some_and(|item| item == "1");
        assert!(!(has_one && is_applied), "{what}: {left:?}");
        assert_eq!(left[usize::from(has_one)..], ["2", "3"], "{what}");
    }
}

/// Guarantees 4 and 5: a holder that is cut off notices the lapse of its claim before another consumer has the item,
/// and cannot settle it from then on.
#[tokio::test(start_paused = true)]
async fn no_other_consumer_has_an_item_while_its_claim_is_valid() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let work = |session| WorkQueue::new(session, PATH, Text).unwrap();
    let (ours, theirs) = (work(&one), work(&two));
    ours.offer_all(texts([1, 2])).await.unwrap();
    let claim = ours.claim().await.unwrap();
    let second = theirs.claim().await.unwrap();
    assert_eq!((claim.item().as_str(), second.item().as_str()), ("1", "2"));
    assert!(claim.is_valid());
    ensemble.session(one.id()).cut_for(Duration::from_secs(300));
    let mut waiting = Box::pin(theirs.claim());
    // Within the resolution of the test's clock.
    let theirs = soon("it is delivered again", async {
        loop {
            let was_valid = claim.is_valid();
            tokio::select! {
                biased;
                delivered = &mut waiting => {
                    assert!(!was_valid, "two have it");
                    break delivered.unwrap();
                }
                () = pass(Duration::from_micros(100)) => {}
            }
        }
    })
    .await;
    assert_eq!((theirs.item().as_str(), theirs.deliveries()), ("1", 2));
    let settled = soon("it fails", claim.acknowledge()).await;
    let error = settled.unwrap_err();
    assert!(!matches!(error.error, SettleError::Unknown(_)), "{error:?}");
    assert!(theirs.is_valid());
    assert_eq!(children(&ensemble, "/queues/a/items").len(), 2);
    theirs.acknowledge().await.unwrap();
    second.acknowledge().await.unwrap();
}

/// Guarantee 5 in a session that survives: a client deleted the claim, and another consumer has the item.
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_does_not_affect_the_next_holder() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let work = |session| WorkQueue::new(session, PATH, Text).unwrap();
    for act in ["acknowledge", "reject", "drop"] {
        work(&one).offer(&text(act)).await.unwrap();
        let claim = work(&one).claim().await.unwrap();
        for name in children(&ensemble, "/queues/a/claims") {
            let path = format!("/queues/a/claims/{name}");
            two.delete(path).await.unwrap();
        }
        let theirs = work(&two).claim().await.unwrap();
        assert_eq!(theirs.path(), claim.path(), "{act}");
        let settled = match act {
            "acknowledge" => claim.acknowledge().await.map_err(SettleError::from),
            "reject" => {
                let rejected = claim.reject(Duration::from_secs(1), "no").await;
                rejected.map_err(SettleError::from)
            }
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
        assert_eq!(children(&ensemble, "/queues/a/claims").len(), 1, "{act}");
        theirs.acknowledge().await.unwrap();
    }
}
