//! Caches without faults.

use std::time::Duration;

use zk_cache::{
    CacheEnd, CacheOptions, CacheState, ChildrenCache, Content, Event, Node, NodeCache,
    PartialRead, Select, Snapshot, TreeCache,
};
use zk_core::{Acl, AclEntry, ErrorKind, Permissions, Session};
use zk_sim::Ensemble;
use zk_sim::matching::paths;

use crate::replay::nodes_of;
use crate::{ROOT, drain, nodes_on, pass, path, soon, until, until_synchronized};

async fn make(session: &Session, paths: &[&str]) {
    for path in paths {
        session.create(*path, "0").parents().await.unwrap();
    }
}

fn shown(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes().map(Node::path).collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_cache_reports_each_creation_change_and_deletion() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let cache = NodeCache::start(&session, "/t/a").unwrap();
    let mut events = cache.events();
    assert_eq!(drain(&mut events).await, ["synchronized"]);
    assert_eq!(cache.node(), None);
    make(&writer, &["/t/a", "/t/a/below"]).await;
    assert_eq!(drain(&mut events).await, ["+ /t/a 0"]);
    writer.set("/t/a", "1").await.unwrap();
    writer.set("/t/a/below", "1").await.unwrap();
    assert_eq!(drain(&mut events).await, ["~ /t/a 0 -> 1"]);
    assert_eq!(cache.node().unwrap().data(), Some(&b"1"[..]));
    writer.delete("/t").recursive().await.unwrap();
    assert_eq!(drain(&mut events).await, ["- /t/a 1"]);
    assert_eq!(
        (cache.node(), cache.state()),
        (None, CacheState::Synchronized)
    );
    make(&writer, &["/t/a"]).await;
    assert_eq!(drain(&mut events).await, ["+ /t/a 0"]);
}

/// The three ways to start: events from the first load on, events after a completed load, and a late consumer.
#[tokio::test(start_paused = true)]
async fn children_are_reported_from_the_start_or_from_a_snapshot() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/b", "/t/b/below"]).await;
    let cache = ChildrenCache::start(&session, ROOT).unwrap();
    assert_eq!(cache.state(), CacheState::Loading);
    let mut from_the_beginning = cache.events();
    let built = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let mut from_there = cache.events_since(&built);
    let names = |cache: &ChildrenCache| {
        let children = cache.children();
        let names = children
            .iter()
            .filter_map(|child| child.name().map(str::to_owned));
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&cache), ["a", "b"]);
    assert_eq!(
        drain(&mut from_the_beginning).await,
        ["+ /t ", "+ /t/a 0", "+ /t/b 0", "synchronized"]
    );
    make(&writer, &["/t/c", "/t/c/below"]).await;
    writer.set("/t/a", "1").await.unwrap();
    writer.set("/t/b/below", "1").await.unwrap();
    writer.delete("/t/b").recursive().await.unwrap();
    let happened = ["+ /t/c 0", "~ /t/a 0 -> 1", "- /t/b 0"];
    assert_eq!(drain(&mut from_the_beginning).await, happened);
    let mut since = drain(&mut from_there).await;
    // Each consumer receives `synchronized` once.
    since.retain(|event| event != "synchronized");
    assert_eq!(since, happened);
    assert_eq!(names(&cache), ["a", "c"]);
    assert_eq!(cache.child("a").unwrap().data(), Some(&b"1"[..]));
    assert_eq!((cache.child("b"), cache.child("")), (None, None));
    assert_eq!(cache.parent().unwrap().path(), ROOT);
    // A late consumer receives the contents of now.
    let late = drain(&mut cache.events()).await;
    assert_eq!(late, ["+ /t ", "+ /t/a 1", "+ /t/c 0", "synchronized"]);
}

