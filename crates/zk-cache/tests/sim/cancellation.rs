//! Whatever is dropped, wherever.

use std::time::Duration;

use zk_cache::End;
use zk_cache::State;
use zk_cache::TreeCache;
use zk_sim::Ensemble;

use crate::ROOT;
use crate::nodes_on;
use crate::pass;
use crate::replay::Replay;
use crate::soon;

/// A cache that goes leaves no watch and no task behind, at whichever moment of its life.
// against traps T7
#[tokio::test(start_paused = true)]
async fn a_dropped_cache_leaves_no_watch_and_says_that_it_ended() {
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
                matches!(last, Some(zk_cache::Event::Ended(End::Stopped))),
                "{what}"
            );
            assert_ne!(snapshot.state(), State::Ended);
            pass(Duration::from_secs(3)).await;
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            assert_eq!(session.counters().watched_bytes, 0, "{what}");
            // The session is as good as before.
            session.create("/t/after", "").await.unwrap();
        }
    }
}

/// Waits that are given up after each number of polls lose nothing.
// covers: K4
#[tokio::test(start_paused = true)]
async fn a_wait_for_an_event_that_is_dropped_loses_none() {
    for patience in 0..30 {
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
        let patience = Duration::from_micros(100 * patience);
        let end = tokio::time::Instant::now() + Duration::from_secs(3);
        while tokio::time::Instant::now() < end {
            if let Ok(Some(event)) = tokio::time::timeout(patience, events.next()).await {
                replay.play(&event);
            }
            drop(tokio::time::timeout(Duration::from_micros(300), cache.synchronized()).await);
            pass(Duration::from_micros(500)).await;
        }
        writing.await.unwrap();
        assert_eq!(
            replay.nodes,
            nodes_on(&ensemble, ROOT),
            "with patience {patience:?}"
        );
    }
}
