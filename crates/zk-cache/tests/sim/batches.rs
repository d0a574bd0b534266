//! How many requests a load and a check take, and what happens when nodes cannot be read together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zk_cache::{PartialRead, TreeCache};
use zk_core::transport::{Request, TransportError};
use zk_core::{ErrorKind, Session};
use zk_sim::Ensemble;
use zk_sim::matching::{exists, gets, lists, multi_reads};

use crate::replay::nodes_of;
use crate::{ROOT, nodes_on, pass, soon, until_synchronized};

/// Creates `parents` nodes with `nodes` children of 100 bytes each.
async fn fill(session: &Session, parents: usize, nodes: usize) {
    for parent in 0..parents {
        let parent = format!("{ROOT}/{parent:03}");
        session.create(&*parent, "").parents().await.unwrap();
        let mut transaction = session.transaction();
        for node in 0..nodes {
            transaction = transaction.create(format!("{parent}/{node:03}"), vec![b'x'; 100]);
        }
        transaction.commit().await.unwrap();
    }
}

/// Returns how many multi-reads, reads, checks and lists below the root have arrived.
fn arrived(ensemble: &Ensemble) -> [usize; 4] {
    let below = "/t/**";
    [
        ensemble.arrived(multi_reads(below)),
        ensemble.arrived(gets(below)),
        ensemble.arrived(exists(below)),
        ensemble.arrived(lists(below)),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_load_and_a_check_read_64_nodes_with_one_request() {
    let ensemble = Ensemble::new(1);
    let session = ensemble.connect().await;
    fill(&session, 20, 200).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
    let loaded = arrived(&ensemble);
    let [multi, single, checks, listed] = loaded;
    // 4,020 nodes in 63, and those of the beginning, where few reads are in flight.
    assert!((63..90).contains(&multi), "{multi} multi-reads");
    assert!(single < 10, "{single} single reads");
    assert_eq!((checks, listed), (0, 20));
    ensemble.session(session.id()).cut();
    until_synchronized(&mut events).await;
    let mut checked = arrived(&ensemble);
    for (now, before) in checked.iter_mut().zip(loaded) {
        *now -= before;
    }
    let [multi, single, checks, listed] = checked;
    assert!((63..90).contains(&multi), "{multi} multi-reads");
    assert!(checks < 10, "{checks} single checks");
    assert_eq!((single, listed), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_too_long_is_followed_by_shorter_ones() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    fill(&writer, 1, 200).await;
    let is_long = Arc::new(AtomicBool::new(true));
    let breaks = Arc::clone(&is_long);
    ensemble
        .on(move |request| {
            let is_many = matches!(request, Request::MultiRead(nodes) if nodes.len() > 5);
            is_many && breaks.load(Ordering::SeqCst)
        })
        .every()
        .misreport(too_large());
    let cache = TreeCache::start(&session, ROOT).unwrap();
    soon("it is loaded", cache.synchronized()).await.unwrap();
    assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
    let losses = session.counters().connection_losses;
    assert_eq!(losses, 0, "the connection stays");
    // What is short is read with few requests again, after a load that was complete.
    is_long.store(false, Ordering::SeqCst);
    let before = arrived(&ensemble)[0];
    ensemble.session(session.id()).cut();
    pass(Duration::from_secs(1)).await;
    soon("it is checked", cache.synchronized()).await.unwrap();
    let requests = arrived(&ensemble)[0] - before;
    assert!(requests < 30, "{requests} requests for 200 nodes");
}

fn too_large() -> TransportError {
    TransportError::Unreadable {
        kind: ErrorKind::TooLarge,
        why: "it has 20 MB".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn children_that_no_reply_can_name_are_reported_and_listed_once() {
    let ensemble = Ensemble::new(1);
    let (session, writer) = (ensemble.connect().await, ensemble.connect().await);
    for number in 0..32 {
        let node = format!("{ROOT}/{number:03}");
        writer.create(node, "").parents().await.unwrap();
    }
    let is_it = |request: &Request| matches!(request, Request::GetChildren2 { path, .. } if path.as_str() == ROOT);
    let lists = ensemble.on(is_it).every().misreport(too_large());
    let cache = TreeCache::start(&session, ROOT).unwrap();
    soon("the rest is read", cache.synchronized())
        .await
        .unwrap();
    let snapshot = cache.snapshot();
    let partial: Vec<_> = snapshot
        .partial_reads()
        .map(|(_, partial)| partial)
        .collect();
    let [PartialRead::ChildrenTooLarge { count }] = partial[..] else {
        panic!("{partial:?}");
    };
    assert_eq!(
        (lists.count(), session.counters().connection_losses),
        (1, 0)
    );
    // Each list would be as large.
    for number in 0..20 {
        writer
            .create(format!("{ROOT}/new{number}"), "")
            .await
            .unwrap();
    }
    writer.set(ROOT, "y").await.unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(lists.count(), 1);
    lists.withdraw();
    let names = writer.list(ROOT).await.unwrap().0;
    let fewer = usize::try_from(count - count / 16 - 1).unwrap();
    for name in names.iter().skip(fewer) {
        writer
            .delete(format!("{ROOT}/{name}"))
            .recursive()
            .await
            .unwrap();
    }
    writer.set(ROOT, "z").await.unwrap();
    soon("it is listed", async {
        while cache.snapshot().partial_reads().next().is_some() {
            pass(Duration::from_millis(20)).await;
        }
    })
    .await;
    soon("it is read", cache.synchronized()).await.unwrap();
    assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
}

#[tokio::test(start_paused = true)]
async fn servers_without_multi_reads_are_never_asked_for_one() {
    let ensemble = Ensemble::builder().without_persistent_watches().build();
    let session = ensemble.connect().await;
    fill(&session, 2, 50).await;
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
    ensemble.session(session.id()).cut();
    until_synchronized(&mut events).await;
    assert_eq!(arrived(&ensemble)[0], 0);
}
