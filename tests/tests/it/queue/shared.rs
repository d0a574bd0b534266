//! Our consumers and those of Curator and kazoo on one path, where an item stays until it is processed.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use zk_core::codec::Text;
use zk_core::{NodePath, Session};
use zk_harness::Ensemble;
use zk_queue::{WorkLayout, WorkOptions, WorkQueue};
use zk_tests::peers::{Curator, Kazoo, SharedCuratorQueue, SharedQueuePeer};

use crate::lock::{LONG, SOON, observer, three_servers};

const PATH: &str = "/queues/shared";
const LOCKS: &str = "/queues/locks";
const PATHS: (&str, &str) = (PATH, LOCKS);
/// The session of a peer that is killed; the others outlive the test.
const SHORT: Duration = Duration::from_secs(10);
const ITEMS: usize = 200;

fn lock_path() -> NodePath {
    NodePath::parse(LOCKS).unwrap()
}

fn curators() -> WorkLayout {
    WorkLayout::Curator {
        lock_path: lock_path(),
    }
}

fn queue(session: &Session, layout: WorkLayout) -> WorkQueue<String> {
    let options = WorkOptions::default().with_layout(layout);
    WorkQueue::with_options(session, PATH, Text, &options).unwrap()
}

fn text(item: impl std::fmt::Display) -> String {
    item.to_string()
}

async fn curator(
    ensemble: &Ensemble,
    session_timeout: Duration,
    queue: SharedCuratorQueue,
) -> SharedQueuePeer {
    let curator = Curator::find().await.unwrap();
    let connect = ensemble.connect_string();
    SharedQueuePeer::curator(&curator, &connect, session_timeout, PATHS, queue)
        .await
        .unwrap()
}

async fn kazoo(ensemble: &Ensemble, session_timeout: Duration) -> SharedQueuePeer {
    let kazoo = Kazoo::find().await.unwrap();
    let connect = ensemble.connect_string();
    SharedQueuePeer::kazoo(&kazoo, &connect, session_timeout, PATH)
        .await
        .unwrap()
}

/// Waits until the session's server shows what other clients were answered.
async fn synced(session: &Session) {
    session.sync("/").with_quorum().await.unwrap();
}

async fn names(session: &Session, path: &str) -> Vec<String> {
    synced(session).await;
    let (mut names, _) = session.list(path).await.unwrap();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_consumers_and_ours_leave_each_other_their_items() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let ours = queue(&session, curators());
    let mut producer = curator(&ensemble, SOON, SharedCuratorQueue::Put).await;
    producer.does("put theirs-1", "put").await.unwrap();
    ours.offer(&text("ours-2")).await.unwrap();
    producer.does("put theirs-3", "put").await.unwrap();
    synced(&session).await;
    let first = ours.claim().await.unwrap();
    assert_eq!(first.item(), "theirs-1");

    // It skips what we have, and we skip what it has.
    let mut consumer = curator(&ensemble, SOON, SharedCuratorQueue::Take).await;
    assert_eq!(consumer.says("took").await.unwrap(), "ours-2");
    synced(&session).await;
    let third = ours.claim().await.unwrap();
    assert_eq!(third.item(), "theirs-3");
    let items = names(&session, PATH).await;
    assert_eq!(names(&session, LOCKS).await, items);
    assert_eq!(items.len(), 3);
    let owners = ours.claims().await.unwrap();
    let is_ours: Vec<_> = owners
        .iter()
        .map(|claim| claim.session == Some(session.id()))
        .collect();
    assert_eq!(is_ours, [true, false, true]);
    first.acknowledge().await.unwrap();
    third.acknowledge().await.unwrap();
    consumer.tell("finish 1").await.unwrap();
    let finished = async {
        while !names(&session, PATH).await.is_empty() || !names(&session, LOCKS).await.is_empty() {}
    };
    timeout(SOON, finished)
        .await
        .expect("the last item is finished");
    ensemble.down().await.unwrap();
}

