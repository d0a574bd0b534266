//! Caches that keep the names of the children alone.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use zk_cache::{CacheOptions, ChildrenCache, Content, Event, PartialRead, TreeCache};
use zk_core::transport::Request;
use zk_core::{Acl, AclEntry, Permissions, Stat};
use zk_sim::{Chaos, Check, Ensemble, matching};

use crate::{ROOT, drain, pass, soon};

fn names_only() -> CacheOptions {
    CacheOptions::default().with_content(Content::NamesOnly)
}

/// The names of the children on the leader.
fn names_on(ensemble: &Ensemble) -> Vec<String> {
    let tree = ensemble.tree();
    let children = tree.node(ROOT).map(zk_sim::Node::children);
    let mut names: Vec<_> = children.into_iter().flatten().map(str::to_owned).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn a_changed_name_costs_one_list_and_no_child_is_read() {
    // Servers before 3.6 set the watch by another list.
    let old = Ensemble::builder().without_persistent_watches().build();
    for (ensemble, lists_per_change) in [(Ensemble::new(3), 1), (old, 2)] {
        let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
        for name in ["a", "b", "c/below"] {
            let path = format!("{ROOT}/{name}");
            writer.create(path, "0").parents().await.unwrap();
        }
        // Its names are no secret, but its data is.
        let acl = Acl::new([AclEntry::new(Permissions::DELETE, "world", "anyone")]);
        writer.set_acl("/t/b", acl).await.unwrap();
        let cache = ChildrenCache::start_with(&session, ROOT, &names_only()).unwrap();
        let mut events = cache.events();
        assert_eq!(
            drain(&mut events).await,
            [
                "+ /t nothing",
                "+ /t/a nothing",
                "+ /t/b nothing",
                "+ /t/c nothing",
                "synchronized"
            ]
        );
        assert_eq!(cache.names(), ["a", "b", "c"]);
        let child = cache.child("a").unwrap();
        assert_eq!((child.data(), child.stat()), (None, Stat::default()));
        assert_eq!(cache.parent().unwrap().stat().num_children, 3);

        let reads = |of: fn(&Request) -> bool| {
            let all = ensemble.requests();
            all.iter()
                .filter(|seen| seen.session == session.id() && of(&seen.request))
                .count()
        };
        let lists = || reads(|request| matching::lists(ROOT)(request));
        let others =
            || reads(|request| matching::gets("**")(request) || matching::exists("/t/**")(request));
        let mut listed = lists();
        let before = reads(|_| true);
        for (create, delete, expected) in [
            (Some("/t/d"), None, "+ /t/d nothing"),
            (None, Some("/t/b"), "- /t/b nothing"),
        ] {
            if let Some(path) = create {
                writer.create(path, "0").await.unwrap();
            }
            if let Some(path) = delete {
                writer.delete(path).await.unwrap();
            }
            assert_eq!(drain(&mut events).await, [expected]);
            listed += lists_per_change;
            assert_eq!(lists(), listed);
        }
        if lists_per_change == 1 {
            assert_eq!(reads(|_| true), before + 2, "nothing but two lists");
        }
        // Changes of data and further down cost nothing.
        let before = ensemble.request_count();
        writer.set("/t/a", "1").await.unwrap();
        writer.create("/t/a/below", "1").await.unwrap();
        writer.set("/t/c/below", "1").await.unwrap();
        assert!(drain(&mut events).await.is_empty());
        assert_eq!(ensemble.request_count(), before + 3);
        assert_eq!((lists(), others()), (listed, 0));
        // Changes that arrive together cost at most two lists.
        let mut transaction = writer.transaction();
        for number in 0..20 {
            transaction = transaction.create(format!("{ROOT}/n{number:02}"), "");
        }
        transaction.commit().await.unwrap();
        assert_eq!(drain(&mut events).await.len(), 20);
        assert!(
            lists() <= listed + 2 * lists_per_change,
            "{} lists",
            lists() - listed
        );
        assert_eq!(cache.names(), names_on(&ensemble));
        // The node itself has a stat.
        writer.set(ROOT, "1").await.unwrap();
        assert_eq!(drain(&mut events).await, ["~ /t nothing -> nothing"]);
    }
}

#[tokio::test(start_paused = true)]
async fn names_are_compared_after_a_connection_loss() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    let cache = ChildrenCache::start_with(&session, ROOT, &names_only()).unwrap();
    let mut events = cache.events();
    assert_eq!(drain(&mut events).await, ["synchronized"]);
    for name in ["a", "b"] {
        let path = format!("{ROOT}/{name}");
        writer.create(path, "0").parents().await.unwrap();
    }
    drain(&mut events).await;
    let cut = || {
        ensemble
            .session(session.id())
            .cut_for(Duration::from_secs(2));
    };
    cut();
    assert_eq!(drain(&mut events).await, ["stale", "synchronized"]);
    cut();
    pass(Duration::from_millis(100)).await;
    writer.delete("/t/a").await.unwrap();
    writer.delete("/t/b").await.unwrap();
    // A name that is there again is the same to this cache.
    writer.create("/t/b", "1").await.unwrap();
    writer.create("/t/c", "1").await.unwrap();
    assert_eq!(
        drain(&mut events).await,
        ["stale", "- /t/a nothing", "+ /t/c nothing", "synchronized"]
    );
    // The parent is created again.
    cut();
    pass(Duration::from_millis(100)).await;
    writer.delete(ROOT).recursive().await.unwrap();
    writer.create("/t/b", "1").parents().await.unwrap();
    let mut all = drain(&mut events).await;
    all.sort();
    assert_eq!(
        all,
        [
            "+ /t nothing",
            "+ /t/b nothing",
            "- /t nothing",
            "- /t/b nothing",
            "- /t/c nothing",
            "stale",
            "synchronized"
        ]
    );
    assert_eq!(cache.names(), names_on(&ensemble));
    // The cache of another session goes on.
    let last = cache.snapshot();
    let next = ChildrenCache::resume(&writer, &last, &names_only());
    let mut events = next.events_since(&last);
    writer.create("/t/d", "1").await.unwrap();
    assert_eq!(drain(&mut events).await, ["+ /t/d nothing", "synchronized"]);
}

