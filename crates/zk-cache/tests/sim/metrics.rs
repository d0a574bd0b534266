//! What caches report to the facade `metrics`, under paused time.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use zk_cache::{CacheOptions, ChildrenCache, NodeCache, TreeCache, describe_metrics};
use zk_sim::Ensemble;

use crate::{ROOT, pass, soon};

/// The caches by state, and their nodes: a snapshot contains only what was added since the one before.
type Gauges = BTreeMap<String, f64>;

/// What caches reported since the last call: how many there are in each state that has some, their nodes, and the whole
/// seconds until they were synchronised.
fn reported(snapshotter: &Snapshotter, gauges: &mut Gauges) -> Vec<String> {
    let mut reported = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let (_, key) = key.into_parts();
        let label = key.labels().map(|label| (label.key(), label.value()));
        let label: Vec<_> = label.collect();
        match (key.name(), &label[..], value) {
            ("zk_caches", [("state", state)], DebugValue::Gauge(count)) => {
                *gauges.entry((*state).to_owned()).or_default() += *count;
            }
            ("zk_cache_nodes", [], DebugValue::Gauge(nodes)) => {
                *gauges.entry("nodes".to_owned()).or_default() += *nodes;
            }
            (
                "zk_cache_unsynchronized_duration_seconds",
                [("state", state)],
                DebugValue::Histogram(values),
            ) => {
                let values: Vec<_> = values.iter().map(|value| value.floor()).collect();
                if !values.is_empty() {
                    reported.push(format!("was {state} for {values:?}"));
                }
            }
            (name, labels, value) => {
                assert!(!name.starts_with("zk_cache"), "{name} {labels:?} {value:?}");
            }
        }
    }
    for (what, count) in gauges {
        assert!(*count >= 0.0, "{what}: {count}");
        if *count > 0.0 {
            reported.push(format!("{count} {what}"));
        }
    }
    reported.sort();
    reported
}

#[tokio::test(start_paused = true)]
async fn states_nodes_and_times_without_synchronisation_are_reported() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let mut gauges = Gauges::new();
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
    assert_eq!(reported(&snapshotter, &mut gauges), ["1 loading"]);
    soon("it is loaded", tree.synchronized()).await.unwrap();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["1 synchronized", "4 nodes", "was loading for [0.0]"]
    );
    // Another one, which has another number of the same nodes. A clone is no other cache.
    let children = ChildrenCache::start(&session, ROOT).unwrap();
    soon("it is loaded", children.synchronized()).await.unwrap();
    let clone = children.clone();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["2 synchronized", "7 nodes", "was loading for [0.0]"]
    );
    drop(clone);
    writer.delete("/t/b").await.unwrap();
    let wait = children.wait_for(|now| now.get("/t/b").is_none());
    soon("the deletion is seen", wait).await.unwrap();
    let wait = tree.wait_for(|now| now.get("/t/b").is_none());
    soon("the deletion is seen", wait).await.unwrap();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["2 synchronized", "5 nodes"]
    );

    // The connection breaks for a while, some time after the load.
    pass(Duration::from_secs(10)).await;
    ensemble
        .session(session.id())
        .cut_for(Duration::from_millis(2500));
    pass(Duration::from_secs(1)).await;
    assert_eq!(reported(&snapshotter, &mut gauges), ["2 stale", "5 nodes"]);
    soon("one is back", tree.synchronized()).await.unwrap();
    soon("the other is back", children.synchronized())
        .await
        .unwrap();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["2 synchronized", "5 nodes", "was stale for [2.0, 2.0]"]
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
    let after = reported(&snapshotter, &mut gauges);
    assert_eq!(after[..2], ["1 synchronized", "3 nodes"], "{after:?}");
    assert!(after[2].starts_with("was stale for ["), "{after:?}");

    // A cache that resumes is stale at first.
    let next = soon("there is a session", sessions.session())
        .await
        .unwrap();
    let resumed = ChildrenCache::resume(&next, &children.snapshot(), &CacheOptions::default());
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["1 stale", "1 synchronized", "5 nodes"]
    );
    soon("it is loaded", resumed.synchronized()).await.unwrap();
    assert_eq!(
        reported(&snapshotter, &mut gauges),
        ["2 synchronized", "5 nodes", "was stale for [0.0]"]
    );

    // Whatever is dropped is withdrawn, also before it has loaded.
    let node = NodeCache::start(&next, ROOT).unwrap();
    drop((node, resumed, children, tree));
    soon("all are withdrawn", async {
        while !reported(&snapshotter, &mut gauges).is_empty() {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[test]
fn descriptions_name_the_metrics_and_their_units() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        describe_metrics();
        metrics::gauge!("zk_caches").set(0.0);
        metrics::gauge!("zk_cache_nodes").set(0.0);
        metrics::histogram!("zk_cache_unsynchronized_duration_seconds").record(0.0);
    });
    let described = snapshotter.snapshot().into_vec();
    assert_eq!(described.len(), 3);
    for (key, unit, description, value) in described {
        let expected = match value {
            DebugValue::Histogram(_) => metrics::Unit::Seconds,
            _ => metrics::Unit::Count,
        };
        assert_eq!(unit, Some(expected), "{key:?}");
        assert!(description.is_some(), "{key:?}");
    }
}
