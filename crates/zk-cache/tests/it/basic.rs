//! Caches on real servers without faults.

use zk_cache::{Event, TreeCache};
use zk_core::{NodePath, Session};
use zk_harness::Ensemble;

use crate::replay::{Replay, nodes_of};
use crate::{connect, soon};

/// The list of children takes more than a mebibyte, which Java clients refuse.
#[tokio::test(flavor = "multi_thread")]
async fn very_many_children_are_cached_and_leave_no_watch() {
    const CHILDREN: usize = 20_000;
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = connect(&ensemble).await;
    session.create("/t", "").await.unwrap();
    let name = |number: usize| format!("/t/{number:060}");
    for chunk in (0..CHILDREN).collect::<Vec<_>>().chunks(500) {
        let mut transaction = session.transaction();
        for number in chunk {
            transaction = transaction.create(name(*number), number.to_string());
        }
        transaction.commit().await.unwrap();
    }
    let other: Session = connect(&ensemble).await;
    let cache = TreeCache::start(&other, "/t").unwrap();
    let mut events = cache.events();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    assert_eq!(snapshot.len(), 1 + CHILDREN);
    let calls = other.counters().calls;
    assert_eq!(nodes_of(&cache.snapshot()), nodes_of(&snapshot));
    assert_eq!(other.counters().calls, calls, "a snapshot sends no request");
    let path: NodePath = name(1234).parse().unwrap();
    assert_eq!(cache.get(&path).unwrap().data(), Some(&b"1234"[..]));
    session.set(&path, "changed").await.unwrap();
    session.delete(name(1)).await.unwrap();
    let mut replay = Replay::default();
    soon("both are reported", async {
        while replay.nodes.contains_key(&name(1))
            || replay
                .nodes
                .get(path.as_str())
                .is_none_or(|node| node.version == 0)
            || !replay.is_synchronized
        {
            replay.play(&events.next().await.expect("the cache runs"));
        }
    })
    .await;
    assert_eq!(replay.nodes.len(), CHILDREN);
    assert_eq!(replay.nodes, nodes_of(&cache.snapshot()));
    assert_eq!(cache.get(&path).unwrap().data(), Some(&b"changed"[..]));
    drop(cache);
    let last = soon("its events end", async {
        let mut last = None;
        while let Some(event) = events.next().await {
            last = Some(event);
        }
        last
    });
    assert!(matches!(last.await, Some(Event::Ended(_))));
    // The removal of the watch is queued behind earlier requests of the session.
    soon("no watch is left", async {
        while ensemble.server(1).unwrap().wchs().await.unwrap().watches > 0 {
            other.exists("/t").await.unwrap();
        }
    })
    .await;
    ensemble.down().await.unwrap();
}
