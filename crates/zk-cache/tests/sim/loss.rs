//! Lost connections and lost sessions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_cache::{CacheEnd, CacheOptions, CacheState, Event, NodeCache, Snapshot, TreeCache};
use zk_core::transport::{Request, TransportError};
use zk_core::{ConnectionState, ErrorClass, ErrorKind, Session, SessionEnd};
use zk_sim::Ensemble;
use zk_sim::matching::gets;
use zk_testkit::sim::lose;

use crate::replay::{Replay, nodes_of};
use crate::{ROOT, drain, in_words, nodes_on, pass, soon, until_synchronized};

async fn create_tree(ensemble: &Ensemble) -> Session {
    let writer = ensemble.connect().await;
    for path in ["/t/a/1", "/t/b/1", "/t/c", "/t/d/1"] {
        writer.create(path, "0").parents().await.unwrap();
    }
    writer
}

/// Every kind of change, some of which leave the versions as they were.
async fn change(writer: &Session) {
    writer.delete("/t/a").recursive().await.unwrap();
    writer.create("/t/a/1", "0").parents().await.unwrap();
    writer.delete("/t/b/1").await.unwrap();
    writer.set("/t/c", "1").await.unwrap();
    writer.create("/t/d/2", "0").await.unwrap();
    // Undone before any cache reads it.
    writer.create("/t/e", "0").await.unwrap();
    writer.delete("/t/e").await.unwrap();
}

const DIFFERENCE: [&str; 7] = [
    "+ /t/a ",
    "+ /t/a/1 0",
    "+ /t/d/2 0",
    "- /t/a ",
    "- /t/a/1 0",
    "- /t/b/1 0",
    "~ /t/c 0 -> 1",
];

#[tokio::test(start_paused = true)]
async fn after_a_connection_loss_exactly_the_difference_is_reported() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, create_tree(&ensemble).await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    for round in 0..3 {
        ensemble
            .session(session.id())
            .cut_for(Duration::from_secs(2));
        pass(Duration::from_millis(100)).await;
        assert_eq!(cache.state(), CacheState::Stale);
        change(&writer).await;
        let mut all = drain(&mut events).await;
        assert_eq!(cache.state(), CacheState::Synchronized);
        assert_eq!(all.remove(0), "stale");
        assert_eq!(all.pop().unwrap(), "synchronized");
        all.sort();
        assert_eq!(all, DIFFERENCE, "round {round}");
        // Undone for the next round.
        writer.delete("/t/d/2").await.unwrap();
        writer.create("/t/b/1", "0").await.unwrap();
        writer.set("/t/c", "0").await.unwrap();
        drain(&mut events).await;
    }
    ensemble.session(session.id()).cut();
    assert_eq!(
        drain(&mut events).await,
        ["stale", "synchronized"],
        "nothing changed"
    );
}

/// Such a server refuses `sync`, and may have been cut off for long.
#[tokio::test(start_paused = true)]
async fn a_cache_on_a_read_only_server_is_never_synchronized() {
    let ensemble = Ensemble::builder().read_only().build();
    let writer = create_tree(&ensemble).await;
    ensemble.server(2).stop();
    ensemble.server(3).stop();
    let session = ensemble.connect().allow_read_only().await;
    assert_eq!(session.state(), ConnectionState::ReadOnly);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    let all = drain(&mut events).await;
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all.iter().all(|event| event.starts_with('+')), "{all:?}");
    assert_eq!(cache.state(), CacheState::Loading);
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn a_cache_ends_with_its_session_and_the_next_one_resumes() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, create_tree(&ensemble).await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    let before = nodes_on(&ensemble, ROOT);
    ensemble.expire(session.id());
    let end = soon("it ends", cache.ended()).await;
    assert_eq!(
        (end.class(), end.to_string()),
        (ErrorClass::Fatal, "the session is over".to_owned())
    );
    assert_eq!(
        drain(&mut events).await,
        ["stale", "ended: the session is over"]
    );
    assert!(events.next().await.is_none());
    assert!(matches!(
        cache.synchronized().await,
        Err(CacheEnd::SessionLost)
    ));
    let last = cache.snapshot();
    assert_eq!((last.state(), nodes_of(&last)), (CacheState::Ended, before));

    change(&writer).await;
    let next = ensemble.connect().await;
    let cache = TreeCache::resume(&next, &last, &CacheOptions::default());
    assert_eq!(
        (cache.state(), cache.snapshot().len()),
        (CacheState::Stale, last.len())
    );
    let mut events = cache.events_since(&last);
    let mut all = drain(&mut events).await;
    assert_eq!(all.pop().unwrap(), "synchronized");
    all.sort();
    assert_eq!(all, DIFFERENCE);
    assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
    // A cache whose session is lost before it has read anything.
    let third = ensemble.connect().await;
    let cache = TreeCache::resume(&third, &cache.snapshot(), &CacheOptions::default());
    let mut events = cache.events_since(&last);
    ensemble.session(third.id()).partition();
    ensemble.expire(third.id());
    let all = soon("it ends", async {
        let mut all = Vec::new();
        while let Some(event) = events.next().await {
            all.push(in_words(&event));
        }
        all
    });
    assert_eq!(all.await.last().unwrap(), "ended: the session is over");
}

