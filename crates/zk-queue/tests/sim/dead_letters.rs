//! Many dead letters: pages of them, and offering them again or discarding them several at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_core::Session;
use zk_core::codec::{Raw, Text};
use zk_queue::{DeadLetter, DeadLetterError, WorkOptions, WorkQueue};
use zk_sim::{Ensemble, matching};

use crate::faults::swept;
use crate::{PATH, children, data, pass, soon, texts, work};

const DEAD: &str = "/queues/a/dead";
const ITEMS: &str = "/queues/a/items";

/// Offers items and buries them, the last one first.
async fn bury(session: &Session, items: std::ops::Range<u32>) {
    let queue = work(session);
    queue.offer_all(texts(items)).await.unwrap();
    let mut claims = queue.claim_batch(500).await.unwrap();
    while let Some(claim) = claims.pop() {
        let reason = format!("{} is broken", claim.item());
        claim.bury(reason).await.unwrap();
    }
}

fn reasons(page: &[DeadLetter]) -> Vec<&str> {
    page.iter().map(|letter| letter.reason.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn pages_show_each_dead_letter_once_while_others_come_and_go() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    assert_eq!(queue.dead_letter_page(None, 5).await.unwrap(), []);
    bury(&session, 100..250).await;
    let (mut seen, mut removed) = (Vec::new(), BTreeSet::new());
    let mut page = queue.dead_letter_page(None, 20).await.unwrap();
    let first: Vec<_> = (100..120).map(|item| format!("{item} is broken")).collect();
    assert_eq!(reasons(&page), first);
    let mut round = 0;
    while let Some(last) = page.last().cloned() {
        assert!(page.len() <= 20);
        seen.extend(page.iter().map(|letter| letter.reason.clone()));
        // Sometimes the last one of this page is removed, and always some that were not listed yet; others are added.
        if round % 2 == 0 {
            queue.discard(&last).await.unwrap();
        }
        let all = queue.dead_letters().await.unwrap();
        let later = all.iter().filter(|letter| !seen.contains(&letter.reason));
        for letter in later.take(2) {
            queue.redrive(letter).await.unwrap();
            removed.insert(letter.reason.clone());
        }
        bury(&session, 1000 + round * 10..1001 + round * 10).await;
        round += 1;
        if round > 8 {
            page = queue
                .dead_letter_page(Some(&last.name), 1_000_000)
                .await
                .unwrap();
            seen.extend(page.iter().map(|letter| letter.reason.clone()));
            break;
        }
        page = queue.dead_letter_page(Some(&last.name), 20).await.unwrap();
    }
    let once: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(once.len(), seen.len(), "{seen:?}");
    for item in 100..250 {
        let reason = format!("{item} is broken");
        assert!(
            once.contains(&reason) || removed.contains(&reason),
            "{item}"
        );
    }
    assert_eq!(queue.dead_letter_page(None, 0).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_decoded_or_read_as_it_is() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let raw = WorkQueue::new(&session, PATH, Raw).unwrap();
    raw.offer_all([b"text".to_vec(), vec![0xff]]).await.unwrap();
    for claim in raw.claim_batch(2).await.unwrap() {
        claim.bury("for a test").await.unwrap();
    }
    let queue = work(&session);
    let page = queue.dead_letter_page(None, 2).await.unwrap();
    let first = queue.dead_letter(&page[0]).await.unwrap();
    assert_eq!(queue.decode_dead_letter(&first).unwrap(), "text");
    let second = queue.dead_letter(&page[1]).await.unwrap();
    assert!(queue.decode_dead_letter(&second).is_err());
    assert_eq!(second, [0xff]);
}

#[tokio::test(start_paused = true)]
async fn many_are_offered_again_with_no_deliveries() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    assert_eq!(queue.redrive_up_to(10).await.unwrap(), 0);
    queue
        .offer(&"urgent".to_owned())
        .priority(-3)
        .await
        .unwrap();
    queue.claim().await.unwrap().bury("no").await.unwrap();
    bury(&session, 100..300).await;
    let writes = || ensemble.arrived(matching::transactions("/queues/a/dead/*"));
    let before = writes();
    assert_eq!(queue.redrive_up_to(101).await.unwrap(), 101);
    assert!(writes() - before <= 4, "{}", writes() - before);
    assert_eq!(queue.len().await.unwrap(), 101);
    assert_eq!(children(&ensemble, DEAD).len(), 100);
    let claims = queue.claim_batch(500).await.unwrap();
    let mut expected = vec!["urgent".to_owned()];
    expected.extend(texts(100..200));
    let items: Vec<_> = claims.iter().map(|claim| claim.item().clone()).collect();
    assert_eq!(items, expected);
    assert!(claims.iter().all(|claim| claim.deliveries() == 1));
    assert!(claims[0].path().as_str().contains("/w-n3-"));
    for claim in claims {
        claim.bury("again").await.unwrap();
    }
    assert_eq!(queue.redrive_up_to(usize::MAX).await.unwrap(), 201);
    assert_eq!(children(&ensemble, DEAD), [""; 0]);
}

/// An item that fails again at once stays a dead letter.
#[tokio::test(start_paused = true)]
async fn redriving_all_ends_beside_a_consumer_that_buries_them() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    bury(&session, 100..300).await;
    let burying = async {
        loop {
            for claim in work(&other).claim_batch(500).await.unwrap() {
                claim.bury("still broken").await.unwrap();
            }
        }
    };
    tokio::select! {
        redriven = soon("it ends", async { work(&session).redrive_up_to(usize::MAX).await }) => {
            assert_eq!(redriven.unwrap(), 200);
        }
        () = burying => {}
    }
}

