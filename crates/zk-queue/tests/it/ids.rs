//! Ids of items and transactions on real servers, which report the transaction of a create.

use zk_core::codec::Text;
use zk_queue::{CancelOutcome, ItemId, Queue, WorkQueue};

use crate::{connect, with_servers};

#[tokio::test(flavor = "multi_thread")]
async fn items_are_cancelled_by_their_ids_and_moved_on_real_servers() {
    with_servers(3, async |ensemble| {
        let (one, other) = (connect(ensemble).await, connect(ensemble).await);
        let offering = Queue::new(&one, "/q/ids", Text).unwrap();
        let cancelling = Queue::<String>::new(&other, "/q/ids", Text).unwrap();
        let items: Vec<_> = (0..10).map(|number: u32| number.to_string()).collect();
        let ids = offering.offer_all(&items).await.unwrap();
        assert_eq!(ids.iter().flatten().count(), 10);
        for nth in [0, 9] {
            let id: ItemId = ids[nth].as_ref().unwrap().to_string().parse().unwrap();
            for expected in [CancelOutcome::Removed, CancelOutcome::Gone] {
                assert_eq!(cancelling.cancel(&id).await.unwrap(), expected);
            }
        }
        assert_eq!(offering.drain().await.items, items[1..9]);

        let from = WorkQueue::new(&one, "/q/from", Text).unwrap();
        let to = WorkQueue::new(&other, "/q/to", Text).unwrap();
        let offer = from.offer(&"order".to_owned());
        let offered = offer.commit_with(|txn| txn.create("/q/key", ""));
        let id = offered.await.unwrap().unwrap();
        let claim = from.claim().await.unwrap();
        other.sync("/q").with_quorum().await.unwrap();
        let cancelling = WorkQueue::<String>::new(&other, "/q/from", Text).unwrap();
        let outcome = cancelling.cancel(&id).await.unwrap();
        assert_eq!(outcome, CancelOutcome::Claimed);
        let next = to.offer(claim.item()).prepare().await.unwrap();
        let moved = claim.acknowledge_with(move |txn| next.add_to(txn).delete("/q/key"));
        moved.await.unwrap();
        assert_eq!(from.len().await.unwrap(), 0);
        // It was moved there by the other session.
        other.sync("/q").with_quorum().await.unwrap();
        assert_eq!(to.counts().await.unwrap().ready, 1);
        assert_eq!(to.claim().await.unwrap().item(), "order");
        assert!(one.exists("/q/key").await.unwrap().is_none());
    })
    .await;
}
