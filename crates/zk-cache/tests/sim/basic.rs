//! Caches while nothing goes wrong, or nothing that they do not know how to deal with.

use std::time::Duration;

use zk_cache::CacheOptions;
use zk_cache::ChildrenCache;
use zk_cache::Content;
use zk_cache::Event;
use zk_cache::Gap;
use zk_cache::NodeCache;
use zk_cache::Select;
use zk_cache::Snapshot;
use zk_cache::State;
use zk_cache::TreeCache;
use zk_core::Acl;
use zk_core::AclEntry;
use zk_core::ErrorKind;
use zk_core::Permissions;
use zk_core::Session;
use zk_sim::Ensemble;

use crate::ROOT;
use crate::nodes_on;
use crate::pass;
use crate::path;
use crate::replay::nodes_of;
use crate::soon;
use crate::told;
use crate::until;
use crate::until_synchronized;

async fn make(session: &Session, paths: &[&str]) {
    for path in paths {
        session.create(*path, "0").parents().await.unwrap();
    }
}

fn shown(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.nodes().map(|node| node.path().as_str()).collect()
}

// covers: K1
// against traps T3
#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_there_is_told_when_it_comes_and_goes_and_comes_again() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let cache = NodeCache::start(&session, "/t/a").unwrap();
    let mut events = cache.events();
    assert_eq!(told(&mut events).await, ["synchronized"]);
    assert_eq!(cache.node(), None);
    make(&writer, &["/t/a", "/t/a/below"]).await;
    assert_eq!(told(&mut events).await, ["+ /t/a 0"]);
    writer.set("/t/a", "1").await.unwrap();
    writer.set("/t/a/below", "1").await.unwrap();
    assert_eq!(told(&mut events).await, ["~ /t/a 0 -> 1"]);
    assert_eq!(cache.node().unwrap().data(), Some(&b"1"[..]));
    writer.delete("/t").recursive().await.unwrap();
    assert_eq!(told(&mut events).await, ["- /t/a 1"]);
    assert_eq!((cache.node(), cache.state()), (None, State::Synchronized));
    make(&writer, &["/t/a"]).await;
    assert_eq!(told(&mut events).await, ["+ /t/a 0"]);
}

/// In the background, with everything told from the beginning; built before it is used, with what happens after that
/// told; and in the background with a word when it is built.
// covers: K2
// against traps T5
#[tokio::test(start_paused = true)]
async fn the_children_are_told_from_the_beginning_or_from_where_one_knows_them() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/b", "/t/b/below"]).await;
    let cache = ChildrenCache::start(&session, ROOT).unwrap();
    assert_eq!(cache.state(), State::Loading);
    let mut from_the_beginning = cache.events();
    let built = soon("it is built", cache.synchronized()).await.unwrap();
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
        told(&mut from_the_beginning).await,
        ["+ /t ", "+ /t/a 0", "+ /t/b 0", "synchronized"]
    );
    make(&writer, &["/t/c", "/t/c/below"]).await;
    writer.set("/t/a", "1").await.unwrap();
    writer.set("/t/b/below", "1").await.unwrap();
    writer.delete("/t/b").recursive().await.unwrap();
    let happened = ["+ /t/c 0", "~ /t/a 0 -> 1", "- /t/b 0"];
    assert_eq!(told(&mut from_the_beginning).await, happened);
    let mut since = told(&mut from_there).await;
    // That it is synchronized is told to each once.
    since.retain(|event| event != "synchronized");
    assert_eq!(since, happened);
    assert_eq!(names(&cache), ["a", "c"]);
    assert_eq!(cache.child("a").unwrap().data(), Some(&b"1"[..]));
    assert_eq!((cache.child("b"), cache.child("")), (None, None));
    assert_eq!(cache.parent().unwrap().path(), &path(ROOT));
    // Whoever comes late is told what there is.
    let late = told(&mut cache.events()).await;
    assert_eq!(late, ["+ /t ", "+ /t/a 1", "+ /t/c 0", "synchronized"]);
}

