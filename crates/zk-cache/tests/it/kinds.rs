//! A cache of one node, of the children of one, and of a part of a subtree, on a real server.

use zk_cache::{
    CacheOptions, CacheState, ChildrenCache, Content, Events, NodeCache, Select, TreeCache,
};
use zk_core::Session;
use zk_fault_proxy::{Clients, Close, Match, Route};
use zk_harness::{DataStore, Ensemble};

use crate::words::in_words;
use crate::{connect, soon};

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_cache_reports_exactly_its_nodes() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .proxied(true)
        .start();
    let ensemble = ensemble.await.expect("a server starts");
    tokio::join!(
        node_cache_reports_a_node_created_later(&ensemble),
        children_cache_starts_in_each_of_three_ways(&ensemble),
        tree_cache_reads_what_is_selected(&ensemble),
        names_alone_follow_the_names(&ensemble),
    );
    ensemble.down().await.expect("the server goes down");
}

async fn node_cache_reports_a_node_created_later(ensemble: &Ensemble) {
    let (session, writer) = (connect(ensemble).await, connect(ensemble).await);
    let cache = NodeCache::start(&session, "/node/a").unwrap();
    let mut events = cache.events();
    assert_eq!(next_events(&mut events, 1).await, ["synchronized"]);
    assert_eq!(
        (cache.node(), cache.state()),
        (None, CacheState::Synchronized)
    );
    make(&writer, &["/node/a", "/node/a/below"]).await;
    assert_eq!(next_events(&mut events, 1).await, ["+ /node/a 0"]);
    writer.set("/node/a/below", "1").await.unwrap();
    writer.set("/node/a", "1").await.unwrap();
    assert_eq!(next_events(&mut events, 1).await, ["~ /node/a 0 -> 1"]);
    assert_eq!(cache.node().unwrap().data(), Some(&b"1"[..]));
    writer.delete("/node/a").recursive().await.unwrap();
    assert_eq!(next_events(&mut events, 1).await, ["- /node/a 1"]);
    assert_eq!(cache.node(), None);
    make(&writer, &["/node/a"]).await;
    assert_eq!(next_events(&mut events, 1).await, ["+ /node/a 0"]);

    // The node is replaced while the cache is cut off.
    cut_off(ensemble, &session).await;
    assert_eq!(next_events(&mut events, 1).await, ["stale"]);
    writer.delete("/node/a").await.unwrap();
    make(&writer, &["/node/a"]).await;
    heal(ensemble, &session);
    assert_eq!(
        next_events(&mut events, 3).await,
        ["- /node/a 0", "+ /node/a 0", "synchronized"]
    );
    ensemble.expire(session.id().as_i64()).await.unwrap();
    until(&mut events, "ended: the session is over").await;
}

/// The watch covers the node and its children alone.
async fn names_alone_follow_the_names(ensemble: &Ensemble) {
    let (session, writer) = (connect(ensemble).await, connect(ensemble).await);
    make(&writer, &["/names/a", "/names/b/below"]).await;
    let options = CacheOptions::default().with_content(Content::NamesOnly);
    let cache = ChildrenCache::start_with(&session, "/names", &options).unwrap();
    let mut events = cache.events();
    until(&mut events, "synchronized").await;
    assert_eq!(cache.names(), ["a", "b"]);
    writer.set("/names/a", "1").await.unwrap();
    make(&writer, &["/names/b/more", "/names/c"]).await;
    assert_eq!(next_events(&mut events, 1).await, ["+ /names/c nothing"]);
    writer.delete("/names/b").recursive().await.unwrap();
    assert_eq!(next_events(&mut events, 1).await, ["- /names/b nothing"]);
    cut_off(ensemble, &session).await;
    assert_eq!(next_events(&mut events, 1).await, ["stale"]);
    writer.delete("/names/a").await.unwrap();
    make(&writer, &["/names/d"]).await;
    heal(ensemble, &session);
    assert_eq!(
        next_events(&mut events, 3).await,
        ["- /names/a nothing", "+ /names/d nothing", "synchronized"]
    );
    assert_eq!(cache.names(), ["c", "d"]);
}

