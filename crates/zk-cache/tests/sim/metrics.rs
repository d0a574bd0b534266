//! What caches report to the facade `metrics`, under paused time.

use std::time::Duration;

use zk_cache::{CacheOptions, ChildrenCache, NodeCache, TreeCache, describe_metrics};
use zk_sim::Ensemble;
use zk_testkit::metrics::{Names, Recorder, assert_described};

use crate::{ROOT, pass, soon};

const NAMES: Names = &[
    ("zk_caches", "caches"),
    ("zk_cache_nodes", "nodes"),
    ("zk_cache_unsynchronized_duration_seconds", "unsynchronized"),
];

/// What caches reported since the last call: how many there are in each state that has some, their nodes, and the whole
/// seconds until they were synchronised.
fn reported(recorder: &Recorder) -> Vec<String> {
    recorder.reported("zk_cache", NAMES)
}

#[tokio::test(start_paused = true)]
async fn states_nodes_and_times_without_synchronisation_are_reported() {
    let recorder = Recorder::install();
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().await;
    let sessions = ensemble.open_sessions();
    let session = soon("there is a session", sessions.session())
        .await
        .unwrap();
    for path in ["/t/a/1", "/t/b"] {
        writer.create(path, "0").parents().await.unwrap();
    }

    let tree = TreeCache::start(&sessions, ROOT).unwrap();
    assert_eq!(reported(&recorder), ["caches state=loading 1"]);
    soon("it is loaded", tree.synchronized()).await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "caches state=synchronized 1",
            "nodes 4",
            "unsynchronized state=loading [0.0]"
        ]
    );
    // Another one, which has another number of the same nodes. A clone is no other cache.
    let children = ChildrenCache::start(&session, ROOT).unwrap();
    soon("it is loaded", children.synchronized()).await.unwrap();
    let clone = children.clone();
    assert_eq!(
        reported(&recorder),
        [
            "caches state=synchronized 2",
            "nodes 7",
            "unsynchronized state=loading [0.0]"
        ]
    );
    drop(clone);
    writer.delete("/t/b").await.unwrap();
    let wait = children.wait_for(|now| now.get("/t/b").is_none());
    soon("the deletion is seen", wait).await.unwrap();
    let wait = tree.wait_for(|now| now.get("/t/b").is_none());
    soon("the deletion is seen", wait).await.unwrap();
    assert_eq!(
        reported(&recorder),
        ["caches state=synchronized 2", "nodes 5"]
    );

    // The connection breaks for a while, some time after the load.
    pass(Duration::from_secs(10)).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_millis(2500));
    pass(Duration::from_secs(1)).await;
    assert_eq!(reported(&recorder), ["caches state=stale 2", "nodes 5"]);
    soon("one is back", tree.synchronized()).await.unwrap();
    soon("the other is back", children.synchronized())
        .await
        .unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "caches state=synchronized 2",
            "nodes 5",
            "unsynchronized state=stale [2.0, 2.0]"
        ]
    );

    // The session ends: one cache with it, and the other goes on with the next one.
    ensemble.expire(session.id());
    soon("one ends", children.ended()).await;
    soon(
        "the other is stale",
        tree.wait_for(|now| !now.is_synchronized()),
    )
    .await
    .unwrap();
    soon("it goes on", tree.synchronized()).await.unwrap();
    let after = reported(&recorder);
    assert_eq!(
        after[..2],
        ["caches state=synchronized 1", "nodes 3"],
        "{after:?}"
    );
    assert!(
        after[2].starts_with("unsynchronized state=stale ["),
        "{after:?}"
    );

    // A cache that resumes is stale at first.
    let next = soon("there is a session", sessions.session())
        .await
        .unwrap();
    let resumed = ChildrenCache::resume(&next, &children.snapshot(), &CacheOptions::default());
    assert_eq!(
        reported(&recorder),
        [
            "caches state=stale 1",
            "caches state=synchronized 1",
            "nodes 5"
        ]
    );
    soon("it is loaded", resumed.synchronized()).await.unwrap();
    assert_eq!(
        reported(&recorder),
        [
            "caches state=synchronized 2",
            "nodes 5",
            "unsynchronized state=stale [0.0]"
        ]
    );

    // Whatever is dropped is withdrawn, also before it has loaded.
    let node = NodeCache::start(&next, ROOT).unwrap();
    drop((node, resumed, children, tree));
    soon("all are withdrawn", async {
        while !reported(&recorder).is_empty() {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[test]
fn descriptions_name_the_metrics_and_their_units() {
    assert_described(describe_metrics, NAMES);
}
