//! Curator's `DistributedAtomicLong` and our blocks, on one counter.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_id::{BlockError, BlockIds};
use zk_tests::peers::Curator;

use crate::lock::{observer, three_servers};

async fn counter(session: &Session) -> i64 {
    // Others wrote it through other servers.
    session.sync("/counter").with_quorum().await.unwrap();
    let (data, _) = session.get("/counter").await.unwrap();
    i64::from_be_bytes((&*data).try_into().unwrap())
}

fn blocks(session: &Session, block: u32) -> BlockIds {
    BlockIds::new(session, "/counter", NonZeroU32::new(block).unwrap()).unwrap()
}

async fn increments(curator: &Curator, ensemble: &Ensemble, times: u32) -> Vec<i64> {
    let connect = ensemble.connect_string();
    curator
        .increments(&connect, "/counter", times)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn curators_counter_and_our_blocks_share_no_number() {
    let ensemble = three_servers().await;
    let curator = Curator::find().await.unwrap();
    let session = observer(&ensemble).await;
    // Each continues what the other one has begun.
    assert_eq!(increments(&curator, &ensemble, 2).await, [1, 2]);
    let ids = blocks(&session, 10);
    assert_eq!(ids.next().await.unwrap(), 3);
    drop(ids);
    assert_eq!(counter(&session).await, 12);
    assert_eq!(increments(&curator, &ensemble, 1).await, [13]);
    // At the same time.
    let ids = blocks(&session, 3);
    let ours = async {
        let mut ours = Vec::new();
        while ours.len() < 300 {
            match ids.next().await {
                Ok(number) => ours.push(number),
                Err(BlockError::Contended { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        ours
    };
    let (ours, theirs) = tokio::join!(ours, increments(&curator, &ensemble, 300));
    let all: BTreeSet<i64> = ours.iter().chain(&theirs).copied().collect();
    assert_eq!(all.len(), 600, "a number was given out twice");
    assert!(all.first() > Some(&13) && all.last() <= Some(&counter(&session).await));
    ensemble.down().await.unwrap();
}
