//! The end of the numbers of a node's items.

use zk_queue::{Layout, OfferError};
use zk_sim::{Counters, Ensemble};

use crate::{PATH, all, children, queue_of, text, texts, work};

/// Since 3.6 the counter repeats its last number: a later item gets the name of one that was taken, and a consumer that
/// has read the first one takes the second one for it.
#[tokio::test(start_paused = true)]
async fn no_item_is_mistaken_for_another_with_the_last_number() {
    for layout in [Layout::Native, Layout::Recipe, Layout::Curator] {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let (first, second) = (queue_of(&one, layout), queue_of(&two, layout));
        let producer = queue_of(&two, layout);
        producer.offer(&text(0)).await.unwrap();
        ensemble.set_counter(PATH, i32::MAX - 1);
        producer.offer_all(texts(1..3)).await.unwrap();
        // It has prefetched the next one by now.
        assert_eq!(first.poll().await.unwrap(), Some(text(0)));
        assert_eq!(first.poll().await.unwrap(), Some(text(1)));
        assert_eq!(second.poll().await.unwrap(), Some(text(2)));
        let offered = producer.offer(&text(3)).await;
        if layout == Layout::Native {
            offered.unwrap();
            assert_eq!(first.poll().await.unwrap(), Some(text(3)));
        } else {
            let error = offered.unwrap_err();
            assert!(
                matches!(error, OfferError::Exhausted { .. }),
                "{layout:?}: {error:?}"
            );
        }
        assert_eq!(first.poll().await.unwrap(), None, "{layout:?}");
        assert_eq!(second.poll().await.unwrap(), None, "{layout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn offers_leave_a_node_that_has_used_half_its_numbers() {
    for counters in [Counters::Stick, Counters::Wrap] {
        let ensemble = Ensemble::builder().counters(counters).build();
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let (old, new) = (
            queue_of(&one, Layout::Native),
            queue_of(&two, Layout::Native),
        );
        old.offer(&text(10)).await.unwrap();
        ensemble.set_counter(PATH, (1 << 30) - 2);
        for item in 11..14 {
            old.offer(&text(item)).await.unwrap();
        }
        assert_eq!(children(&ensemble, PATH).len(), 4);
        // A process that knows it already, and a new one.
        old.offer(&text(14)).await.unwrap();
        new.offer(&text(15)).await.unwrap();
        assert_eq!(children(&ensemble, PATH).len(), 4);
        assert_eq!(all(&new).await, texts(10..16));
        // Offers that return to it leave it again; after it was deleted, the numbers restart.
        for round in 0..3 {
            old.offer_all(texts(0..5)).await.unwrap();
            assert_eq!(children(&ensemble, PATH), [""; 0], "{round}");
            assert_eq!(all(&new).await, texts(0..5), "{round}");
        }
        assert!(ensemble.reap() > 0);
        old.offer(&text(1)).await.unwrap();
        assert!(children(&ensemble, PATH)[0].ends_with("-0000000000"));
        assert_eq!(all(&new).await, ["1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_past_half_of_the_numbers() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    work(&session).offer(&text(0)).await.unwrap();
    ensemble.set_counter("/queues/a/items", i32::MAX);
    let queue = work(&session);
    for item in 1..4 {
        queue.offer(&text(item)).await.unwrap();
    }
    for item in 0..4 {
        let claim = queue.claim().await.unwrap();
        assert_eq!(*claim.item(), text(item));
        claim.acknowledge().await.unwrap();
    }
    assert!(queue.is_empty().await.unwrap());
}
