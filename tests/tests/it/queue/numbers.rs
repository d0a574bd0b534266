//! The end of the numbers that a server gives to items.

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::{Layout, OfferError, Queue, QueueOptions, WorkQueue};

use crate::counters::{connect, near_the_end};

fn queue(session: &Session, path: &str, layout: Layout) -> Queue<String> {
    let options = QueueOptions::default().with_layout(layout);
    Queue::with_options(session, path, Text, &options).unwrap()
}

/// The server gives its last number again and again: one item would be taken for another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_goes_on_or_refuses_before_a_number_comes_twice() {
    let half = (1 << 30) - 2;
    let ensemble = near_the_end(&[
        ("/shared", i32::MAX - 2),
        ("/native", i32::MAX - 2),
        ("/half", half),
        ("/jobs/items", half),
    ])
    .await;
    let (one, two) = (connect(&ensemble).await, connect(&ensemble).await);
    let text = |number: u32| number.to_string();

    // A new client sees the counter immediately.
    let error = queue(&one, "/shared", Layout::Recipe).offer(&text(1)).await;
    assert!(
        matches!(error, Err(OfferError::Exhausted { .. })),
        "{error:?}"
    );

    for path in ["/native", "/half"] {
        let (producer, consumer) = (
            queue(&one, path, Layout::Native),
            queue(&two, path, Layout::Native),
        );
        for number in 0..6 {
            producer.offer(&text(number)).await.unwrap();
        }
        // Those with the last two numbers of the first half, and the first one behind it.
        let own = one.stat(path).await.unwrap().num_children;
        assert_eq!(own, if path == "/half" { 3 } else { 0 }, "{path}");
        let drained = consumer.drain().await;
        drained.end.unwrap();
        assert_eq!(
            drained.items,
            (0..6).map(text).collect::<Vec<_>>(),
            "{path}"
        );
        producer.offer(&text(6)).await.unwrap();
        assert_eq!(consumer.poll().await.unwrap(), Some(text(6)), "{path}");
    }

    let (producer, consumer) = (
        WorkQueue::new(&one, "/jobs", Text).unwrap(),
        WorkQueue::new(&two, "/jobs", Text).unwrap(),
    );
    producer.offer_all((0..6).map(text)).await.unwrap();
    producer.offer(&text(6)).await.unwrap();
    let (segments, _) = one.list("/jobs/receipts/segments").await.unwrap();
    assert_eq!(segments, ["0000000001"]);
    for number in 0..7 {
        let claim = consumer.claim().await.unwrap();
        assert_eq!(*claim.item(), text(number));
        claim.acknowledge().await.unwrap();
    }
    // The producer's server may lag behind the consumer's.
    one.sync("/jobs").await.unwrap();
    assert!(producer.is_empty().await.unwrap());
    for session in [one, two] {
        session.close().await.unwrap();
    }
    ensemble.down().await.unwrap();
}
