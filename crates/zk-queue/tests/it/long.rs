//! Queues with more items than fit into any list.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;

use zk_core::Session;
use zk_core::codec::Text;
use zk_harness::{DataStore, Ensemble};
use zk_queue::{Delivery, Queue, WorkOptions, WorkQueue, WorkerOptions};

use crate::{connect, soon};

/// A child occupies its name and four bytes in a list.
const PER_CHILD: usize = "qn-0000000000".len() + 4;
/// The default limit of clients: `jute.maxbuffer`.
const ONE_ANSWER: usize = 1024 * 1024;

/// More items than one segment holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_20_000_items_is_filled_and_drained() {
    fill_and_drain(4, 1).await;
}

/// Waits for work that takes minutes on a slow machine.
async fn long<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let within = tokio::time::timeout(Duration::from_secs(420), wait).await;
    within.unwrap_or_else(|_| panic!("waited seven minutes for this: {what}"))
}

mod deep {
    /// More items than fit into any list.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_queue_of_200_000_items_is_filled_and_drained() {
        super::fill_and_drain(40, 3).await;
    }

    /// With a priority and a delay, names are nearly twice as long, and a segment has as many items.
    #[tokio::test(flavor = "multi_thread")]
    async fn work_beyond_one_list_is_done_and_every_list_fits() {
        let size = super::do_work(26_000, &super::WorkOptions::default()).await;
        assert!(size > super::ONE_ANSWER, "one list would do: {size} bytes");
    }
}

/// Offers 5,000 items in each of `parts`, checks how they are spread over segments, and takes them all.
async fn fill_and_drain(parts: u32, servers: usize) {
    let all = usize::try_from(parts * 5000).unwrap();
    let ensemble = Ensemble::builder()
        .servers(servers)
        .data(DataStore::Memory)
        // So many nodes need more memory than the harness's default.
        .jvm_flags(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .start()
        .await
        .expect("the server starts");
    let filled_and_drained = async {
        let (one, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let offering = Queue::new(&one, "/mail/outgoing", Text).unwrap();
        let began = std::time::Instant::now();
        for part in 0..parts {
            let items: Vec<_> = (part * 5000..(part + 1) * 5000)
                .map(|n: u32| format!("{n:06}"))
                .collect();
            let offered = offering.offer_all(&items).await;
            offered.unwrap_or_else(|error| {
                panic!("part {part}, after {:?}: {error:?}", began.elapsed())
            });
        }
        println!("offered in {:?}", began.elapsed());
        assert_eq!(offering.len().await.unwrap(), all);
        let (segments, _) = one.list("/mail/outgoing-receipts/segments").await.unwrap();
        assert!(!segments.is_empty(), "all are in one node");
        let paths = segments
            .iter()
            .map(|name| format!("/mail/outgoing-receipts/segments/{name}"));
        for path in paths.chain(["/mail/outgoing".to_owned()]) {
            let children = one.stat(path).await.unwrap().num_children;
            let bytes = usize::try_from(children).unwrap() * PER_CHILD;
            assert!(bytes < ONE_ANSWER, "{children} children");
        }
        // The server of the other session may not have seen them all yet.
        other.sync("/mail").with_quorum().await.unwrap();
        let taking = Queue::new(&other, "/mail/outgoing", Text).unwrap();
        assert_eq!(taking.poll().await.unwrap().as_deref(), Some("000000"));
        let began = std::time::Instant::now();
        let drained = taking.drain().await;
        println!("drained in {:?}", began.elapsed());
        drained.end.unwrap();
        assert_eq!(drained.items.len(), all - 1);
        assert!(drained.items.is_sorted());
        assert_eq!(drained.items.last(), Some(&format!("{:06}", all - 1)));
        // Their parent is a container: the servers delete it when it is empty.
        match other.list("/mail/outgoing-receipts/segments").await {
            Ok((segments, _)) => assert_eq!(segments, [""; 0]),
            Err(error) => assert!(error.is_no_node(), "{error}"),
        }
    };
    long("the queue is filled and drained", filled_and_drained).await;
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_several_segments_is_done_once() {
    do_work(1_600, &WorkOptions::default().with_segment_size(500)).await;
}

/// Does all items with two consumers, and returns the size of the lists of their names.
async fn do_work(count: u32, options: &WorkOptions) -> usize {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .start()
        .await
        .expect("the server starts");
    let (one, other) = (connect(&ensemble).await, connect(&ensemble).await);
    let queue_of = |session| WorkQueue::with_options(session, "/jobs", Text, options).unwrap();
    let offering = queue_of(&one);
    let items: Vec<_> = (0..count).map(|n| format!("{n:06}")).collect();
    for part in items.chunks(2000) {
        let offer = offering.offer_all(part).priority(i32::MIN);
        offer.delay(Duration::from_millis(1)).await.unwrap();
    }
    assert_eq!(offering.len().await.unwrap(), items.len());
    let segments = segments_of(&one, "/jobs/receipts/segments").await;
    assert!(!segments.is_empty(), "all are in one node");
    let segments = segments
        .iter()
        .map(|name| format!("/jobs/receipts/segments/{name}"));
    let mut size = 0;
    for path in segments.chain(["/jobs/items".to_owned()]) {
        let (names, _) = one.list(path).await.unwrap();
        let bytes: usize = names.iter().map(|name| name.len() + 4).sum();
        assert!(
            bytes < ONE_ANSWER,
            "{} children, {bytes} bytes",
            names.len()
        );
        size += bytes;
    }

    let done = Mutex::new(BTreeSet::new());
    let (end, _) = tokio::sync::watch::channel(false);
    let work = async |session| {
        let queue = queue_of(session);
        let mut ends = end.subscribe();
        let stop = async { drop(ends.wait_for(|over| *over).await) };
        let options = WorkerOptions::default().with_concurrency(250);
        let handler = async |delivery: Delivery<String>| {
            let mut done = done.lock().unwrap();
            assert!(done.insert(delivery.into_item()), "it was done before");
            if done.len() == items.len() {
                end.send_replace(true);
            }
            Ok::<(), Infallible>(())
        };
        queue.work_until(stop, &options, handler).await.unwrap()
    };
    let worked = async { tokio::join!(work(&one), work(&other)) };
    let (stats, others) = long("all is done", worked).await;
    assert_eq!(stats.acknowledged + others.acknowledged, u64::from(count));
    assert!(done.into_inner().unwrap().iter().eq(&items));
    assert!(offering.is_empty().await.unwrap());
    assert_eq!(offering.claims().await.unwrap(), []);
    // A consumer that lists an empty segment removes it.
    let removed = async {
        while !segments_of(&other, "/jobs/receipts/segments")
            .await
            .is_empty()
        {
            assert!(offering.try_claim().await.unwrap().is_none());
        }
    };
    soon("the segments are removed", removed).await;
    ensemble.down().await.expect("the server goes down");
    size
}

/// The existing segments. Their parent is a container: the servers delete it when it is empty.
async fn segments_of(session: &Session, path: &str) -> Vec<String> {
    match session.list(path).await {
        Ok((names, _)) => names,
        Err(error) if error.is_no_node() => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}