/// Its session expires; ours processes the item.
#[tokio::test(flavor = "multi_thread")]
async fn the_item_of_a_curator_consumer_that_is_killed_comes_back() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let ours = queue(&session, curators());
    let mut consumer = curator(&ensemble, SHORT, SharedCuratorQueue::Take).await;
    ours.offer(&text("1")).await.unwrap();
    assert_eq!(consumer.says("took").await.unwrap(), "1");
    synced(&session).await;
    assert!(ours.try_claim().await.unwrap().is_none());
    drop(consumer);
    let claim = timeout(SOON, ours.claim()).await.expect("it comes back");
    claim.unwrap().acknowledge().await.unwrap();

    // And the other way round: it learns of the item with the next change of the queue.
    let other = observer(&ensemble).await;
    let mut consumer = curator(&ensemble, SOON, SharedCuratorQueue::Take).await;
    ours.offer(&text("2")).await.unwrap();
    assert_eq!(consumer.says("took").await.unwrap(), "2");
    ours.offer(&text("3")).await.unwrap();
    let theirs = queue(&other, curators());
    let claim = theirs.claim().await.unwrap();
    assert_eq!(claim.item(), "3");
    other.close().await.unwrap();
    consumer.tell("finish 1").await.unwrap();
    ours.offer(&text("4")).await.unwrap();
    assert_eq!(consumer.says("took").await.unwrap(), "3");
    consumer.tell("finish 1").await.unwrap();
    assert_eq!(consumer.says("took").await.unwrap(), "4");
    ensemble.down().await.unwrap();
}

/// All sessions live, so each item is processed once.
#[tokio::test(flavor = "multi_thread")]
async fn each_item_is_processed_once_by_curator_or_by_us() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let mut consumer = curator(&ensemble, SOON, SharedCuratorQueue::Take).await;
    consumer.tell("finish 1000000").await.unwrap();
    let mut producer = curator(&ensemble, SOON, SharedCuratorQueue::Put).await;
    let ours = queue(&session, curators());
    let produced = async {
        for item in (0..ITEMS).step_by(2) {
            producer.does(&format!("put {item}"), "put").await.unwrap();
            ours.offer(&text(item + 1)).await.unwrap();
        }
    };
    let consuming = consume(&session, &ours);
    let ((), consumed) = tokio::join!(produced, consuming);
    let theirs = ITEMS - consumed.len();
    let mut all: BTreeSet<String> = consumed.into_iter().collect();
    for _ in 0..theirs {
        let item = consumer.says("took").await.unwrap();
        assert!(all.insert(item.clone()), "{item} was processed twice");
    }
    println!("{theirs} of {ITEMS} items were processed by Curator");
    assert_eq!(all.len(), ITEMS);
    ensemble.down().await.unwrap();
}

