//! Claims whose time to run is over are given up, and their items are delivered again.

use std::cell::Cell;
use std::time::Duration;

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::{ClaimLoss, Delivery, SettleError, WorkOptions, WorkQueue, WorkerOptions};
use zk_sim::{Ensemble, matching};

use crate::faults::swept;
use crate::{PATH, children, ephemerals, pass, soon, text, texts, work};

const CLAIMS: &str = "/queues/a/claims";

fn limited(session: &Session, seconds: u64) -> WorkQueue<String> {
    let options = WorkOptions::default().with_time_to_run(Duration::from_secs(seconds));
    WorkQueue::with_options(session, PATH, Text, &options).expect("a good path")
}

/// The holder does nothing at all, not even wait for the loss.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_time_is_over_is_delivered_to_another() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let queue = limited(&one, 10);
    queue.offer(&text(1)).await.unwrap();
    let claim = queue.claim().await.unwrap();
    let waiting = {
        let queue = work(&two);
        tokio::spawn(async move { queue.claim().await })
    };
    for _ in 0..4 {
        pass(Duration::from_secs(9)).await;
        assert!(claim.touch());
    }
    pass(Duration::from_secs(9)).await;
    assert!(!waiting.is_finished());
    assert!(claim.is_valid());
    let again = soon("it comes back", waiting).await.unwrap().unwrap();
    assert_eq!((again.item().as_str(), again.deliveries()), ("1", 2));
    assert!(!claim.is_valid());
    assert!(!claim.touch());
    assert!(!claim.is_valid(), "it stays lost");
    assert_eq!(
        soon("the loss is reported", claim.lost()).await,
        ClaimLoss::TimeToRunExpired
    );
    let error = claim.acknowledge().await.unwrap_err();
    assert!(matches!(error.error, SettleError::Lost { .. }), "{error:?}");
    soon("it settles", one.settled()).await;
    assert!(again.is_valid());
    again.acknowledge().await.unwrap();
    assert!(work(&two).is_empty().await.unwrap());
    assert_eq!(children(&ensemble, CLAIMS), [""; 0]);
}

/// Counts how often it is dropped.
struct Counted<'a>(&'a Cell<u32>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_drops_a_handler_whose_time_is_over() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = limited(&session, 10);
    queue.offer_all(texts(["hangs", "touches"])).await.unwrap();
    let (dropped, done) = (Cell::new(0), Cell::new(0));
    let handler = async |delivery: Delivery<String>| {
        if delivery.item() == "hangs" && delivery.deliveries() < 3 {
            let _counted = Counted(&dropped);
            std::future::pending::<()>().await;
        }
        if delivery.item() == "touches" {
            for _ in 0..10 {
                pass(Duration::from_secs(7)).await;
                assert!(delivery.touch());
            }
        }
        done.set(done.get() + 1);
        Ok::<_, String>(())
    };
    let options = WorkerOptions::default().with_concurrency(2);
    let working = queue.work_until(pass(Duration::from_secs(100)), &options, handler);
    let stats = soon("it ends", working).await.unwrap();
    assert_eq!((dropped.get(), done.get()), (2, 2));
    assert_eq!((stats.acknowledged, stats.lost), (2, 2), "{stats:?}");
    assert!(queue.is_empty().await.unwrap());
    drop(queue);
    soon("it settles", session.settled()).await;
    assert_eq!(ephemerals(&ensemble), [""; 0]);
}

/// The servers are away when the time is over.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_being_settled_is_not_given_up() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().timeout(Duration::from_secs(60)).await;
    let queue = limited(&session, 10);
    queue.offer(&text(1)).await.unwrap();
    let claim = queue.claim().await.unwrap();
    pass(Duration::from_secs(5)).await;
    let ends = || ensemble.arrived(matching::transactions("/queues/a/claims/*"));
    let before = ends();
    let link = ensemble.session(session.id());
    link.cut_for(Duration::from_secs(25));
    soon("it is acknowledged", claim.acknowledge())
        .await
        .unwrap();
    pass(Duration::from_secs(60)).await;
    assert_eq!(ends() - before, 1);
    assert!(queue.is_empty().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_given_up_whichever_reply_is_lost() {
    let one_item = async |session: &Session| {
        work(session).offer(&text(1)).await.unwrap();
        soon("it settles", session.settled()).await;
    };
    swept(one_item, async |what, ensemble, session, ()| {
        // At least a second.
        let queue = limited(&session, 0);
        let claim = queue.claim().await.expect(what);
        let again = soon(what, queue.claim()).await.expect(what);
        assert_eq!(claim.lost().await, ClaimLoss::TimeToRunExpired, "{what}");
        assert_eq!(again.deliveries(), 2, "{what}");
        let error = claim.acknowledge().await.unwrap_err();
        assert!(
            matches!(error.error, SettleError::Lost { .. }),
            "{what}: {error:?}"
        );
        again.acknowledge().await.expect(what);
        assert!(queue.is_empty().await.expect(what), "{what}");
        assert_eq!(children(ensemble, CLAIMS), [""; 0], "{what}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_time_begins_again_when_a_claim_is_not_settled() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = limited(&session, 10);
    queue.offer(&text(1)).await.unwrap();
    let claim = queue.claim().await.unwrap();
    pass(Duration::from_secs(9)).await;
    let refused = claim.acknowledge_with(|txn| txn.check("/missing"));
    let claim = refused.await.unwrap_err().claim.unwrap();
    pass(Duration::from_secs(9)).await;
    assert!(claim.is_valid());
    let again = soon("it is given up", queue.claim()).await.unwrap();
    assert_eq!(again.deliveries(), 2);
    assert!(!claim.is_valid());
}
