//! Connections and sessions that are lost.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use zk_cache::CacheOptions;
use zk_cache::End;
use zk_cache::Event;
use zk_cache::NodeCache;
use zk_cache::Snapshot;
use zk_cache::State;
use zk_cache::TreeCache;
use zk_core::ConnectionState;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::Session;
use zk_core::transport::Fault;
use zk_core::transport::Request;
use zk_sim::Ensemble;
use zk_sim::matching::gets;

use crate::ROOT;
use crate::in_words;
use crate::nodes_on;
use crate::pass;
use crate::replay::Replay;
use crate::replay::nodes_of;
use crate::soon;
use crate::told;
use crate::until_synchronized;

async fn made(ensemble: &Ensemble) -> Session {
    let writer = ensemble.connect().await;
    for path in ["/t/a/1", "/t/b/1", "/t/c", "/t/d/1"] {
        writer.create(path, "0").parents().await.unwrap();
    }
    writer
}

/// Every kind of change, of which the versions tell nothing.
async fn change(writer: &Session) {
    writer.delete("/t/a").recursive().await.unwrap();
    writer.create("/t/a/1", "0").parents().await.unwrap();
    writer.delete("/t/b/1").await.unwrap();
    writer.set("/t/c", "1").await.unwrap();
    writer.create("/t/d/2", "0").await.unwrap();
    // Nobody ever needs to know.
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

// covers: K4
// against traps T1 T5 T6 X13
#[tokio::test(start_paused = true)]
async fn after_a_break_exactly_the_difference_is_told_between_stale_and_synchronized() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, made(&ensemble).await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    until_synchronized(&mut events).await;
    for round in 0..3 {
        ensemble
            .session(session.id())
            .cut_for(Duration::from_secs(2));
        pass(Duration::from_millis(100)).await;
        assert_eq!(cache.state(), State::Stale);
        change(&writer).await;
        let mut all = told(&mut events).await;
        assert_eq!(cache.state(), State::Synchronized);
        assert_eq!(all.remove(0), "stale");
        assert_eq!(all.pop().unwrap(), "synchronized");
        all.sort();
        assert_eq!(all, DIFFERENCE, "round {round}");
        // As it was, for the next round.
        writer.delete("/t/d/2").await.unwrap();
        writer.create("/t/b/1", "0").await.unwrap();
        writer.set("/t/c", "0").await.unwrap();
        told(&mut events).await;
    }
    ensemble.session(session.id()).cut();
    assert_eq!(
        told(&mut events).await,
        ["stale", "synchronized"],
        "nothing happened"
    );
}

/// Which refuses to catch up, and may have been without the others for long.
// covers: K4
#[tokio::test(start_paused = true)]
async fn what_a_server_without_a_quorum_has_is_not_called_synchronized() {
    let ensemble = Ensemble::builder().read_only().build();
    let writer = made(&ensemble).await;
    ensemble.server(2).stop();
    ensemble.server(3).stop();
    let session = ensemble.connect().allow_read_only().await;
    assert_eq!(session.state(), ConnectionState::ReadOnly);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    let mut events = cache.events();
    let all = told(&mut events).await;
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all.iter().all(|event| event.starts_with('+')), "{all:?}");
    assert_eq!(cache.state(), State::Loading);
    drop(writer);
}

// covers: K4
// against traps T6
#[tokio::test(start_paused = true)]
async fn a_lost_session_ends_the_cache_and_the_next_one_tells_the_difference() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, made(&ensemble).await);
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
        told(&mut events).await,
        ["stale", "ended: the session is over"]
    );
    assert!(events.next().await.is_none());
    assert!(matches!(cache.synchronized().await, Err(End::SessionLost)));
    let last = cache.snapshot();
    assert_eq!((last.state(), nodes_of(&last)), (State::Ended, before));

    change(&writer).await;
    let next = ensemble.connect().await;
    let cache = TreeCache::resume(&next, &last, &CacheOptions::default());
    assert_eq!(
        (cache.state(), cache.snapshot().len()),
        (State::Stale, last.len())
    );
    let mut events = cache.events_since(&last);
    let mut all = told(&mut events).await;
    assert_eq!(all.pop().unwrap(), "synchronized");
    all.sort();
    assert_eq!(all, DIFFERENCE);
    assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
    // And one whose session is lost before it has looked at anything.
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

