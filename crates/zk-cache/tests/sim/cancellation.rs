//! Dropped caches and dropped futures.

use std::time::Duration;

use zk_cache::{CacheEnd, CacheState, TreeCache};
use zk_sim::Ensemble;

use crate::replay::Replay;
use crate::{ROOT, nodes_on, pass, soon};

/// At whichever moment a cache is dropped, it leaves no watch and no task behind.
#[tokio::test(start_paused = true)]
async fn a_dropped_cache_reports_its_end_and_leaves_no_watch() {
    for cut in [false, true] {
        for millis in 0..40 {
            let ensemble = Ensemble::new(3);
            let session = ensemble.connect().await;
            for path in ["/t/a/1", "/t/b/1"] {
                session.create(path, "0").parents().await.unwrap();
            }
            let cache = TreeCache::start(&session, ROOT).unwrap();
            let (clone, mut events) = (cache.clone(), cache.events());
            pass(Duration::from_millis(millis / 2)).await;
            if cut {
                ensemble.session(session.id()).cut();
            }
            pass(Duration::from_millis(millis / 2)).await;
            let snapshot = cache.snapshot();
            drop(cache);
            drop(clone);
            let mut last = None;
            soon("its events end", async {
                while let Some(event) = events.next().await {
                    last = Some(event);
                }
            })
            .await;
            let what = format!("{last:?} after {millis} ms");
            assert!(
                matches!(last, Some(zk_cache::Event::Ended(CacheEnd::Stopped))),
                "{what}"
            );
            assert_ne!(snapshot.state(), CacheState::Ended);
            pass(Duration::from_secs(3)).await;
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            // The session still works.
            session.create("/t/after", "").await.unwrap();
        }
    }
}

/// Waits that are cancelled after various times.
#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_loses_no_event() {
    for step in 0..30 {
        let ensemble = Ensemble::new(3);
        let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
        let cache = TreeCache::start(&session, ROOT).unwrap();
        let mut events = cache.events();
        let mut replay = Replay::default();
        let writing = tokio::spawn(async move {
            for number in 0..20 {
                writer
                    .create(format!("/t/{number}"), "")
                    .parents()
                    .await
                    .unwrap();
                writer.set(ROOT, number.to_string()).await.unwrap();
            }
        });
        let max_wait = Duration::from_micros(100 * step);
        let end = tokio::time::Instant::now() + Duration::from_secs(3);
        while tokio::time::Instant::now() < end {
            if let Ok(Some(event)) = tokio::time::timeout(max_wait, events.next()).await {
                replay.play(&event);
            }
            drop(tokio::time::timeout(Duration::from_micros(300), cache.synchronized()).await);
            pass(Duration::from_micros(500)).await;
        }
        writing.await.unwrap();
        assert_eq!(
            replay.nodes,
            nodes_on(&ensemble, ROOT),
            "with waits of {max_wait:?}"
        );
    }
}
