//! What work queues report to the facade `metrics`, under paused time.

use std::time::Duration;

use zk_core::codec::Text;
use zk_queue::{
    Claim, Delivery, WorkLayout, WorkOptions, WorkQueue, WorkerOptions, describe_metrics,
};
use zk_sim::Ensemble;
use zk_testkit::metrics::{Names, Recorder, assert_described};

use crate::{PATH, pass, soon, text, texts, work};

const NAMES: Names = &[
    ("zk_queue_item_age_seconds", "age"),
    ("zk_queue_delivery_duration_seconds", "delivery"),
    ("zk_queue_items", "items"),
];

/// What queues reported since the last call: the whole seconds of each value in ascending order, and the counts.
fn reported(recorder: &Recorder) -> Vec<String> {
    recorder.reported("zk_queue", NAMES)
}

async fn claimed(queue: &WorkQueue<String>) -> Claim<String> {
    soon("an item is claimed", queue.claim()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn ages_and_deliveries_are_reported_with_their_outcome() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let queue = work(&session);

    // Two items of different age, claimed together.
    queue.offer(&text(1)).await.unwrap();
    pass(Duration::from_secs(2)).await;
    queue.offer(&text(2)).await.unwrap();
    pass(Duration::from_millis(3500)).await;
    let mut claims = queue.claim_batch(2).await.unwrap();
    assert_eq!(reported(&recorder), ["age [3.0, 5.0]"]);
    pass(Duration::from_millis(1500)).await;
    claims.remove(0).acknowledge().await.unwrap();
    pass(Duration::from_secs(1)).await;
    claims.remove(0).bury("it is bad").await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "delivery outcome=acknowledged [1.0]",
            "delivery outcome=buried [2.0]"
        ]
    );

    // The age of a delayed item begins when it is due, also after a rejection.
    let delay = Duration::from_secs(10);
    queue.offer(&text(3)).delay(delay).await.unwrap();
    pass(Duration::from_millis(14_500)).await;
    let claim = claimed(&queue).await;
    assert_eq!(reported(&recorder), ["age [4.0]"]);
    claim.reject(delay, "later").await.unwrap();
    pass(Duration::from_millis(12_500)).await;
    let claim = claimed(&queue).await;
    assert_eq!(
        reported(&recorder),
        ["age [2.0]", "delivery outcome=rejected [0.0]"]
    );
    // Without a delay it is as old as before.
    claim.reject(Duration::ZERO, "again").await.unwrap();
    pass(Duration::from_secs(1)).await;
    let claim = claimed(&queue).await;
    pass(Duration::from_millis(3500)).await;
    drop(claim);
    soon("it is released", session.settled()).await;
    assert_eq!(
        reported(&recorder),
        [
            "age [3.0]",
            "delivery outcome=rejected [0.0]",
            "delivery outcome=released [3.0]"
        ]
    );
    let processed = claimed(&queue)
        .await
        .acknowledge_with(|txn| txn.create("/result", ""));
    processed.await.unwrap();
    assert_eq!(
        reported(&recorder),
        ["age [7.0]", "delivery outcome=acknowledged [0.0]"]
    );

    // Claims that are lost: one whose time is over, one that another client deleted, and one with its session.
    let options = WorkOptions::default().with_time_to_run(Duration::from_secs(2));
    let limited = WorkQueue::with_options(&session, PATH, Text, &options).unwrap();
    limited.offer(&text(4)).await.unwrap();
    let claim = claimed(&limited).await;
    pass(Duration::from_millis(2500)).await;
    drop(claim);
    soon("it is released", session.settled()).await;
    let claim = claimed(&queue).await;
    let nodes = other.list("/queues/a/claims").await.unwrap().0;
    other
        .delete(format!("/queues/a/claims/{}", nodes[0]))
        .await
        .unwrap();
    pass(Duration::from_millis(1500)).await;
    drop(claim.acknowledge().await.unwrap_err());
    let claim = claimed(&queue).await;
    pass(Duration::from_millis(500)).await;
    ensemble.expire(session.id());
    soon("the session ends", session.lost()).await;
    drop(claim);
    assert_eq!(
        reported(&recorder),
        [
            "age [0.0, 2.0, 4.0]",
            "delivery outcome=lost [0.0, 1.0, 2.0]"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn workers_and_shared_layouts_report_too() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let layout = WorkLayout::KazooLocking;
    let options = WorkOptions::default().with_layout(layout);
    let queue = WorkQueue::<String>::with_options(&session, PATH, Text, &options).unwrap();
    queue.offer(&text(1)).await.unwrap();
    pass(Duration::from_secs(2)).await;
    queue.offer(&text(2)).await.unwrap();
    pass(Duration::from_millis(1500)).await;
    let handler = async |delivery: Delivery<String>| {
        pass(Duration::from_millis(4500)).await;
        if delivery.item() == "1" {
            Ok(())
        } else {
            Err("it is not the first")
        }
    };
    let options = WorkerOptions::default().with_concurrency(2);
    let stop = pass(Duration::from_secs(4));
    let working = queue.work_until(stop, &options, handler);
    soon("the worker ends", working).await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "age [1.0, 3.0]",
            "delivery outcome=acknowledged [4.0]",
            "delivery outcome=rejected [4.0]"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn items_are_counted_when_the_application_says_so() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let letters = work(&session);
    letters.offer_all(texts(0..5)).await.unwrap();
    letters
        .offer(&text(6))
        .delay(Duration::from_secs(3600))
        .await
        .unwrap();
    let bad = letters.claim().await.unwrap();
    bad.bury("it is bad").await.unwrap();
    let _claim = letters.claim().await.unwrap();
    reported(&recorder);
    letters.counts().await.unwrap().record("letters");
    assert_eq!(
        reported(&recorder),
        [
            "items queue=letters state=claimed 1",
            "items queue=letters state=dead 1",
            "items queue=letters state=delayed 1",
            "items queue=letters state=ready 3"
        ]
    );
    // A queue without claims has nothing to report.
    let plain = zk_queue::Queue::<String>::new(&session, "/queues/plain", Text).unwrap();
    plain.offer(&text(1)).await.unwrap();
    plain.poll().await.unwrap().unwrap();
    assert!(
        reported(&recorder)
            .iter()
            .all(|line| line.starts_with("items"))
    );
}

#[test]
fn descriptions_name_the_metrics_and_their_units() {
    assert_described(describe_metrics, NAMES);
}