/// The session is lost while the process is cut off.
#[tokio::test(start_paused = true)]
async fn a_resumed_cache_reports_the_difference_after_an_outage() {
    let ensemble = Ensemble::new(3);
    let writer = create_tree(&ensemble).await;
    let kept: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let mut replay = Replay::default();
    let mut reported = Vec::new();
    for round in 0..2 {
        let session = ensemble.connect().await;
        let last = kept.lock().unwrap().take();
        let last = last.unwrap_or_else(|| Snapshot::empty(ROOT).unwrap());
        let cache = TreeCache::resume(&session, &last, &CacheOptions::default());
        let mut events = cache.events_since(&last);
        if round == 0 {
            ensemble.session(session.id()).cut();
        }
        soon("all events arrive", async {
            loop {
                let event = events.next().await.expect("the events end with `Ended`");
                replay.play(&event);
                match &event {
                    Event::Synchronized { .. } if round == 1 => return,
                    Event::Synchronized { .. } => {
                        ensemble.session(session.id()).partition();
                        change(&writer).await;
                    }
                    Event::Ended(CacheEnd::SessionLost) => return,
                    event if round == 1 => reported.push(in_words(event)),
                    _ => {}
                }
            }
        })
        .await;
        *kept.lock().unwrap() = Some(cache.snapshot());
    }
    reported.sort();
    assert_eq!(reported, DIFFERENCE);
    assert_eq!(replay.nodes, nodes_on(&ensemble, ROOT));
}

/// Loses each request of a load and of a resynchronisation, or its reply, one after the other.
#[tokio::test(start_paused = true)]
async fn a_cache_is_complete_whichever_request_is_lost() {
    for loses_reply in [false, true] {
        let mut lost = 0;
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let writer = create_tree(&ensemble).await;
            let session = ensemble.connect().await;
            let id = session.id();
            let script = ensemble.on(|_: &Request| true).session(id).nth(nth);
            let scripted = lose(script, loses_reply);
            let cache = TreeCache::start(&session, ROOT).unwrap();
            let mut events = cache.events();
            let mut replay = Replay::default();
            for round in 0..2 {
                while let Ok(Some(event)) =
                    tokio::time::timeout(Duration::from_secs(3), events.next()).await
                {
                    replay.play(&event);
                }
                assert!(replay.is_synchronized, "request {nth}, round {round}");
                assert_eq!(replay.nodes, nodes_on(&ensemble, ROOT), "request {nth}");
                if round == 0 {
                    change(&writer).await;
                }
            }
            if scripted.count() == 0 {
                break;
            }
            lost += 1;
        }
        assert!(lost > 15, "{lost} requests are too few");
    }
}

/// A cache resumes on a server that lags behind its snapshot.
#[tokio::test(start_paused = true)]
async fn a_cache_resumed_on_a_lagging_server_does_not_go_back() {
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().server(1).await;
    writer.create(ROOT, "0").await.unwrap();
    let first = ensemble.connect().server(1).await;
    // Its server misses the changes below.
    let behind = ensemble.connect().server(2).await;
    ensemble.server(2).lag_for(Duration::from_secs(1));
    writer.create("/t/a", "0").await.unwrap();
    writer.set(ROOT, "1").await.unwrap();
    let cache = TreeCache::start(&first, ROOT).unwrap();
    let last = soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    assert_eq!(last.len(), 2);
    let cache = TreeCache::resume(&behind, &last, &CacheOptions::default());
    let mut events = cache.events_since(&last);
    assert_eq!(drain(&mut events).await, ["synchronized"]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_started_without_a_connection_loads_at_the_reconnect() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, create_tree(&ensemble).await);
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    let cache = NodeCache::start(&session, "/t/c").unwrap();
    let mut events = cache.events();
    pass(Duration::from_secs(1)).await;
    assert_eq!(cache.state(), CacheState::Loading);
    assert_eq!(drain(&mut events).await, ["+ /t/c 0", "synchronized"]);
    drop(writer);
}

/// Other events do not postpone the retry.
#[tokio::test(start_paused = true)]
async fn a_failed_read_is_retried_while_other_nodes_keep_changing() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, create_tree(&ensemble).await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    soon("the load is complete", cache.synchronized())
        .await
        .unwrap();
    let busy = ensemble
        .on(gets("/t/c"))
        .session(session.id())
        .refuse(TransportError::Later(ErrorKind::Throttled));
    writer.set("/t/c", "1").await.unwrap();
    for round in 0..40 {
        writer.set("/t/a/1", round.to_string()).await.unwrap();
        pass(Duration::from_millis(50)).await;
    }
    assert_eq!(busy.count(), 1, "one read was refused");
    let node = cache.get("/t/c").unwrap();
    assert_eq!(node.data(), Some(&b"1"[..]));
}

/// A reply ends the session a second before the transport reports it.
#[test]
fn a_session_ended_by_a_reply_ends_the_cache_at_once() {
    let (result, results) = std::sync::mpsc::channel();
    // A task that spins never yields, so that no timeout of its own thread can stop it.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let end = runtime.block_on(async {
            let ensemble = Ensemble::new(3);
            let writer = create_tree(&ensemble).await;
            let session = ensemble.connect().await;
            let link = ensemble.session(session.id());
            link.delay_end(Duration::from_secs(1));
            let cache = TreeCache::start(&session, ROOT).unwrap();
            soon("the load is complete", cache.synchronized())
                .await
                .unwrap();
            let ending = ensemble
                .on(gets("/t/c"))
                .session(session.id())
                .refuse(TransportError::Ended(SessionEnd::Expired));
            writer.set("/t/c", "1").await.unwrap();
            ending.happened().await;
            let at = tokio::time::Instant::now();
            let end = soon("the cache ends", cache.ended()).await;
            assert!(
                at.elapsed() < Duration::from_millis(500),
                "{:?}",
                at.elapsed()
            );
            assert!(session.state().is_lost());
            end
        });
        result.send(end).unwrap();
    });
    let end = results.recv_timeout(Duration::from_secs(60));
    let end = end.expect("the task of the cache neither spins nor panics");
    assert!(matches!(end, CacheEnd::SessionLost), "{end}");
}
