//! Caches of decoded values.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_cache::{CacheEnd, ChildrenCache, DecodedCache, DecodedSnapshot, TreeCache};
use zk_core::codec::{Codec, DecodeError, DecodeErrorKind, EncodeError};
use zk_sim::Ensemble;

use crate::{ROOT, pass, soon};

/// Numbers as texts; counts what it decodes.
#[derive(Clone, Default)]
struct Number(Arc<AtomicUsize>);

impl Codec<u64> for Number {
    fn encode(&self, value: &u64) -> Result<Vec<u8>, EncodeError> {
        Ok(value.to_string().into_bytes())
    }

    fn decode(&self, data: &[u8]) -> Result<u64, DecodeError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert_ne!(data, b"panic");
        let number = str::from_utf8(data).ok().and_then(|it| it.parse().ok());
        number.ok_or_else(|| DecodeError::new("number", DecodeErrorKind::Syntax, "no number"))
    }
}

async fn until(
    what: &str,
    cache: &DecodedCache<u64>,
    holds: impl FnMut(&DecodedSnapshot<u64>) -> bool,
) -> DecodedSnapshot<u64> {
    let mut snapshots = cache.snapshots();
    let now = soon(what, snapshots.wait_for(holds)).await;
    now.expect("the cache goes on").clone()
}

fn shown(now: &DecodedSnapshot<u64>) -> Vec<(&str, u64)> {
    now.values().map(|(path, value)| (path, **value)).collect()
}

fn problems(now: &DecodedSnapshot<u64>) -> Vec<&str> {
    let paths = now
        .problems()
        .map(|error| error.path().expect("it has one"));
    paths.map(zk_core::NodePath::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn each_change_is_decoded_once_and_a_bad_one_keeps_the_value() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    for (path, data) in [("/t/a", "1"), ("/t/b", "2"), ("/t/bad", "x")] {
        writer.create(path, data).parents().await.unwrap();
    }
    let codec = Number::default();
    let decoded = || codec.0.load(Ordering::SeqCst);
    let cache = ChildrenCache::start(&session, ROOT).unwrap();
    let cache = cache.decoded(codec.clone());
    let now = until("it loads", &cache, DecodedSnapshot::is_synchronized).await;
    assert_eq!(shown(&now), [("/t/a", 1), ("/t/b", 2)]);
    // The parent has no data, which is no problem.
    assert_eq!(problems(&now), ["/t/bad"]);
    assert_eq!(decoded(), 4);
    for _ in 0..100 {
        assert_eq!(cache.get("/t/a").as_deref(), Some(&1));
        assert_eq!((cache.get("/t/bad"), cache.get("/t/c/")), (None, None));
    }
    assert_eq!(decoded(), 4);

    writer.set("/t/a", "3").await.unwrap();
    until("the change", &cache, |now| {
        now.get("/t/a").is_some_and(|it| **it == 3)
    })
    .await;
    for bad in ["y", ""] {
        writer.set("/t/a", bad).await.unwrap();
        let has = move |now: &DecodedSnapshot<u64>| {
            let node = now.source().get("/t/a");
            node.is_some_and(|node| node.data() == Some(bad.as_bytes()))
        };
        let now = until("the bad one", &cache, has).await;
        assert_eq!(
            shown(&now),
            [("/t/a", 3), ("/t/b", 2)],
            "the last good value"
        );
        assert_eq!(problems(&now), ["/t/a", "/t/bad"]);
        let error = now.problems().next().unwrap().to_string();
        assert!(
            error.contains("/t/a") && error.contains("no number"),
            "{error}"
        );
    }
    writer.set("/t/a", "5").await.unwrap();
    writer.set("/t/bad", "6").await.unwrap();
    let now = until("both are good", &cache, |now| {
        now.problems().next().is_none()
    })
    .await;
    assert_eq!(shown(&now), [("/t/a", 5), ("/t/b", 2), ("/t/bad", 6)]);
    assert_eq!(decoded(), 9);

    // After a connection loss only what changed is decoded. A node that was created again has no older value.
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(2));
    until("it is stale", &cache, |now| !now.is_synchronized()).await;
    writer.delete("/t/a").await.unwrap();
    writer.create("/t/a", "z").await.unwrap();
    writer.delete("/t/b").await.unwrap();
    let now = until("it is back", &cache, DecodedSnapshot::is_synchronized).await;
    assert_eq!(shown(&now), [("/t/bad", 6)]);
    assert_eq!((problems(&now), decoded()), (vec!["/t/a"], 10));
    writer.delete("/t/a").await.unwrap();
    until("no problem is left", &cache, |now| {
        now.problems().next().is_none()
    })
    .await;

    // It ends with the cache, and its values stay.
    let mut snapshots = cache.snapshots();
    ensemble.expire(session.id());
    soon("it ends", async {
        while snapshots.changed().await.is_ok() {}
    })
    .await;
    let last = cache.snapshot();
    assert!(matches!(last.source().end(), Some(CacheEnd::SessionLost)));
    assert_eq!(shown(&last), [("/t/bad", 6)]);
}

#[tokio::test(start_paused = true)]
async fn decoded_values_keep_the_cache_and_end_with_the_last_clone() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for number in 0..500 {
        let path = format!("{ROOT}/{number:03}");
        session
            .create(path, number.to_string())
            .parents()
            .await
            .unwrap();
    }
    let codec = Number::default();
    let cache = TreeCache::start(&session, ROOT).unwrap();
    soon("it loads", cache.synchronized()).await.unwrap();
    // One that starts late, and is the only one that keeps the cache.
    let late = cache.decoded(codec.clone());
    drop(cache);
    let now = until("all are decoded", &late, DecodedSnapshot::is_synchronized).await;
    assert_eq!(now.values().count(), 500);
    let clone = late.clone();
    drop(late);
    session.set("/t/007", "1007").await.unwrap();
    until("the change", &clone, |now| {
        now.get("/t/007").is_some_and(|it| **it == 1007)
    })
    .await;
    assert_eq!(codec.0.load(Ordering::SeqCst), 502);
    let mut snapshots = clone.snapshots();
    // A panic of the codec ends it.
    session.set("/t/008", "panic").await.unwrap();
    soon("it ends", async {
        while snapshots.changed().await.is_ok() {}
    })
    .await;
    assert_eq!(clone.get("/t/008").as_deref(), Some(&8));
    drop(clone);
    pass(Duration::from_secs(3)).await;
    assert_eq!(ensemble.watch_count(), 0);
}
