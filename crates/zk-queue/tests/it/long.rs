//! A queue of more items than any list can have.

use std::time::Duration;

use zk_core::codec::Text;
use zk_harness::DataStore;
use zk_harness::Ensemble;
use zk_queue::Queue;

use crate::connect;

/// A child takes its name and four bytes of a list.
const PER_CHILD: usize = "qn-0000000000".len() + 4;
/// What clients take by default: `jute.maxbuffer`.
const ONE_ANSWER: usize = 1024 * 1024;

// covers: Q5
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_200_000_items_is_filled_and_drained_with_lists_that_fit() {
    let ensemble = Ensemble::builder()
        .data(DataStore::Memory)
        // So many nodes take more memory than the harness gives a server.
        .jvm_flags(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .start()
        .await
        .expect("the server starts");
    let filled_and_drained = async {
        let (one, other) = (connect(&ensemble).await, connect(&ensemble).await);
        let offering = Queue::new(&one, "/mail/outgoing", Text).unwrap();
        let began = std::time::Instant::now();
        for part in 0..40 {
            let items: Vec<_> = (part * 5000..(part + 1) * 5000)
                .map(|n: u32| format!("{n:06}"))
                .collect();
            let offered = offering.offer_all(&items).await;
            offered.unwrap_or_else(|error| {
                panic!("part {part}, after {:?}: {error:?}", began.elapsed())
            });
        }
        println!("offered in {:?}", began.elapsed());
        assert_eq!(offering.len().await.unwrap(), 200_000);
        let (segments, _) = one.list("/mail/outgoing-receipts/segments").await.unwrap();
        assert!(segments.len() >= 5, "{segments:?}");
        let paths = segments
            .iter()
            .map(|name| format!("/mail/outgoing-receipts/segments/{name}"));
        for path in paths.chain(["/mail/outgoing".to_owned()]) {
            let children = one.stat(path).await.unwrap().num_children;
            let bytes = usize::try_from(children).unwrap() * PER_CHILD;
            assert!(bytes < ONE_ANSWER, "{children} children");
        }
        let taking = Queue::new(&other, "/mail/outgoing", Text).unwrap();
        assert_eq!(taking.poll().await.unwrap().as_deref(), Some("000000"));
        let began = std::time::Instant::now();
        let drained = taking.drain().await;
        println!("drained in {:?}", began.elapsed());
        drained.end.unwrap();
        assert_eq!(drained.items.len(), 199_999);
        assert!(drained.items.is_sorted());
        assert_eq!(drained.items.last().map(String::as_str), Some("199999"));
        // The node above them is a container: without children the servers remove it.
        match other.list("/mail/outgoing-receipts/segments").await {
            Ok((segments, _)) => assert_eq!(segments, [""; 0]),
            Err(error) => assert!(error.is_no_node(), "{error}"),
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(420), filled_and_drained);
    within.await.expect("it is done within seven minutes");
    ensemble.down().await.expect("the server goes down");
}
