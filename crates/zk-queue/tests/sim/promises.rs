//! What the crate's documentation guarantees where nobody can know, and where two might believe that an item is theirs.

use std::time::Duration;

use zk_core::ErrorClass;
use zk_core::codec::Text;
use zk_queue::OfferError;
use zk_queue::SettleError;
use zk_queue::TakeError;
use zk_queue::WorkQueue;
use zk_sim::Ensemble;
use zk_sim::Script;
use zk_sim::Scripted;
use zk_sim::matching;

use crate::PATH;
use crate::all;
use crate::children;
use crate::data;
use crate::pass;
use crate::queue;
use crate::soon;
use crate::struck;
use crate::text;
use crate::texts;

/// Why a call ends that does not know what became of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    SessionEnds,
    TimeIsOver,
}

/// Whether the request is carried out, by what, and why its call ends.
type Doubt = (bool, fn(Script) -> Scripted, Why);

const DOUBTS: [Doubt; 3] = [
    (true, Script::lose_reply, Why::SessionEnds),
    (false, Script::stall, Why::SessionEnds),
    (true, Script::hold, Why::TimeIsOver),
];

/// Guarantee 1: what failed without an answer is there once or not at all, and the error says that nobody knows.
// covers: Q1
#[tokio::test(start_paused = true)]
async fn an_offer_in_doubt_says_so_and_is_there_once_or_not_at_all() {
    for (is_applied, strike, why) in DOUBTS {
        let what = format!("applied: {is_applied}, {why:?}");
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let ours = queue(&session.with_operation_timeout(Duration::from_secs(1)));
        ours.offer(&text(1)).await.unwrap();
        let script = ensemble
            .on(matching::transactions("/queues/a/*"))
            .session(session.id());
        let script = strike(script.nth(1));
        let offering = tokio::spawn(ours.offer(&text(2)).into_future());
        struck(&script).await;
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

/// Guarantee 2, where it is the time of the call that is over: the item is handed out, and is not taken twice by us.
// covers: Q1
#[tokio::test(start_paused = true)]
async fn a_take_in_doubt_when_its_time_is_over_hands_out_the_item() {
    for (is_applied, strike, why) in DOUBTS {
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
        let script = strike(script.nth(1));
        let taking = {
            let ours = ours.clone();
            tokio::spawn(async move { ours.poll().await })
        };
        struck(&script).await;
        let error = soon(&what, taking).await.unwrap().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Recoverable, "{what}");
        let TakeError::Undecided(undecided) = error else {
            panic!("{what}: {error:?}");
        };
        let items: Vec<_> = undecided
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

/// Guarantees 4 and 5: whoever is cut off knows that its claim cannot be relied on before anybody else has the item, and
/// can do nothing to it from then on.
// covers: Q3
#[tokio::test(start_paused = true)]
async fn nobody_else_has_an_item_while_its_claim_is_trusted() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let work = |session| WorkQueue::new(session, PATH, Text).unwrap();
    let (ours, theirs) = (work(&one), work(&two));
    ours.offer_all(texts([1, 2])).await.unwrap();
    let claim = ours.claim().await.unwrap();
    let second = theirs.claim().await.unwrap();
    assert_eq!((claim.item().as_str(), second.item().as_str()), ("1", "2"));
    assert!(claim.is_trusted());
    ensemble.session(one.id()).cut_for(Duration::from_secs(300));
    let mut waiting = Box::pin(theirs.claim());
    // As closely as the clock of the test can tell.
    let theirs = soon("it is delivered again", async {
        loop {
            let was_trusted = claim.is_trusted();
            tokio::select! {
                biased;
                delivered = &mut waiting => {
                    assert!(!was_trusted, "two have it");
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
    assert!(!matches!(error, SettleError::Unknown(_)), "{error:?}");
    assert!(theirs.is_trusted());
    assert_eq!(children(&ensemble, "/queues/a/items").len(), 2);
    theirs.acknowledge().await.unwrap();
    second.acknowledge().await.unwrap();
}

/// Guarantee 5, within one session that lives on: somebody took the claim away, and another one has the item.
// covers: Q3
#[tokio::test(start_paused = true)]
async fn a_claim_that_was_taken_away_ends_nothing_of_who_has_the_item_now() {
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
            "acknowledge" => claim.acknowledge().await,
            "reject" => claim.reject(Duration::from_secs(1), "no").await,
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
