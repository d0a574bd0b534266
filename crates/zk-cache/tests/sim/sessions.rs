//! Caches that go on with the application's next session.

use zk_cache::{CacheEnd, CacheState, Event, TreeCache};
use zk_core::transport::TransportError;
use zk_core::{ErrorKind, RetryPolicy, Session, Sessions, SessionsEnd};
use zk_sim::{Ensemble, matching};

use crate::replay::{Replay, nodes_of};
use crate::{ROOT, nodes_on, soon};

async fn current(sessions: &Sessions) -> Session {
    let session = soon("there is a session", sessions.session()).await;
    session.expect("there will be one")
}

#[tokio::test(start_paused = true)]
async fn a_cache_goes_on_with_the_next_session_and_reports_the_difference() {
    for changes_data in [false, true] {
        let ensemble = Ensemble::new(3);
        let writer = ensemble.connect().await;
        for path in ["/t/a/1", "/t/b", "/t/c"] {
            writer.create(path, "0").parents().await.unwrap();
        }
        let sessions = ensemble.open_sessions();
        let cache = TreeCache::start(&sessions, ROOT).unwrap();
        let mut events = cache.events();
        let mut replay = Replay::default();
        let mut until_synchronized = async |expected: Option<&[&str]>| {
            let mut seen = Vec::new();
            soon("it is synchronised", async {
                loop {
                    let event = events.next().await.expect("it goes on");
                    replay.play(&event);
                    if matches!(event, Event::Synchronized { .. }) {
                        break;
                    }
                    seen.push(crate::in_words(&event));
                }
            })
            .await;
            if let Some(expected) = expected {
                seen.sort();
                assert_eq!(seen, expected);
            }
        };
        until_synchronized(None).await;
        for round in 0..3 {
            let session = current(&sessions).await;
            ensemble.session(session.id()).partition();
            if changes_data {
                writer.delete("/t/a").recursive().await.unwrap();
                writer.create("/t/a", "1").await.unwrap();
                writer.set("/t/b", format!("{round}")).await.unwrap();
            }
            ensemble.expire(session.id());
            if !changes_data {
                until_synchronized(Some(&["stale"])).await;
            } else if round == 0 {
                until_synchronized(Some(&[
                    "+ /t/a 1",
                    "- /t/a ",
                    "- /t/a/1 0",
                    "stale",
                    "~ /t/b 0 -> 0",
                ]))
                .await;
            } else {
                until_synchronized(None).await;
            }
            assert_ne!(current(&sessions).await.id(), session.id());
            assert_eq!(cache.state(), CacheState::Synchronized);
            assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
        }
        // Later changes arrive as ever.
        writer.delete("/t/c").await.unwrap();
        soon("it hears of the change", async {
            while !matches!(events.next().await, Some(Event::Deleted(_))) {}
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_between_two_sessions_is_stale_and_can_be_read() {
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().await;
    writer.create("/t/a", "0").parents().await.unwrap();
    let (allow, allowed) = tokio::sync::watch::channel(true);
    let sim = ensemble.clone();
    let connect = move || {
        let (sim, mut allowed) = (sim.clone(), allowed.clone());
        async move {
            allowed.wait_for(|is| *is).await.unwrap();
            Ok(sim.connect().await)
        }
    };
    let sessions = Sessions::with_connector(connect, RetryPolicy::default());
    let cache = TreeCache::start(&sessions, ROOT).unwrap();
    let before = soon("it loads", cache.synchronized()).await.unwrap();
    let mut events = cache.events_since(&before);
    allow.send(false).unwrap();
    ensemble.expire(current(&sessions).await.id());
    let stale = soon("it says so", async {
        loop {
            match events.next().await {
                Some(Event::Synchronized { .. }) => {}
                other => return other,
            }
        }
    });
    assert!(matches!(stale.await, Some(Event::Stale)));
    writer.set("/t/a", "1").await.unwrap();
    crate::pass(std::time::Duration::from_secs(60)).await;
    assert_eq!(cache.state(), CacheState::Stale);
    assert_eq!(nodes_of(&cache.snapshot()), nodes_of(&before));
    allow.send(true).unwrap();
    let changed = soon("the difference arrives", events.next()).await;
    assert!(
        matches!(changed, Some(Event::Changed { .. })),
        "{changed:?}"
    );
    let synchronized = soon("it is synchronised", events.next()).await;
    assert!(matches!(synchronized, Some(Event::Synchronized { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_cache_ends_when_there_is_no_further_session() {
    let ensemble = Ensemble::new(1);
    let sessions = ensemble.open_sessions();
    let cache = TreeCache::start(&sessions, ROOT).unwrap();
    soon("it loads", cache.synchronized()).await.unwrap();
    sessions.close().await.unwrap();
    let end = soon("it ends", cache.ended()).await;
    assert!(matches!(end, CacheEnd::SessionLost));
    assert_eq!(cache.state(), CacheState::Ended);
    assert!(matches!(sessions.session().await, Err(SessionsEnd::Closed)));
    // A cache that is started now ends at once, and one that is dropped leaves nothing.
    let late = TreeCache::start(&sessions, ROOT).unwrap();
    soon("it ends", late.ended()).await;
    assert_eq!(ensemble.watch_count(), 0);
}

/// The first session that refuses the watch ends the cache, a later one only keeps it stale.
#[tokio::test(start_paused = true)]
async fn a_cache_outlives_a_later_session_that_refuses_its_watch() {
    let refusal = || TransportError::Refused(ErrorKind::InvalidArgument, None);
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().await;
    writer.create("/t/a", "0").parents().await.unwrap();
    let sessions = ensemble.open_sessions();
    let refused = ensemble.on(matching::watches(ROOT)).every();
    let refused = refused.refuse(refusal());
    let early = TreeCache::start(&sessions, ROOT).unwrap();
    let end = soon("it ends", early.ended()).await;
    assert!(matches!(end, CacheEnd::Refused(_)), "{end:?}");
    refused.withdraw();

    let cache = TreeCache::start(&sessions, ROOT).unwrap();
    soon("it loads", cache.synchronized()).await.unwrap();
    for does_session_end in [false, true] {
        let session = current(&sessions).await;
        let refused = ensemble.on(matching::watches(ROOT)).every();
        let refused = refused.refuse(refusal());
        ensemble.expire(session.id());
        soon("it is refused", async {
            while refused.count() < 3 {
                crate::pass(std::time::Duration::from_secs(1)).await;
            }
        })
        .await;
        assert_eq!(cache.state(), CacheState::Stale);
        writer.set("/t/a", "1").await.unwrap();
        refused.withdraw();
        if does_session_end {
            ensemble.expire(current(&sessions).await.id());
        }
        soon("there is room", cache.synchronized()).await.unwrap();
        assert_eq!(nodes_of(&cache.snapshot()), nodes_on(&ensemble, ROOT));
    }
}
