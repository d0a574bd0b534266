//! Trees that are larger than a cache may be.

use zk_cache::{CacheOptions, ChildrenCache, Content, PartialRead, TreeCache};
use zk_core::Session;
use zk_sim::Ensemble;

use crate::{ROOT, drain, nodes_on, path, soon};

async fn make(writer: &Session, parent: &str, numbers: std::ops::Range<usize>, data: &str) {
    for number in numbers {
        let path = format!("{parent}/{number:03}");
        writer.create(path, data).parents().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_beyond_the_limit_of_a_cache_are_left_out_until_there_is_room() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    for parent in ["/t/a", "/t/b", "/t/c"] {
        make(&writer, parent, 0..20, "0").await;
    }
    let options = CacheOptions::default().with_max_nodes(32);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let mut events = cache.events();
    let snapshot = soon("it loads", cache.synchronized()).await.unwrap();
    assert_eq!(snapshot.len(), 32);
    let partial: Vec<_> = snapshot.partial_reads().collect();
    let reason = PartialRead::TooManyNodes { limit: 32 };
    let (b, c) = (path("/t/b"), path("/t/c"));
    assert_eq!(partial, [(&b, reason), (&c, reason)]);
    let text = reason.to_string();
    assert!(
        text.contains("32 nodes") && text.contains("`with_max_nodes`"),
        "{text}"
    );
    // What is cached stays up to date, and what is new does not fit.
    drain(&mut events).await;
    writer.set("/t/a/007", "1").await.unwrap();
    make(&writer, "/t/a", 20..40, "0").await;
    let all = drain(&mut events).await;
    assert_eq!(all[0], "~ /t/a/007 0 -> 1");
    assert!(
        all.len() == 2 && all[1].starts_with("! /t/a: the cache has 32 nodes"),
        "{all:?}"
    );
    assert_eq!(cache.snapshot().len(), 32);
    // After a connection loss it is the same, and not reported again.
    ensemble.session(session.id()).cut();
    let all = drain(&mut events).await;
    assert_eq!(all, ["stale", "synchronized"]);
    // A list of the children is not sent each time when there is no room for them.
    let before = ensemble.request_count();
    writer.set("/t/b", "1").await.unwrap();
    drain(&mut events).await;
    let sent = ensemble.request_count() - before;
    assert!(sent <= 4, "{sent} requests for a change of a node");
    for number in 20..40 {
        writer.delete(format!("/t/a/{number:03}")).await.unwrap();
    }
    drain(&mut events).await;
    assert!(
        cache
            .snapshot()
            .partial_reads()
            .all(|(path, _)| *path != self::path("/t/a"))
    );
    for number in 5..20 {
        writer.delete(format!("/t/a/{number:03}")).await.unwrap();
    }
    drain(&mut events).await;
    assert_eq!(cache.snapshot().len(), 32, "there was room");
    for parent in ["/t/b", "/t/c"] {
        for number in 8..20 {
            writer
                .delete(format!("{parent}/{number:03}"))
                .await
                .unwrap();
        }
    }
    drain(&mut events).await;
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.partial_reads().count(), 0);
    assert!(snapshot.is_synchronized() && snapshot.len() == 1 + 3 + 5 + 8 + 8);
    assert_eq!(snapshot.len(), nodes_on(&ensemble, ROOT).len());
}

#[tokio::test(start_paused = true)]
async fn data_beyond_the_limit_of_a_cache_is_left_out_until_there_is_room() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, ROOT, 0..8, &"x".repeat(1000)).await;
    let options = CacheOptions::default().with_max_bytes(10_000);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let mut events = cache.events();
    drain(&mut events).await;
    assert_eq!(
        (
            cache.snapshot().len(),
            cache.snapshot().partial_reads().count()
        ),
        (9, 0)
    );
    // Known nodes that grow are kept as they were, and there is room for one of the new ones.
    for number in 0..8 {
        writer
            .set(format!("/t/{number:03}"), "y".repeat(4000))
            .await
            .unwrap();
    }
    make(&writer, ROOT, 8..30, &"x".repeat(1000)).await;
    drain(&mut events).await;
    let snapshot = cache.snapshot();
    let bytes: usize = snapshot
        .nodes()
        .map(|node| node.data().unwrap().len())
        .sum();
    assert!(snapshot.is_synchronized() && bytes == 9000, "{bytes} bytes");
    let reason = PartialRead::TooManyBytes { limit: 10_000 };
    let text = reason.to_string();
    assert!(
        text.contains("10000 bytes") && text.contains("`with_max_bytes`"),
        "{text}"
    );
    let partial = |path: &str| {
        cache
            .snapshot()
            .partial_reads()
            .any(|it| it == (&path.parse().unwrap(), reason))
    };
    assert!(partial(ROOT) && partial("/t/000") && partial("/t/007"));
    // A smaller value needs no room, and makes some.
    writer.set("/t/000", "z").await.unwrap();
    for number in 1..30 {
        if number != 7 {
            writer.delete(format!("/t/{number:03}")).await.unwrap();
        }
    }
    drain(&mut events).await;
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.partial_reads().count(), 0);
    assert_eq!(snapshot.get("/t/000").unwrap().data(), Some(&b"z"[..]));
    assert_eq!(snapshot.get("/t/007").unwrap().data().unwrap().len(), 4000);
}

#[tokio::test(start_paused = true)]
async fn names_beyond_the_limit_of_a_cache_are_left_out_until_there_is_room() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, ROOT, 0..20, "0").await;
    let options = CacheOptions::default()
        .with_content(Content::NamesOnly)
        .with_max_nodes(17);
    let cache = ChildrenCache::start_with(&session, ROOT, &options).unwrap();
    let mut events = cache.events();
    drain(&mut events).await;
    let partial = || cache.snapshot().partial_reads().next().map(|(_, it)| it);
    assert_eq!(
        (cache.names().len(), partial()),
        (16, Some(PartialRead::TooManyNodes { limit: 17 }))
    );
    for number in 0..10 {
        writer.delete(format!("/t/{number:03}")).await.unwrap();
    }
    drain(&mut events).await;
    assert_eq!((cache.names().len(), partial()), (10, None));
}
