//! Delays when replies are slow, and when the call is dropped.

use std::time::Duration;

use zk_core::Session;
use zk_queue::Layout;
use zk_sim::{Ensemble, matching};

use crate::{pass, polled, queue_of, soon, text, texts, triggered, work};

/// A session that tolerates replies that are three seconds late.
async fn tolerant(ensemble: &Ensemble) -> Session {
    ensemble.connect().timeout(Duration::from_secs(60)).await
}

/// The leader stamps a change before it is committed, and the reply arrives long after.
#[tokio::test(start_paused = true)]
async fn a_delay_is_not_short_after_a_slow_commit() {
    for layout in [Layout::Native, Layout::CuratorDelay] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (tolerant(&ensemble).await, ensemble.connect().await);
        let (offering, taking) = (queue_of(&one, layout), queue_of(&two, layout));
        let slow = ensemble.on(matching::transactions("/queues/a/*"));
        let slow = slow.session(one.id());
        // The first offer has to create the queue's node.
        let slow = slow.nth(2).hold();
        let offer = tokio::spawn(offering.offer(&text("now")).into_future());
        triggered(&slow).await;
        pass(Duration::from_secs(3)).await;
        slow.release();
        soon("it is offered", offer).await.unwrap().unwrap();
        let (delay, asked) = (Duration::from_secs(5), tokio::time::Instant::now());
        let late = offering.offer(&text("late")).delay(delay);
        late.await.unwrap();
        for expected in ["now", "late"] {
            let taken = soon("it is due", taking.take()).await.unwrap();
            assert_eq!(taken, expected);
        }
        let waited = asked.elapsed();
        assert!(waited >= delay, "{waited:?}");
        assert!(waited < delay + Duration::from_secs(1), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_item_is_delayed_for_the_full_time() {
    let ensemble = Ensemble::new(3);
    let session = tolerant(&ensemble).await;
    let queue = work(&session);
    queue.offer_all(texts(0..2)).await.unwrap();
    queue.claim().await.unwrap().acknowledge().await.unwrap();
    let slow = ensemble.on(matching::transactions("/queues/a/claims/*"));
    let slow = slow.session(session.id()).hold();
    let claiming = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.claim().await })
    };
    triggered(&slow).await;
    pass(Duration::from_secs(3)).await;
    slow.release();
    let claim = soon("it is claimed", claiming).await.unwrap().unwrap();
    let delay = Duration::from_secs(5);
    let rejected = tokio::time::Instant::now();
    claim.reject(delay, "not now").await.unwrap();
    drop(soon("it is due", queue.claim()).await.unwrap());
    let waited = rejected.elapsed();
    assert!(waited >= delay, "{waited:?}");
    assert!(waited < delay + Duration::from_secs(1), "{waited:?}");
}

/// The leader's time is not known any more, so the call begins with a request for it.
#[tokio::test(start_paused = true)]
async fn a_rejection_dropped_at_any_await_keeps_its_delay() {
    for polls in 1.. {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = work(&session);
        queue.offer(&text(1)).await.unwrap();
        let claim = queue.claim().await.unwrap();
        pass(Duration::from_secs(20)).await;
        let delay = Duration::from_secs(30);
        let rejected = tokio::time::Instant::now();
        let done = polled(polls, claim.reject(delay, "later")).await;
        soon("it settles", session.settled()).await;
        let claim = soon("it is due", queue.claim()).await.unwrap();
        assert_eq!(claim.deliveries(), 2, "after {polls} polls");
        let waited = rejected.elapsed();
        assert!(waited >= delay, "after {polls} polls: {waited:?}");
        if let Some(done) = done {
            done.unwrap();
            // One await for the leader's time, and one for the end of the claim.
            assert!(polls > 2, "{polls}");
            break;
        }
    }
}
