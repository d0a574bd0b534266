//! Priorities, delays and bounds.

use std::time::Duration;

use zk_queue::{Layout, OfferError, QueueOptions};
use zk_sim::Ensemble;

use crate::segments::reap_items_node;
use crate::{PATH, all, children, pass, queue_of, queue_with, soon, text, texts};

#[tokio::test(start_paused = true)]
async fn lower_priorities_come_first_and_equal_ones_keep_order() {
    for layout in [Layout::Native, Layout::Kazoo, Layout::CuratorPriority] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = queue_of(&session, layout);
        for (priority, item) in [(7, "e"), (1, "b"), (7, "f"), (2, "d"), (0, "a"), (1, "c")] {
            queue.offer(&text(item)).priority(priority).await.unwrap();
        }
        assert_eq!(
            all(&queue).await,
            ["a", "b", "c", "d", "e", "f"],
            "{layout:?}"
        );
    }
}

/// A consumer that uses a list does not see newer items that come before those.
#[tokio::test(start_paused = true)]
async fn a_new_urgent_item_waits_no_longer_than_the_list_lasts() {
    let ensemble = Ensemble::new(3);
    let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
    let options = QueueOptions::default().with_layout(Layout::Native);
    let options = options.with_refresh(Duration::from_millis(500));
    let (offering, taking) = (
        queue_with(&producer, &options),
        queue_with(&consumer, &options),
    );
    offering.offer_all(texts(0..1000)).await.unwrap();
    taking.poll().await.unwrap().unwrap();
    offering.offer(&text("urgent")).priority(-5).await.unwrap();
    let began = tokio::time::Instant::now();
    while taking.poll().await.unwrap().as_deref() != Some("urgent") {
        assert!(
            began.elapsed() < Duration::from_millis(600),
            "it still waits"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_item_is_taken_soon_after_it_is_due() {
    for layout in [Layout::Native, Layout::CuratorDelay] {
        let ensemble = Ensemble::new(3);
        let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
        let offering = queue_of(&producer, layout);
        let began = tokio::time::Instant::now();
        offering
            .offer(&text("late"))
            .delay(Duration::from_secs(20))
            .await
            .unwrap();
        offering.offer(&text("now")).await.unwrap();
        let taking = queue_of(&consumer, layout);
        assert_eq!(all(&taking).await, ["now"]);
        // Only the leader's clock matters, not that of this process.
        let late = soon("it is due", taking.take()).await.unwrap();
        assert_eq!(late, "late");
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(20), "{waited:?}");
        assert!(waited < Duration::from_secs(21), "{waited:?}");
        assert!(children(&ensemble, PATH).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_option_that_the_layout_lacks_is_refused_with_a_hint() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let queue = queue_of(&session, Layout::Recipe);
    let error = queue.offer(&text(1)).priority(3).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the layout Recipe cannot store priority 3; use Layout::Native, Layout::Kazoo or Layout::CuratorPriority"
    );
    let error = queue
        .offer(&text(1))
        .delay(Duration::ZERO)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the layout Recipe has no delays; use Layout::Native or Layout::CuratorDelay"
    );
    let error = queue_of(&session, Layout::Kazoo)
        .offer(&text(1))
        .priority(1000)
        .await
        .unwrap_err();
    assert!(
        error.to_string().ends_with("use a priority from 0 to 999"),
        "{error}"
    );
    assert_eq!(children(&ensemble, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_an_offer_or_lets_it_wait() {
    let ensemble = Ensemble::new(3);
    let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
    let options = QueueOptions::default().with_capacity(3);
    let offering = queue_with(&producer, &options);
    offering.offer_all(texts(0..3)).await.unwrap();
    let error = offering.offer(&text(3)).await.unwrap_err();
    assert!(
        matches!(
            error,
            OfferError::Full {
                len: 3,
                capacity: 3,
                ..
            }
        ),
        "{error:?}"
    );
    let began = tokio::time::Instant::now();
    let error = offering
        .offer(&text(3))
        .within(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert!(matches!(error, OfferError::Full { .. }), "{error:?}");
    assert!((5..7).contains(&began.elapsed().as_secs()));
    let waiting = tokio::spawn(offering.offer(&text(3)).within(Duration::MAX).into_future());
    pass(Duration::from_secs(60)).await;
    assert!(!waiting.is_finished());
    let taking = queue_with(&consumer, &options);
    let began = tokio::time::Instant::now();
    assert_eq!(taking.poll().await.unwrap().as_deref(), Some("0"));
    soon("there is room", waiting).await.unwrap().unwrap();
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "{:?}",
        began.elapsed()
    );
    let error = offering.offer_all(texts(4..6)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed after 0 of 2 items; see the cause for whether the next ones were offered"
    );
    assert_eq!(all(&taking).await, ["1", "2", "3"]);
}

/// Each transaction adds as many as there is room for: all in one would only ever fit an empty queue.
#[tokio::test(start_paused = true)]
async fn more_items_than_the_capacity_are_added_as_room_is_made() {
    let ensemble = Ensemble::new(3);
    let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
    let options = QueueOptions::default().with_capacity(3);
    let (offering, taking) = (
        queue_with(&producer, &options),
        queue_with(&consumer, &options),
    );
    offering.offer(&text(0)).await.unwrap();
    let error = offering.offer_all(texts(1..10)).await.unwrap_err();
    assert_eq!((error.offered, error.all), (2, 9));
    assert!(matches!(error.source, OfferError::Full { .. }), "{error:?}");
    let offer = offering
        .offer_all(texts(3..10))
        .within(Duration::from_secs(60));
    let waiting = tokio::spawn(offer.into_future());
    for item in 0..10 {
        pass(Duration::from_secs(3)).await;
        // It is never empty, and never exceeds its capacity.
        let len = children(&ensemble, PATH).len();
        assert!(item > 7 || len == 3, "{item}: {len}");
        let taken = soon("it is there", taking.take()).await.unwrap();
        assert_eq!(taken, text(item));
    }
    soon("all are offered", waiting).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn offer_all_bounds_its_total_wait() {
    let ensemble = Ensemble::new(3);
    let (producer, consumer) = (ensemble.connect().await, ensemble.connect().await);
    let options = QueueOptions::default().with_capacity(500);
    let (offering, taking) = (
        queue_with(&producer, &options),
        queue_with(&consumer, &options),
    );
    offering.offer_all(texts(0..500)).await.unwrap();
    let began = tokio::time::Instant::now();
    let offer = offering
        .offer_all(texts(500..3_000))
        .within(Duration::from_secs(10));
    let waiting = tokio::spawn(offer.into_future());
    // Each time there is room again before the deadline.
    for _ in 0..3 {
        pass(Duration::from_secs(7)).await;
        taking.poll_batch(1_000).await.unwrap();
    }
    let error = soon("it gives up", waiting).await.unwrap().unwrap_err();
    assert_eq!(error.offered, 500, "{error:?}");
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(22), "{waited:?}");
}

/// Its items node is gone, because the items are in segments.
#[tokio::test(start_paused = true)]
async fn waiting_for_room_in_segments_costs_a_few_requests_per_second() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = QueueOptions::default()
        .with_segment_size(8)
        .with_capacity(16);
    let queue = queue_with(&session, &options);
    for item in texts(0..16) {
        queue.offer(&item).await.unwrap();
    }
    let taken = reap_items_node(&ensemble, &queue).await;
    for item in texts(16..16 + taken) {
        queue.offer(&item).await.unwrap();
    }
    let before = ensemble.request_count();
    let offering = queue.clone();
    let waiting = offering
        .offer(&text("last"))
        .within(Duration::MAX)
        .into_future();
    let waiting = tokio::spawn(waiting);
    pass(Duration::from_secs(60)).await;
    let sent = ensemble.request_count() - before;
    assert!(sent < 60 * 20, "{sent} requests in a minute");
    assert_eq!(queue.poll().await.unwrap(), Some(text(taken)));
    soon("there is room", waiting).await.unwrap().unwrap();
}