#[tokio::test(start_paused = true)]
async fn names_beyond_the_limit_are_reported() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    for name in ["a", "b"] {
        let path = format!("{ROOT}/{name}");
        writer.create(path, "0").parents().await.unwrap();
    }
    let options = names_only().with_max_children(2);
    let cache = ChildrenCache::start_with(&session, ROOT, &options).unwrap();
    let mut events = cache.events();
    drain(&mut events).await;
    writer.create("/t/c", "0").await.unwrap();
    writer.create("/t/d", "0").await.unwrap();
    let all = drain(&mut events).await;
    assert!(
        all.len() == 1 && all[0].starts_with("! /t: it has"),
        "{all:?}"
    );
    let partial = || cache.snapshot().partial_reads().next().map(|(_, it)| it);
    let (count, limit) = (4, 2);
    let expected = PartialRead::TooManyChildren { count, limit };
    assert_eq!(partial(), Some(expected));
    assert_eq!(cache.names(), ["a", "b"]);
    writer.delete("/t/a").await.unwrap();
    writer.delete("/t/b").await.unwrap();
    drain(&mut events).await;
    assert_eq!((cache.names(), partial()), (names_on(&ensemble), None));
}

/// Other caches than those of children have no names alone.
#[tokio::test(start_paused = true)]
async fn names_only_of_a_deeper_tree_keeps_the_stats() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    session.create("/t/a/b", "0").parents().await.unwrap();
    let tree = TreeCache::start_with(&session, ROOT, &names_only()).unwrap();
    let tree = soon("it loads", tree.synchronized()).await.unwrap();
    assert_eq!(tree.get("/t/a/b").unwrap().stat().data_length, 1);
    let flat = names_only().with_max_depth(1);
    let flat = TreeCache::start_with(&session, ROOT, &flat).unwrap();
    let flat = soon("it loads", flat.synchronized()).await.unwrap();
    assert_eq!(flat.get("/t/a").unwrap().stat(), Stat::default());
    assert_eq!(flat.len(), 2);
}

#[test]
fn names_are_those_of_the_ensemble_after_chaos() {
    let seen = Cell::new(0);
    let checked = Check::new(0..150)
        .seeds_from_env()
        .run(async |ensemble: Ensemble, seed| {
            let sessions = ensemble.open_sessions();
            let cache = ChildrenCache::start_with(&sessions, ROOT, &names_only()).unwrap();
            let mut events = cache.events();
            let mut random = fastrand::Rng::with_seed(seed);
            let chaos = Chaos::default()
                .lasting(Duration::from_secs(3))
                .every(Duration::from_millis(150));
            let disturbing = tokio::spawn(chaos.run(&ensemble));
            let writing = {
                let ensemble = ensemble.clone();
                let mut random = random.fork();
                tokio::spawn(async move {
                    let mut session = ensemble.connect().await;
                    for _ in 0..60 {
                        if session.state().is_lost() {
                            session = ensemble.connect().await;
                        }
                        let path = format!("{ROOT}/{}", random.u8(0..5));
                        match random.u8(0..12) {
                            0 => drop(session.delete(ROOT).recursive().await),
                            1..5 => drop(session.delete(path).recursive().await),
                            5 => drop(session.set(ROOT, "x").await),
                            _ => drop(session.create(path, "").parents().await),
                        }
                        pass(Duration::from_millis(random.u64(0..100))).await;
                    }
                })
            };
            let mut names = BTreeSet::new();
            let mut apply = |event: Event| match event {
                Event::Created(node) => assert!(names.insert(node.path().to_owned()), "{node:?}"),
                Event::Deleted(node) => assert!(names.remove(node.path()), "{node:?}"),
                Event::Changed { new, .. } => assert_eq!(new.path(), ROOT),
                _ => {}
            };
            while !(disturbing.is_finished() && writing.is_finished()) {
                let wait = Duration::from_millis(random.u64(0..300));
                if let Ok(event) = tokio::time::timeout(wait, events.next()).await {
                    apply(event.expect("it goes on"));
                    seen.set(seen.get() + 1);
                }
            }
            disturbing.await.unwrap();
            writing.await.unwrap();
            ensemble.heal();
            soon("the names are those of the ensemble", async {
                while !cache.snapshot().is_synchronized() || cache.names() != names_on(&ensemble) {
                    pass(Duration::from_millis(100)).await;
                }
            })
            .await;
            pass(Duration::from_secs(5)).await;
            assert_eq!(cache.names(), names_on(&ensemble), "seed {seed}");
            while let Ok(event) = tokio::time::timeout(Duration::from_secs(1), events.next()).await
            {
                apply(event.expect("it goes on"));
            }
            let snapshot = cache.snapshot();
            let cached: BTreeSet<_> = snapshot
                .nodes()
                .map(|node| node.path().to_owned())
                .collect();
            assert_eq!(names, cached, "seed {seed}");
        });
    assert!(
        checked.seeds == 1 || seen.get() > 20 * checked.seeds,
        "{}",
        seen.get()
    );
}
