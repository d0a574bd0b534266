//! The numbers of items by their state.

use std::time::{Duration, SystemTime};

use zk_core::codec::Text;
use zk_queue::{Inspector, Layout, Queue, QueueOptions, WorkOptions, WorkQueue};
use zk_sim::{Ensemble, matching};

use crate::{PATH, children, pass, queue_of, text, texts, work};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn the_items_of_a_work_queue_are_counted_by_state() {
    for segment_size in [16_384, 2] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let options = WorkOptions::default().with_segment_size(segment_size);
        let queue = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
        assert_eq!(
            queue.counts().await.unwrap(),
            zk_queue::WorkCounts::default()
        );
        for item in 0..9 {
            queue.offer(&text(item)).await.unwrap();
        }
        queue.offer(&text("late")).delay(MINUTE).await.unwrap();
        session.create("/queues/a/items/foreign", "").await.unwrap();
        let (claimed, rejected) = (queue.claim().await.unwrap(), queue.claim().await.unwrap());
        rejected.reject(MINUTE * 2, "later").await.unwrap();
        queue.claim().await.unwrap().bury("broken").await.unwrap();
        queue.claim().await.unwrap().acknowledge().await.unwrap();
        let counts = queue.counts().await.unwrap();
        let counts = (counts.ready, counts.delayed, counts.claimed, counts.dead);
        assert_eq!(counts, (5, 2, 1, 1), "{segment_size}");
        // Another process counts the same.
        let other = ensemble.connect().await;
        pass(MINUTE + Duration::from_secs(1)).await;
        let counts = work(&other).counts().await.unwrap();
        let counts = (counts.ready, counts.delayed, counts.claimed, counts.dead);
        assert_eq!(counts, (6, 1, 1, 1), "{segment_size}");
        claimed.acknowledge().await.unwrap();
        assert_eq!(work(&other).counts().await.unwrap().claimed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn ready_and_delayed_items_of_a_queue_are_counted() {
    for layout in [Layout::Native, Layout::CuratorDelay] {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().await;
        let queue = queue_of(&session, layout);
        queue.offer_all(texts(0..3)).await.unwrap();
        queue.offer(&text("late")).delay(MINUTE).await.unwrap();
        let counts = queue.counts().await.unwrap();
        assert_eq!((counts.ready, counts.delayed), (3, 1), "{layout:?}");
    }
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let options = QueueOptions::default().with_segment_size(2);
    let queue = Queue::<String>::with_options(&session, PATH, Text, &options).unwrap();
    for item in 0..9 {
        queue.offer(&text(item)).await.unwrap();
    }
    let before = ensemble.arrived(matching::writes());
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.delayed), (9, 0));
    assert_eq!(ensemble.arrived(matching::writes()), before);
}

/// A producer who may only create nodes below the items gives one of them a child.
#[tokio::test(start_paused = true)]
async fn an_item_that_can_never_be_settled_is_counted_as_stuck() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = work(&session);
    for item in 0..2 {
        queue.offer(&text(item)).await.unwrap();
    }
    let names = children(&ensemble, "/queues/a/items");
    let item = format!("/queues/a/items/{}", names[0]);
    other.create(format!("{item}/child"), "").await.unwrap();
    let inspector = Inspector::new(&session, PATH).unwrap();
    let snapshot = async || {
        let snapshot = inspector.snapshot(SystemTime::now()).await.unwrap();
        let stuck = snapshot.unwrap().stuck;
        stuck.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(snapshot().await, [&*item]);
    assert_eq!(queue.counts().await.unwrap().stuck, 0);

    for _ in 0..2 {
        let claim = queue.claim().await.unwrap();
        let is_settled = claim.acknowledge().await.is_ok();
        assert_eq!(queue.counts().await.unwrap().stuck, 1, "{is_settled}");
    }
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready + counts.claimed, counts.dead), (1, 0));
    // An administrator deletes it.
    session.delete(item.as_str()).recursive().await.unwrap();
    assert_eq!(snapshot().await, [""; 0]);
    queue.offer(&text("new")).await.unwrap();
    queue.claim().await.unwrap().acknowledge().await.unwrap();
    assert_eq!(queue.counts().await.unwrap().stuck, 0);
}