#[tokio::test(start_paused = true)]
async fn only_selected_nodes_are_read_and_reported() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a/b/c", "/t/skip/b", "/t/alone/b", "/tt"]).await;
    let options = CacheOptions::default()
        .with_max_depth(2)
        .with_selector(|path| match path.name() {
            Some("skip") => Select::Skip,
            Some("alone") => Select::KeepAlone,
            _ => Select::Keep,
        });
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    assert_eq!(shown(&snapshot), ["/t", "/t/a", "/t/a/b", "/t/alone"]);
    let asked = ensemble.requests();
    let is_for = |unwanted: &str| {
        asked.iter().any(|seen| {
            let mut paths = paths(&seen.request).into_iter();
            seen.session == session.id() && paths.any(|path| path.as_str() == unwanted)
        })
    };
    for unwanted in ["/t/a/b/c", "/t/skip", "/t/skip/b", "/t/alone/b", "/tt"] {
        assert!(!is_for(unwanted), "{unwanted} was read");
    }
    assert!(is_for("/t/alone"));
    let mut events = cache.events_since(&snapshot);
    make(
        &writer,
        &[
            "/t/a/b/d",
            "/t/skip/c",
            "/t/alone/c",
            "/t/a/c",
            "/t/new/alone/b",
        ],
    )
    .await;
    let mut all = drain(&mut events).await;
    all.retain(|event| event != "synchronized");
    assert_eq!(all, ["+ /t/a/c 0", "+ /t/new ", "+ /t/new/alone "]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_never_changes_and_reads_send_no_request() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/b"]).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let before = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let there = nodes_on(&ensemble, ROOT);
    assert_eq!(before.synced_at(), Some(ensemble.zxid()));
    let (_, newest) = {
        writer.delete("/t/a").await.unwrap();
        writer.create("/t/c", "").await.unwrap()
    };
    pass(Duration::from_secs(1)).await;
    let asked = ensemble.request_count();
    let after = cache.snapshot();
    assert_eq!(nodes_of(&before), there);
    assert_eq!(nodes_of(&after), nodes_on(&ensemble, ROOT));
    assert_eq!(after.synced_at(), Some(newest.czxid));
    assert_eq!(after.len(), 3);
    assert!(cache.get("/t/c").is_some() && cache.get("/t/a").is_none());
    let children: Vec<_> = after
        .children(ROOT)
        .filter_map(|node| node.name())
        .collect();
    assert_eq!(children, ["b", "c"]);
    assert_eq!(ensemble.request_count(), asked);
    let difference: Vec<_> = after.since(&before).iter().map(crate::in_words).collect();
    assert_eq!(difference, ["- /t/a 0", "+ /t/c "]);
}

#[tokio::test(start_paused = true)]
async fn stat_only_keeps_the_stat_and_reads_no_data() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a"]).await;
    let options = CacheOptions::default().with_content(Content::StatOnly);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let mut events = cache.events_since(&snapshot);
    writer.set("/t/a", "12345").await.unwrap();
    let changed = until("the change is reported", &mut events, |event| {
        matches!(event, Event::Changed { .. })
    });
    let Event::Changed { new, .. } = changed.await else {
        panic!("it is a change")
    };
    assert_eq!(
        (new.data(), new.stat().data_length, new.stat().version),
        (None, 5, 1)
    );
    let reads =
        ensemble.arrived(|request| matches!(request, zk_core::transport::Request::GetData { .. }));
    assert_eq!(reads, 0, "data was read");
}