// covers: K3
#[tokio::test(start_paused = true)]
async fn only_what_is_selected_is_read_and_told() {
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
    let snapshot = soon("it is built", cache.synchronized()).await.unwrap();
    assert_eq!(shown(&snapshot), ["/t", "/t/a", "/t/a/b", "/t/alone"]);
    let asked = ensemble.requests();
    let is_for = |unwanted: &str| {
        let named = format!("path: {unwanted:?}");
        asked.iter().any(|seen| {
            seen.session == session.id() && format!("{:?}", seen.request).contains(&named)
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
    let mut all = told(&mut events).await;
    all.retain(|event| event != "synchronized");
    assert_eq!(all, ["+ /t/a/c 0", "+ /t/new ", "+ /t/new/alone "]);
}

// covers: K5
#[tokio::test(start_paused = true)]
async fn a_snapshot_stays_as_it_is_and_reading_asks_nobody() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/b"]).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let before = soon("it is built", cache.synchronized()).await.unwrap();
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
    assert!(cache.get(&path("/t/c")).is_some() && cache.get(&path("/t/a")).is_none());
    let children: Vec<_> = after
        .children(&path(ROOT))
        .filter_map(|node| node.name())
        .collect();
    assert_eq!(children, ["b", "c"]);
    assert_eq!(ensemble.request_count(), asked);
    let difference: Vec<_> = after.since(&before).iter().map(crate::in_words).collect();
    assert_eq!(difference, ["- /t/a 0", "+ /t/c "]);
}

// covers: K3
#[tokio::test(start_paused = true)]
async fn without_data_the_stat_alone_is_kept() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a"]).await;
    let options = CacheOptions::default().with_content(Content::StatOnly);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let snapshot = soon("it is built", cache.synchronized()).await.unwrap();
    let mut events = cache.events_since(&snapshot);
    writer.set("/t/a", "12345").await.unwrap();
    let changed = until("it is told", &mut events, |event| {
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
        ensemble.arrived(|request| matches!(request, zk_core::transport::Request::Get { .. }));
    assert_eq!(reads, 0, "data was read");
}

// against traps T3
#[tokio::test(start_paused = true)]
async fn a_root_that_goes_and_comes_again_is_followed_with_all_below_it() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    assert_eq!(told(&mut events).await, ["synchronized"]);
    for _ in 0..3 {
        make(&writer, &["/t/a/b"]).await;
        assert_eq!(told(&mut events).await, ["+ /t ", "+ /t/a ", "+ /t/a/b 0"]);
        writer.delete(ROOT).recursive().await.unwrap();
        assert_eq!(told(&mut events).await, ["- /t/a/b 0", "- /t/a ", "- /t "]);
        assert!(cache.snapshot().is_empty());
    }
}

// against traps T4 X8
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_far_behind_is_told_the_difference_and_holds_up_nobody() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a", "/t/b", "/t/c"]).await;
    let options = CacheOptions::default().with_event_buffer(1);
    let cache = TreeCache::start_with(&session, ROOT, &options).unwrap();
    let snapshot = soon("it is built", cache.synchronized()).await.unwrap();
    let mut slow = cache.events_since(&snapshot);
    assert_eq!(told(&mut slow).await, ["synchronized"]);
    for number in 1..=20 {
        writer.set("/t/a", number.to_string()).await.unwrap();
        pass(Duration::from_millis(50)).await;
        assert_eq!(
            cache.get(&path("/t/a")).unwrap().data(),
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
        told(&mut slow).await,
        [
            "- /t/c 0",
            "- /t/b 0",
            "~ /t/a 0 -> 20",
            "+ /t/c 0",
            "+ /t/d 0"
        ]
    );
    writer.set("/t/a", "21").await.unwrap();
    assert_eq!(told(&mut slow).await, ["~ /t/a 20 -> 21"]);
}

// against traps T4
#[tokio::test(start_paused = true)]
async fn forgotten_consumer_does_not_keep_all_the_data_there_was() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    make(&writer, &["/t/a"]).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let snapshot = soon("it is built", cache.synchronized()).await.unwrap();
    let mut forgotten = cache.events_since(&snapshot);
    assert_eq!(told(&mut forgotten).await, ["synchronized"]);
    // 30 MB, in less than a hundred rounds.
    for number in 0..60 {
        writer.set("/t/a", vec![number; 500_000]).await.unwrap();
        pass(Duration::from_millis(50)).await;
    }
    let told = told(&mut forgotten).await;
    assert_eq!(told.len(), 1, "the difference, not all that happened");
}

// covers: K3
#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_told_and_the_rest_is_cached() {
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
    let snapshot = soon("it is built", cache.synchronized()).await.unwrap();
    assert_eq!(shown(&snapshot), ["/t", "/t/a", "/t/z"]);
    let gaps: Vec<_> = snapshot
        .gaps()
        .map(|(path, gap)| (path.to_string(), gap))
        .collect();
    assert_eq!(
        gaps,
        [("/t/secret".to_owned(), Gap::Node(ErrorKind::NoAuth))]
    );
    let mut events = cache.events();
    until("it is told", &mut events, |event| {
        matches!(event, Event::Incomplete { .. })
    })
    .await;
    writer.set("/t/z", "1").await.unwrap();
    let last = told(&mut events).await;
    assert_eq!(last.last().unwrap(), "~ /t/z 0 -> 1");
}

/// A load of many nodes is made of many reads, of which a few at a time are on their way.
// covers: K3
#[tokio::test(start_paused = true)]
async fn others_on_the_session_wait_for_a_few_reads_of_a_load_and_not_for_all() {
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
async fn a_cache_in_a_namespace_has_the_paths_of_it() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    make(&session, &["/space/t/a"]).await;
    let inside = session.with_namespace("/space").unwrap();
    let cache = TreeCache::start(&inside, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    assert_eq!(shown(&cache.snapshot()), ["/t", "/t/a"]);
    session.set("/space/t/a", "1").await.unwrap();
    assert_eq!(told(&mut events).await, ["~ /t/a 0 -> 1"]);
    assert!(
        TreeCache::start(&session, "t")
            .unwrap_err()
            .to_string()
            .contains("write \"/t\"")
    );
}