/// Claims and acknowledges items until the queue is empty, at least half of those of a test.
async fn consume(session: &Session, ours: &WorkQueue<String>) -> Vec<String> {
    let mut consumed = Vec::new();
    let until = tokio::time::Instant::now() + LONG;
    let mut is_begun = false;
    loop {
        assert!(tokio::time::Instant::now() < until, "{consumed:?}");
        match ours
            .claim_timeout(Duration::from_millis(500))
            .await
            .unwrap()
        {
            Some(claim) => {
                is_begun = true;
                let item = claim.item().clone();
                assert_eq!(claim.deliveries(), 1, "{item}");
                claim.acknowledge().await.unwrap();
                assert!(!consumed.contains(&item), "{item} was processed twice");
                consumed.push(item);
            }
            None if is_begun => {
                synced(session).await;
                if ours.is_empty().await.unwrap() {
                    return consumed;
                }
            }
            None => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_ids_and_ours_are_the_same() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let ours = queue(
        &session,
        WorkLayout::CuratorId {
            lock_path: lock_path(),
        },
    );
    let mut theirs = curator(&ensemble, SOON, SharedCuratorQueue::PutWithIds).await;
    theirs.does("put a1 a/b", "put").await.unwrap();
    theirs.does("put b1 b", "put").await.unwrap();
    ours.offer(&text("a2")).id("a/b").await.unwrap();
    ours.offer(&text("b2")).id("b").await.unwrap();
    assert_eq!(
        names(&session, PATH).await,
        [
            "queue-|a_b|0000000000",
            "queue-|a_b|0000000002",
            "queue-|b|0000000001",
            "queue-|b|0000000003"
        ]
    );
    let cancelled = ours.cancel_with_id("a/b").await.unwrap();
    assert_eq!((cancelled.removed, cancelled.claimed), (2, 0));
    let claim = ours.claim().await.unwrap();
    assert_eq!(claim.item(), "b1");
    // What a consumer of ours has, it does not remove. Its server may not show the rest yet.
    theirs.does("write /written", "written").await.unwrap();
    assert_eq!(theirs.does("remove b", "removed").await.unwrap(), "1");
    synced(&session).await;
    claim.acknowledge().await.unwrap();
    assert!(ours.try_claim().await.unwrap().is_none());
    ours.offer(&text("c1")).id("c").await.unwrap();
    let mut consumer = curator(&ensemble, SOON, SharedCuratorQueue::TakeWithIds).await;
    assert_eq!(consumer.says("took").await.unwrap(), "c1");
    let cancelled = ours.cancel_with_id("c").await.unwrap();
    assert_eq!((cancelled.removed, cancelled.claimed), (0, 1));
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kazoos_locking_queue_and_ours_leave_each_other_their_items() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let ours = queue(&session, WorkLayout::KazooLocking);
    let mut theirs = kazoo(&ensemble, SOON).await;
    ours.offer(&text("ours-3")).priority(101).await.unwrap();
    theirs.does("put theirs-2", "put").await.unwrap();
    theirs.does("put theirs-1 5", "put").await.unwrap();
    synced(&session).await;
    let first = ours.claim().await.unwrap();
    assert_eq!(first.item(), "theirs-1");
    assert_eq!(theirs.does("get 30", "got").await.unwrap(), "theirs-2");
    synced(&session).await;
    let third = ours.claim().await.unwrap();
    assert_eq!(third.item(), "ours-3");
    let entries = names(&session, &format!("{PATH}/entries")).await;
    assert_eq!(names(&session, &format!("{PATH}/taken")).await, entries);
    assert_eq!(theirs.does("consume", "consumed").await.unwrap(), "True");
    third.acknowledge().await.unwrap();
    assert_eq!(theirs.does("get 1", "got").await.unwrap(), "");
    // It is woken when we return an item.
    theirs.tell("get 30").await.unwrap();
    first.reject(Duration::ZERO, "not here").await.unwrap();
    assert_eq!(theirs.says("got").await.unwrap(), "theirs-1");
    assert_eq!(theirs.does("release", "released").await.unwrap(), "True");
    let claim = timeout(SOON, ours.claim()).await.expect("it is returned");
    let claim = claim.unwrap();
    assert_eq!((claim.item().as_str(), claim.deliveries()), ("theirs-1", 2));
    claim.acknowledge().await.unwrap();
    assert!(ours.is_empty().await.unwrap());
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_item_of_a_kazoo_consumer_that_is_killed_comes_back() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let ours = queue(&session, WorkLayout::KazooLocking);
    let mut theirs = kazoo(&ensemble, SHORT).await;
    ours.offer(&text("1")).await.unwrap();
    assert_eq!(theirs.does("get 30", "got").await.unwrap(), "1");
    synced(&session).await;
    assert!(ours.try_claim().await.unwrap().is_none());
    drop(theirs);
    let claim = timeout(SOON, ours.claim()).await.expect("it comes back");
    claim.unwrap().acknowledge().await.unwrap();

    let other = observer(&ensemble).await;
    ours.offer(&text("2")).await.unwrap();
    let claim = queue(&other, WorkLayout::KazooLocking).claim().await;
    assert_eq!(claim.unwrap().item(), "2");
    let mut theirs = kazoo(&ensemble, SOON).await;
    theirs.tell("get 30").await.unwrap();
    other.close().await.unwrap();
    assert_eq!(theirs.says("got").await.unwrap(), "2");
    ensemble.down().await.unwrap();
}

/// All sessions live, so each item is processed once.
#[tokio::test(flavor = "multi_thread")]
async fn each_item_is_processed_once_by_kazoo_or_by_us() {
    let ensemble = three_servers().await;
    let session = observer(&ensemble).await;
    let ours = queue(&session, WorkLayout::KazooLocking);
    let mut theirs = kazoo(&ensemble, SOON).await;
    for item in (0..ITEMS).step_by(2) {
        theirs.does(&format!("put {item}"), "put").await.unwrap();
        ours.offer(&text(item + 1)).await.unwrap();
    }
    let consumed_theirs = async {
        let mut consumed = Vec::new();
        loop {
            let item = theirs.does("get 1", "got").await.unwrap();
            if item.is_empty() {
                return consumed;
            }
            let done = theirs.does("consume", "consumed").await.unwrap();
            assert_eq!(done, "True", "{item}");
            consumed.push(item);
        }
    };
    let (consumed, theirs) = tokio::join!(consume(&session, &ours), consumed_theirs);
    println!("{} of {ITEMS} items were processed by kazoo", theirs.len());
    let all: BTreeSet<_> = consumed.iter().chain(&theirs).collect();
    assert_eq!((all.len(), consumed.len() + theirs.len()), (ITEMS, ITEMS));
    ensemble.down().await.unwrap();
}