#[tokio::test(start_paused = true)]
async fn a_root_that_is_created_again_is_cached_with_its_subtree() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    assert_eq!(drain(&mut events).await, ["synchronized"]);
    for _ in 0..3 {
        make(&writer, &["/t/a/b"]).await;
        assert_eq!(drain(&mut events).await, ["+ /t ", "+ /t/a ", "+ /t/a/b 0"]);
        writer.delete(ROOT).recursive().await.unwrap();
        assert_eq!(drain(&mut events).await, ["- /t/a/b 0", "- /t/a ", "- /t "]);
        assert!(cache.snapshot().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_consumer_receives_the_difference_and_blocks_nothing() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/b", "/t/c"]).await;
    let options = CacheOptions::default().with_event_buffer(1);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let mut slow = cache.events_since(&snapshot);
    assert_eq!(drain(&mut slow).await, ["synchronized"]);
    for number in 1..=20 {
        writer.set("/t/a", number.to_string()).await.unwrap();
        pass(Duration::from_millis(50)).await;
        assert_eq!(
            cache.get("/t/a").unwrap().data(),
            Some(number.to_string().as_bytes())
        );
    }
    writer.delete("/t/b").await.unwrap();
    make(&writer, &["/t/gone", "/t/d"]).await;
    writer.delete("/t/gone").await.unwrap();
    writer.delete("/t/c").await.unwrap();
    make(&writer, &["/t/c"]).await;
    pass(Duration::from_secs(1)).await;
    assert_eq!(
        drain(&mut slow).await,
        [
            "- /t/c 0",
            "- /t/b 0",
            "~ /t/a 0 -> 20",
            "+ /t/c 0",
            "+ /t/d 0"
        ]
    );
    writer.set("/t/a", "21").await.unwrap();
    assert_eq!(drain(&mut slow).await, ["~ /t/a 20 -> 21"]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_consumer_does_not_keep_all_past_data() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a"]).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let mut forgotten = cache.events_since(&snapshot);
    assert_eq!(drain(&mut forgotten).await, ["synchronized"]);
    // 30 MB, in less than a hundred batches.
    for number in 0..60 {
        writer.set("/t/a", vec![number; 500_000]).await.unwrap();
        pass(Duration::from_millis(50)).await;
    }
    let events = drain(&mut forgotten).await;
    assert_eq!(events.len(), 1, "the difference, not each change");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_node_is_reported_and_the_rest_is_cached() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/secret/below", "/t/z"]).await;
    writer
        .set_acl(
            "/t/secret",
            Acl::new([AclEntry::new(Permissions::CREATE, "world", "anyone")]),
        )
        .await
        .unwrap();
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    assert_eq!(shown(&snapshot), ["/t", "/t/a", "/t/z"]);
    let partial: Vec<_> = snapshot
        .partial_reads()
        .map(|(path, partial)| (path.to_string(), partial))
        .collect();
    assert_eq!(
        partial,
        [("/t/secret".to_owned(), PartialRead::Node(ErrorKind::NoAuth))]
    );
    let mut events = cache.events();
    until("it is reported", &mut events, |event| {
        matches!(event, Event::Incomplete { .. })
    })
    .await;
    writer.set("/t/z", "1").await.unwrap();
    let last = drain(&mut events).await;
    assert_eq!(last.last().unwrap(), "~ /t/z 0 -> 1");
}

#[tokio::test(start_paused = true)]
async fn others_on_the_session_wait_for_at_most_a_window_of_reads() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    for number in 0..2000 {
        session
            .create(format!("/t/{number}"), "")
            .parents()
            .await
            .unwrap();
    }
    let window = 20;
    let options = CacheOptions::default().with_window(window);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let mut between = Vec::new();
    while !cache.snapshot().is_synchronized() {
        let before = ensemble.request_count();
        soon("it is answered", session.exists("/t").into_future())
            .await
            .unwrap();
        between.push(ensemble.request_count() - before);
    }
    let most = between.iter().max().unwrap();
    assert!(between.len() > 20, "{between:?}");
    assert!(
        *most <= 4 * window,
        "{most} requests came between: {between:?}"
    );
    assert_eq!(cache.snapshot().len(), 2001);
}

#[tokio::test(start_paused = true)]
async fn a_cache_in_a_namespace_has_relative_paths() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    make(&session, &["/space/t/a"]).await;
    let inside = session.with_namespace("/space").unwrap();
    let cache = TreeCache::start(&inside, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    assert_eq!(shown(&cache.snapshot()), ["/t", "/t/a"]);
    session.set("/space/t/a", "1").await.unwrap();
    assert_eq!(drain(&mut events).await, ["~ /t/a 0 -> 1"]);
    assert!(
        TreeCache::start(&session, "t")
            .unwrap_err()
            .to_string()
            .contains("write \"/t\"")
    );
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_read_by_text_and_in_the_order_of_paths() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    make(
        &session,
        &["/t/a/1/x", "/t/a/2", "/t/a-b", "/t/a.b/1", "/t/b"],
    )
    .await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    for there in ["/t", "/t/a/1/x", "/t/a-b"] {
        assert_eq!(snapshot.get(there).unwrap().path(), there);
        assert_eq!(snapshot.get(path(there)), snapshot.get(there));
        assert_eq!(cache.get(there).as_ref(), snapshot.get(there));
    }
    for not_there in ["/t/c", "", "/", "t", "/t/", "/t//a", "/t/a/../b"] {
        assert_eq!(snapshot.get(not_there), None, "{not_there}");
        assert_eq!(cache.get(not_there), None, "{not_there}");
        assert_eq!(snapshot.children(not_there).count(), 0, "{not_there}");
        assert_eq!(snapshot.subtree(not_there).count(), 0, "{not_there}");
    }
    let subtree = |root: &str| snapshot.subtree(root).map(Node::path).collect::<Vec<_>>();
    assert_eq!(subtree("/t/a"), ["/t/a", "/t/a/1", "/t/a/1/x", "/t/a/2"]);
    assert_eq!(subtree("/t/b"), ["/t/b"]);
    assert_eq!(subtree(ROOT), shown(&snapshot));
    assert_eq!(
        subtree(ROOT)[4..],
        ["/t/a/2", "/t/a-b", "/t/a.b", "/t/a.b/1", "/t/b"]
    );
    // The root of the tree, whose path ends with a slash.
    let all = TreeCache::start(&session, "/").unwrap();
    let all = soon("the load is complete", all.synchronized())
        .await
        .unwrap();
    assert_eq!(all.get("/").unwrap().path(), "/");
    assert_eq!(all.subtree("/t").count(), snapshot.len());
    assert!(all.children("/").any(|node| node.path() == ROOT));
}

/// Waits that begin before, during and after the change.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_first_snapshot_for_which_it_holds() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let number = |now: &Snapshot| {
        let data = now.get("/t/a").and_then(Node::data)?;
        str::from_utf8(data).ok()?.parse::<u64>().ok()
    };
    let waiting = |least: u64| {
        let cache = cache.clone();
        async move { cache.wait_for(|now| number(now) >= Some(least)).await }
    };
    let early = tokio::spawn(waiting(1));
    make(&writer, &["/t/a"]).await;
    for value in 1..50 {
        let during = tokio::spawn(waiting(value));
        // Dropped at various moments: nothing happens.
        drop(tokio::time::timeout(Duration::from_millis(value % 4), waiting(value + 1)).await);
        writer.set("/t/a", value.to_string()).await.unwrap();
        let found = soon("it holds", during).await.unwrap().unwrap();
        assert_eq!(number(&found), Some(value));
    }
    let found = soon("it holds", early).await.unwrap().unwrap();
    assert_eq!(number(&found), Some(1));
    let late = soon("it holds already", waiting(49)).await.unwrap();
    assert_eq!(number(&late), Some(49));
}

#[tokio::test(start_paused = true)]
async fn a_wait_survives_a_connection_loss_and_ends_with_the_cache() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a"]).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let waiting = |path: &'static str| {
        let cache = cache.clone();
        tokio::spawn(async move { cache.wait_for(|now| now.get(path).is_some()).await })
    };
    let (there, never) = (waiting("/t/b"), waiting("/t/never"));
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(2));
    pass(Duration::from_secs(1)).await;
    make(&writer, &["/t/b"]).await;
    soon("it holds", there).await.unwrap().unwrap();
    ensemble.expire(session.id());
    let end = soon("the cache ends", never).await.unwrap();
    assert!(matches!(end, Err(CacheEnd::SessionLost)), "{end:?}");
    // Its last contents may be out of date, so that it does not hold for them either.
    let late = soon("it has ended", waiting("/t/b")).await.unwrap();
    assert!(matches!(late, Err(CacheEnd::SessionLost)), "{late:?}");
}
