//! Loads over links that are slow for the amount of data.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use zk_cache::TreeCache;
use zk_core::Session;
use zk_core::transport::Request;
use zk_sim::{Ensemble, matching};

use crate::{ROOT, soon};

/// 10 Mbit/s.
fn slow() -> Ensemble {
    Ensemble::builder().servers(1).bandwidth(1_250_000).build()
}

/// Creates `parents` nodes with `nodes` children each.
async fn fill(session: &Session, parents: usize, nodes: usize, bytes: usize) {
    let at_once = (500_000 / (bytes + 100)).clamp(1, nodes);
    for parent in 0..parents {
        let parent = format!("{ROOT}/{parent:03}");
        session.create(&*parent, "").parents().await.unwrap();
        for from in (0..nodes).step_by(at_once) {
            let mut transaction = session.transaction();
            for node in from..nodes.min(from + at_once) {
                transaction = transaction.create(format!("{parent}/{node:03}"), vec![b'x'; bytes]);
            }
            transaction.commit().await.unwrap();
        }
    }
}

/// Returns how many nodes were read, alone or together.
fn nodes_read(ensemble: &Ensemble) -> usize {
    let nodes = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&nodes);
    ensemble.arrived(move |request| {
        if matches!(request, Request::GetData { .. } | Request::MultiRead(_)) {
            let paths = matching::paths(request).into_iter();
            let below = paths.filter(|path| path.as_str().starts_with(ROOT));
            count.fetch_add(below.count(), Ordering::SeqCst);
        }
        false
    });
    nodes.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn hundred_thousand_nodes_load_over_a_slow_link() {
    const NODES: usize = 100_000;
    let ensemble = slow();
    let session = ensemble.connect().await;
    fill(&session, 1000, NODES / 1000, 100).await;
    let since = Instant::now();
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    assert_eq!(snapshot.len(), 1 + 1000 + NODES);
    // About 190 bytes for each, and the names.
    let took = since.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// A full window of reads takes longer than the operation timeout.
#[tokio::test(start_paused = true)]
async fn large_nodes_are_read_once_over_a_slow_link() {
    const NODES: usize = 300;
    let ensemble = slow();
    let session = ensemble.connect().await;
    fill(&session, 1, NODES, 200_000).await;
    let since = Instant::now();
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let loaded = soon("the load is complete", cache.synchronized());
    let other = async {
        let mut longest = Duration::ZERO;
        for _ in 0..20 {
            let asked = Instant::now();
            session.exists("/none").await.unwrap();
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let (snapshot, longest) = tokio::join!(loaded, other);
    assert_eq!(snapshot.unwrap().len(), NODES + 2);
    let took = since.elapsed();
    // The data alone takes 48 seconds.
    assert!(took < Duration::from_secs(52), "{took:?}");
    assert_eq!(nodes_read(&ensemble), NODES + 2);
    // Other users of the session wait for a few reads, not for all.
    assert!(longest < Duration::from_secs(3), "{longest:?}");
}