/// A process that was paused for longer than its session lives.
// covers: K4
// against traps T6
#[tokio::test(start_paused = true)]
async fn a_supervised_application_sees_the_difference_after_an_outage_that_ends_its_session() {
    let ensemble = Ensemble::new(3);
    let writer = made(&ensemble).await;
    let kept: Arc<Mutex<Option<Snapshot>>> = Arc::default();
    let mut replay = Replay::default();
    let mut said = Vec::new();
    for round in 0..2 {
        let session = ensemble.connect().await;
        let last = kept.lock().unwrap().take();
        let last = last.unwrap_or_else(|| Snapshot::empty(ROOT).unwrap());
        let cache = TreeCache::resume(&session, &last, &CacheOptions::default());
        let mut events = cache.events_since(&last);
        if round == 0 {
            ensemble.session(session.id()).cut();
        }
        soon("everything is told", async {
            loop {
                let event = events.next().await.expect("it ends with a word");
                replay.play(&event);
                match &event {
                    Event::Synchronized { .. } if round == 1 => return,
                    Event::Synchronized { .. } => {
                        ensemble.session(session.id()).partition();
                        change(&writer).await;
                    }
                    Event::Ended(End::SessionLost) => return,
                    event if round == 1 => said.push(in_words(event)),
                    _ => {}
                }
            }
        })
        .await;
        *kept.lock().unwrap() = Some(cache.snapshot());
    }
    said.sort();
    assert_eq!(said, DIFFERENCE);
    assert_eq!(replay.nodes, nodes_on(&ensemble, ROOT));
}

/// Each request of a load, and of a look after a break, is lost on its way there or back, one after the other.
// covers: K4
// against traps X13
#[tokio::test(start_paused = true)]
async fn whichever_request_is_lost_the_cache_has_what_there_is() {
    for loses_reply in [false, true] {
        let mut struck = 0;
        for nth in 1.. {
            let ensemble = Ensemble::new(3);
            let writer = made(&ensemble).await;
            let session = ensemble.connect().await;
            let id = session.id();
            let script = ensemble.on(|_: &Request| true).session(id).nth(nth);
            let scripted = if loses_reply {
                script.lose_reply()
            } else {
                script.lose_request()
            };
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
            struck += 1;
        }
        assert!(struck > 15, "{struck} requests are too few");
    }
}

/// The session is on a server that lags; what another session has read is not to be unread.
// against traps T6 X13
#[tokio::test(start_paused = true)]
async fn a_cache_that_goes_on_at_a_server_that_lags_does_not_go_back() {
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().server(1).await;
    writer.create(ROOT, "0").await.unwrap();
    let first = ensemble.connect().server(1).await;
    // It has seen nothing of what comes.
    let behind = ensemble.connect().server(2).await;
    ensemble.server(2).lag_for(Duration::from_secs(1));
    writer.create("/t/a", "0").await.unwrap();
    writer.set(ROOT, "1").await.unwrap();
    let cache = TreeCache::start(&first, ROOT).unwrap();
    let last = soon("it is built", cache.synchronized()).await.unwrap();
    assert_eq!(last.len(), 2);
    let cache = TreeCache::resume(&behind, &last, &CacheOptions::default());
    let mut events = cache.events_since(&last);
    assert_eq!(told(&mut events).await, ["synchronized"]);
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_started_without_a_connection_begins_as_soon_as_there_is_one() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, made(&ensemble).await);
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(3));
    let cache = NodeCache::start(&session, "/t/c").unwrap();
    let mut events = cache.events();
    pass(Duration::from_secs(1)).await;
    assert_eq!(cache.state(), State::Loading);
    assert_eq!(told(&mut events).await, ["+ /t/c 0", "synchronized"]);
    drop(writer);
}

/// The pause before the next attempt is not to begin anew with everything else that happens.
// covers: K4
#[tokio::test(start_paused = true)]
async fn a_read_that_failed_is_made_again_while_other_nodes_keep_changing() {
    let ensemble = Ensemble::new(3);
    let (session, writer) = (ensemble.connect().await, made(&ensemble).await);
    let cache = TreeCache::start(&session, ROOT).unwrap();
    soon("it is built", cache.synchronized()).await.unwrap();
    let busy = ensemble
        .on(gets("/t/c"))
        .session(session.id())
        .refuse(Fault::Later(ErrorKind::Throttled));
    writer.set("/t/c", "1").await.unwrap();
    for round in 0..40 {
        writer.set("/t/a/1", round.to_string()).await.unwrap();
        pass(Duration::from_millis(50)).await;
    }
    assert_eq!(busy.count(), 1, "one read was refused");
    let node = cache.get(&crate::path("/t/c")).unwrap();
    assert_eq!(node.data(), Some(&b"1"[..]));
}