/// Events from the first load on, events after a completed load, and a late consumer.
async fn children_cache_starts_in_each_of_three_ways(ensemble: &Ensemble) {
    let (session, writer) = (connect(ensemble).await, connect(ensemble).await);
    make(&writer, &["/kids/a", "/kids/b", "/kids/b/below"]).await;
    let cache = ChildrenCache::start(&session, "/kids").unwrap();
    let mut from_the_beginning = cache.events();
    let built = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let mut from_there = cache.events_since(&built);
    let names = || -> Vec<String> {
        let children = cache.children();
        let names = children.iter().filter_map(|child| child.name());
        names.map(str::to_owned).collect()
    };
    assert_eq!(names(), ["a", "b"]);
    assert_eq!(
        next_events(&mut from_the_beginning, 4).await,
        ["+ /kids ", "+ /kids/a 0", "+ /kids/b 0", "synchronized"]
    );
    make(&writer, &["/kids/c", "/kids/c/below"]).await;
    writer.set("/kids/a", "1").await.unwrap();
    writer.set("/kids/b/below", "1").await.unwrap();
    writer.delete("/kids/b").recursive().await.unwrap();
    for events in [&mut from_the_beginning, &mut from_there] {
        let mut changes = Vec::new();
        while changes.len() < 3 {
            let event = next_events(events, 1).await.remove(0);
            // Each consumer receives `synchronized` once.
            changes.extend((event != "synchronized").then_some(event));
        }
        // Changes found by one resynchronisation come in its order.
        changes.sort_unstable();
        assert_eq!(changes, ["+ /kids/c 0", "- /kids/b 0", "~ /kids/a 0 -> 1"]);
    }
    assert_eq!(names(), ["a", "c"]);
    assert_eq!(cache.child("a").unwrap().data(), Some(&b"1"[..]));
    assert_eq!((cache.child("b"), cache.child("")), (None, None));
    assert_eq!(
        next_events(&mut cache.events(), 4).await,
        ["+ /kids ", "+ /kids/a 1", "+ /kids/c 0", "synchronized"],
        "a late consumer receives the contents of now"
    );

    cut_off(ensemble, &session).await;
    assert_eq!(next_events(&mut from_there, 1).await, ["stale"]);
    writer.delete("/kids/c").recursive().await.unwrap();
    make(&writer, &["/kids/d"]).await;
    heal(ensemble, &session);
    let mut received = until(&mut from_there, "synchronized").await;
    received.sort_unstable();
    assert_eq!(received, ["+ /kids/d 0", "- /kids/c 0", "synchronized"]);
    assert_eq!(names(), ["a", "d"]);
    ensemble.expire(session.id().as_i64()).await.unwrap();
    until(&mut from_there, "ended: the session is over").await;
}

async fn tree_cache_reads_what_is_selected(ensemble: &Ensemble) {
    let (session, writer) = (connect(ensemble).await, connect(ensemble).await);
    make(&writer, &["/t/a/b/c", "/t/skip/b", "/t/alone/b", "/tt"]).await;
    let options = CacheOptions::default()
        .with_max_depth(2)
        .with_selector(|path| match path.name() {
            Some("skip") => Select::Skip,
            Some("alone") => Select::KeepAlone,
            _ => Select::Keep,
        });
    let cache = TreeCache::start_with(&session, "/t", &options).unwrap();
    let snapshot = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    assert_eq!(shown(&cache), ["/t", "/t/a", "/t/a/b", "/t/alone"]);

    // Nodes outside the selection change before the one change that is reported.
    let mut events = cache.events_since(&snapshot);
    make(&writer, &["/t/a/b/d", "/t/skip/c", "/t/alone/c"]).await;
    for path in ["/t/a/b/c", "/t/skip", "/t/skip/b", "/t/alone/b", "/tt"] {
        writer.set(path, "1").await.unwrap();
    }
    make(&writer, &["/t/a/c"]).await;
    let received = until(&mut events, "+ /t/a/c 0").await;
    let received: Vec<_> = received
        .iter()
        .filter(|event| *event != "synchronized")
        .collect();
    assert_eq!(received, ["+ /t/a/c 0"]);

    // The same holds for changes found after an outage.
    cut_off(ensemble, &session).await;
    until(&mut events, "stale").await;
    writer.delete("/t/a/b").recursive().await.unwrap();
    make(&writer, &["/t/new/alone/b", "/t/new/skip/b"]).await;
    heal(ensemble, &session);
    let mut received = until(&mut events, "synchronized").await;
    received.sort_unstable();
    assert_eq!(
        received,
        ["+ /t/new ", "+ /t/new/alone ", "- /t/a/b ", "synchronized"]
    );
    assert_eq!(
        shown(&cache),
        ["/t", "/t/a", "/t/a/c", "/t/alone", "/t/new", "/t/new/alone"]
    );

    let log = ensemble.proxy().unwrap().log();
    let reads = Match::requests().session(session.id().as_i64());
    let count = |path: &str| log.count(&reads.clone().path(path));
    assert!(count("/t/alone") > 0 && count("/t/a/c") > 0);
    for path in ["/t/a/b/c", "/t/skip", "/t/alone/b", "/t/new/skip", "/tt"] {
        assert_eq!(count(path), 0, "{path} was read");
    }
}

async fn make(session: &Session, paths: &[&str]) {
    for path in paths {
        session.create(*path, "0").parents().await.unwrap();
    }
}

fn shown(cache: &TreeCache) -> Vec<String> {
    let snapshot = cache.snapshot();
    let paths = snapshot.nodes().map(|node| node.path().to_string());
    paths.collect()
}

/// Waits for the next `count` events.
async fn next_events(events: &mut Events, count: usize) -> Vec<String> {
    let mut received = Vec::new();
    while received.len() < count {
        let what = format!("an event after {received:?}");
        let event = soon(&what, events.next()).await;
        received.push(in_words(&event.expect("the events have not ended")));
    }
    received
}

/// Waits for the events up to `last`, inclusive.
async fn until(events: &mut Events, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    while all.last().is_none_or(|event| event != last) {
        all.extend(next_events(events, 1).await);
    }
    all
}

/// Cuts the connection of a session and lets it find no server until it is healed.
async fn cut_off(ensemble: &Ensemble, session: &Session) {
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let its = Clients::Session(session.id().as_i64());
    proxy.route(its, Route::Refuse).expect("the route is set");
    assert_eq!(proxy.cut(its, Close::Rst).await, 1);
}

fn heal(ensemble: &Ensemble, session: &Session) {
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let its = Clients::Session(session.id().as_i64());
    proxy
        .route(its, Route::SameServer)
        .expect("the route is set");
}
