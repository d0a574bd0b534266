//! Items that are read several at once, and while the ones before are being taken.

use tokio::time::Instant;
use zk_core::codec::Raw;
use zk_queue::Queue;
use zk_sim::{Ensemble, matching};

use crate::{PATH, nodes_read, queue, reads, soon, texts};

const ITEMS: &str = "/queues/a/*";

#[tokio::test(start_paused = true)]
async fn eight_takes_read_their_items_with_one_request() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    queue.offer_all(texts(100..200)).await.unwrap();
    let began = Instant::now();
    queue.offer(&"last".to_owned()).await.unwrap();
    let round_trip = began.elapsed();
    assert_eq!(queue.poll().await.unwrap().as_deref(), Some("100"));
    let began = Instant::now();
    let before = ensemble.arrived(reads(ITEMS));
    for item in 101..165 {
        assert_eq!(queue.poll().await.unwrap(), Some(item.to_string()));
    }
    assert_eq!(began.elapsed(), 64 * round_trip);
    assert_eq!(ensemble.arrived(reads(ITEMS)) - before, 8);
}

#[tokio::test(start_paused = true)]
async fn a_drain_reads_each_item_once_and_keeps_the_order() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue(&session);
    let items = texts(10_000..13_500);
    queue.offer_all(&items).await.unwrap();
    let deletes = || ensemble.arrived(matching::transactions(ITEMS));
    let (before, began) = (deletes(), Instant::now());
    let drained = soon("it drains", queue.drain()).await;
    let took = began.elapsed();
    drained.end.unwrap();
    assert_eq!(drained.items, items);
    assert_eq!(deletes() - before, 4);
    assert_eq!(nodes_read(&ensemble, ITEMS), items.len());
    let requests = ensemble.arrived(reads(ITEMS));
    assert!(requests <= items.len().div_ceil(8) + 8, "{requests}");
    // While a transaction is in flight, the items of the next one are read.
    let began = Instant::now();
    queue.offer(&"one".to_owned()).await.unwrap();
    let round_trip = began.elapsed();
    assert!(took < 14 * round_trip, "{took:?} for {round_trip:?}");
}

/// It may have been too long: then the items are read one by one.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_to_several_reads_is_repeated_one_by_one() {
    for nth in 1..10 {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = queue(&session);
        queue.offer_all(texts(100..200)).await.unwrap();
        let lost = ensemble.on(matching::multi_reads(ITEMS)).nth(nth);
        let lost = lost.lose_reply();
        let mut taken = Vec::new();
        for _ in 0..40 {
            taken.extend(soon("it takes", queue.poll()).await.unwrap());
        }
        let drained = soon("it drains", queue.drain()).await;
        drained.end.unwrap();
        taken.extend(drained.items);
        assert_eq!(taken, texts(100..200), "{nth}");
        assert_eq!(lost.count(), 1, "{nth}");
    }
}

/// The reply to eight of them would have eight megabytes.
#[tokio::test(start_paused = true)]
async fn large_items_are_read_alone_once_one_is_known() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = Queue::new(&session, PATH, Raw).unwrap();
    for number in 0..20 {
        queue.offer(&vec![number; 900_000]).await.unwrap();
    }
    for number in 0..20 {
        let item = queue.poll().await.unwrap().unwrap();
        assert_eq!((item[0], item.len()), (number, 900_000));
    }
    assert_eq!(ensemble.arrived(matching::multi_reads(ITEMS)), 0);
    assert_eq!(nodes_read(&ensemble, ITEMS), 20);
}