/// Two callers share them, and a dead letter in the way of the others is left out.
#[tokio::test(start_paused = true)]
async fn each_is_offered_again_or_discarded_by_one_caller() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    bury(&one, 100..200).await;
    let names = children(&ensemble, DEAD);
    let path = |at: usize| format!("{DEAD}/{}", names[at]);
    two.create(format!("{}/foreign", path(3)), "")
        .await
        .unwrap();
    two.delete(format!("{}/note", path(5))).await.unwrap();
    let (ours, theirs) = (work(&one), work(&two));
    let (redriven, same, discarded) = tokio::join!(
        ours.redrive_up_to(usize::MAX),
        theirs.redrive_up_to(usize::MAX),
        async {
            pass(Duration::from_micros(2_500)).await;
            theirs.discard_older_than(Duration::ZERO, 70).await
        }
    );
    let (redriven, discarded) = (redriven.unwrap() + same.unwrap(), discarded.unwrap());
    let left = children(&ensemble, DEAD).len();
    assert_eq!(redriven + discarded + left, 100, "{redriven}, {discarded}");
    assert_eq!(children(&ensemble, ITEMS).len(), redriven);
    let items: BTreeSet<_> = data(&ensemble, ITEMS).into_iter().collect();
    assert_eq!(items.len(), redriven, "none is there twice");
    // Those with other children are deleted with them.
    ours.discard_older_than(Duration::ZERO, 100).await.unwrap();
    assert!(children(&ensemble, DEAD).len() <= 1);
}

#[tokio::test(start_paused = true)]
async fn old_dead_letters_are_discarded_and_young_ones_kept() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = work(&session);
    let hour = Duration::from_secs(3600);
    assert_eq!(
        queue.discard_older_than(Duration::ZERO, 10).await.unwrap(),
        0
    );
    bury(&session, 100..200).await;
    pass(hour).await;
    bury(&session, 200..230).await;
    assert_eq!(queue.discard_older_than(2 * hour, 1000).await.unwrap(), 0);
    assert_eq!(
        queue.discard_older_than(Duration::MAX, 1000).await.unwrap(),
        0
    );
    assert_eq!(queue.discard_older_than(hour, 70).await.unwrap(), 70);
    assert_eq!(queue.discard_older_than(hour, 1000).await.unwrap(), 30);
    assert_eq!(children(&ensemble, DEAD).len(), 30);
    assert_eq!(
        queue.discard_older_than(Duration::ZERO, 0).await.unwrap(),
        0
    );
    assert_eq!(
        queue
            .discard_older_than(Duration::ZERO, 1000)
            .await
            .unwrap(),
        30
    );
    assert_eq!(children(&ensemble, DEAD), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn many_are_changed_once_whichever_reply_is_lost() {
    let five = async |session: &Session| {
        bury(session, 0..5).await;
        soon("it settles", session.settled()).await;
    };
    swept(five, async |what, ensemble, session, ()| {
        let queue = work(&session);
        assert_eq!(queue.redrive_up_to(3).await.expect(what), 3, "{what}");
        assert_eq!(data(ensemble, ITEMS), texts(0..3), "{what}");
        let discarded = queue.discard_older_than(Duration::ZERO, 9).await;
        assert_eq!(discarded.expect(what), 2, "{what}");
        assert_eq!(children(ensemble, DEAD), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_how_many_were_done_before() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    bury(&session, 100..300).await;
    let options = WorkOptions::default();
    let view = session.with_operation_timeout(Duration::from_secs(1));
    let queue = WorkQueue::with_options(&view, PATH, Text, &options).unwrap();
    let second = ensemble.on(matching::transactions("/queues/a/dead/*"));
    let second = second.session(session.id()).nth(2).lose_request();
    let ending = async {
        crate::triggered(&second).await;
        ensemble.expire(session.id());
    };
    let (redriven, ()) = tokio::join!(queue.redrive_up_to(1000), ending);
    let failed = redriven.unwrap_err();
    assert!(
        matches!(failed.source, DeadLetterError::Offer(_)),
        "{failed:?}"
    );
    assert_eq!(failed.class(), zk_core::ErrorClass::Fatal);
    assert_eq!(children(&ensemble, ITEMS).len(), failed.done);
    assert!((1..200).contains(&failed.done), "{failed:?}");
}
