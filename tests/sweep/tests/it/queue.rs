//! The operations of the queues: what is offered is there once, what is taken is neither lost nor doubled.

use std::time::Duration;

use zk_core::codec::Text;
use zk_core::{NodePath, Session};
use zk_queue::{Queue, WorkLayout, WorkOptions, WorkQueue};
use zk_sweep::{Scene, settled};

fn queue(session: &Session, path: &str) -> Queue<String> {
    Queue::new(session, path, Text).expect("the path is one")
}

fn texts(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

/// What is in the queue, seen by somebody whom nothing strikes.
async fn left(scene: &Scene) -> Vec<String> {
    let drained = queue(&scene.observer, &scene.path).drain().await;
    drained.end.expect("nothing strikes this one");
    drained.items
}

pub(super) async fn offers(scene: Scene) {
    let queue = queue(&scene.struck, &scene.path);
    queue.offer(&"1".to_owned()).await.expect(&scene.what);
    queue
        .offer_all(texts(&["2", "3"]))
        .await
        .expect(&scene.what);
    queue.offer(&"4".to_owned()).await.expect(&scene.what);
    assert_eq!(left(&scene).await, ["1", "2", "3", "4"], "{}", scene.what);
}

pub(super) async fn takes(scene: Scene) {
    let all = texts(&["1", "2", "3", "4", "5", "6"]);
    queue(&scene.observer, &scene.path)
        .offer_all(&all)
        .await
        .expect("nothing strikes this one");
    let queue = queue(&scene.struck, &scene.path);
    let mut taken = Vec::from_iter(queue.poll().await.expect(&scene.what));
    taken.push(queue.take().await.expect(&scene.what));
    taken.push(queue.remove().await.expect(&scene.what));
    taken.extend(queue.poll_batch(2).await.expect(&scene.what));
    assert_eq!(taken, ["1", "2", "3", "4", "5"], "{}", scene.what);
    assert_eq!(left(&scene).await, ["6"], "{}", scene.what);
}

pub(super) async fn works(scene: Scene) {
    let path = scene.path.as_str();
    let observed = WorkQueue::new(&scene.observer, path, Text).expect("the path is one");
    observed
        .offer_all(texts(&["1", "2", "3"]))
        .await
        .expect("nothing strikes this one");
    let queue = WorkQueue::new(&scene.struck, path, Text).expect("the path is one");
    let claim = queue.claim().await.expect(&scene.what);
    assert_eq!(
        (claim.item().as_str(), claim.deliveries()),
        ("1", 1),
        "{}",
        scene.what
    );
    claim.acknowledge().await.expect(&scene.what);
    let claim = queue.claim().await.expect(&scene.what);
    assert_eq!(
        (claim.item().as_str(), claim.deliveries()),
        ("2", 1),
        "{}",
        scene.what
    );
    claim
        .reject(Duration::ZERO, "for a test")
        .await
        .expect(&scene.what);
    drop(queue.claim().await.expect(&scene.what));
    settled(&scene).await;
    // The observer's server may not show it yet.
    let synced = scene.observer.sync(path).with_quorum().await;
    synced.expect("nothing strikes this one");
    assert_eq!(
        observed.claims().await.expect("nothing strikes this one"),
        [],
        "{}",
        scene.what
    );
    let mut left = Vec::new();
    while let Some(claim) = observed
        .try_claim()
        .await
        .expect("nothing strikes this one")
    {
        left.push(claim.item().clone());
        claim.acknowledge().await.expect("nothing strikes this one");
    }
    left.sort();
    assert_eq!(left, ["2", "3"], "{}", scene.what);
}

/// With the layout of another client, whose claims have no version.
pub(super) async fn shared_works(scene: Scene) {
    let path = scene.path.as_str();
    let lock_path = NodePath::parse(&format!("{path}-locks")).expect("the path is one");
    let options = WorkOptions::default().with_layout(WorkLayout::CuratorId { lock_path });
    let open =
        |session| WorkQueue::with_options(session, path, Text, &options).expect("the path is one");
    let (queue, observed) = (open(&scene.struck), open(&scene.observer));
    for item in texts(&["1", "2", "3", "4"]) {
        let offer = queue.offer(&item).id("7");
        offer.await.expect(&scene.what);
    }
    let claim = queue.claim().await.expect(&scene.what);
    assert_eq!(claim.item(), "1", "{}", scene.what);
    claim.acknowledge().await.expect(&scene.what);
    let claim = queue.claim().await.expect(&scene.what);
    assert_eq!(claim.item(), "2", "{}", scene.what);
    let rejected = claim.reject(Duration::from_secs(3600), "for a test");
    rejected.await.expect(&scene.what);
    let claim = queue.claim().await.expect(&scene.what);
    assert_eq!(claim.item(), "3", "{}", scene.what);
    let removed = queue.cancel_with_id("7").await.expect(&scene.what);
    assert_eq!((removed.removed, removed.claimed), (2, 1), "{}", scene.what);
    claim.bury("for a test").await.expect(&scene.what);
    settled(&scene).await;
    // The observer's server may not show it yet.
    let synced = scene.observer.sync(path).with_quorum().await;
    synced.expect("nothing strikes this one");
    let counts = observed.counts().await.expect("nothing strikes this one");
    assert_eq!(
        (counts.ready, counts.claimed, counts.dead),
        (0, 0, 1),
        "{}",
        scene.what
    );
}
