//! What subscriptions tell, and what becomes of their watches.

use std::time::Duration;

use futures_util::FutureExt;
use zk_core::Update::{Resynchronize, SessionLost, Stale};
use zk_core::WatchEvent::{ChildrenChanged, Created, DataChanged, Deleted};
use zk_core::transport::{Request, TransportError};
use zk_core::{ErrorKind, Session, Update};
use zk_sim::{Chaos, Check, Ensemble, EnsembleBuilder, Release};

use crate::{at, pass, polled, received, soon, without_zxid};

fn adds_a_watch(request: &Request) -> bool {
    matches!(request, Request::AddWatch { .. })
}

/// Waits until no server has a watch.
async fn none_left(sim: &Ensemble, session: &Session) {
    session.sync("/").await.expect("the server answers");
    pass(Duration::from_millis(10)).await;
    session.sync("/").await.expect("the server answers");
    assert_eq!(sim.watch_count(), 0, "a watch is left");
}

#[tokio::test(start_paused = true)]
async fn each_reach_tells_its_own() {
    for release in [Release::V3_8, Release::V3_9] {
        let sim = Ensemble::builder().release(release).build();
        let outer = sim.connect().await;
        let session = outer.with_namespace("/ns").unwrap();
        let mut node = session.subscribe("/a").await.unwrap();
        let mut children = session.subscribe("/a").children().await.unwrap();
        let mut below = session.subscribe("/a").recursive().await.unwrap();
        let mut exact = session.subscribe("/a/b").await.unwrap();
        for updates in [&mut node, &mut children] {
            let first = received(updates, &outer).await;
            assert_eq!(
                first,
                [Resynchronize, Stale, Resynchronize],
                "the third has another kind of watch"
            );
        }
        assert_eq!(received(&mut below, &outer).await, [Resynchronize]);
        assert_eq!(received(&mut exact, &outer).await, [Resynchronize]);

        session.create("/a", "").parents().await.unwrap();
        session.create("/a/b", "").await.unwrap();
        session.create("/a/b/c", "").await.unwrap();
        session.set("/a/b", "1").await.unwrap();
        session.set("/a", "1").await.unwrap();
        for path in ["/a/b/c", "/a/b", "/a"] {
            session.delete(path).await.unwrap();
        }
        let (a, b, c) = ("/a", "/a/b", "/a/b/c");
        assert_eq!(
            received(&mut node, &outer).await,
            [at(a, Created), at(a, DataChanged), at(a, Deleted)]
        );
        assert_eq!(
            received(&mut children, &outer).await,
            [
                at(a, Created),
                at(a, ChildrenChanged),
                at(a, DataChanged),
                at(a, ChildrenChanged),
                at(a, Deleted)
            ]
        );
        assert_eq!(
            received(&mut exact, &outer).await,
            [at(b, Created), at(b, DataChanged), at(b, Deleted)]
        );
        assert_eq!(
            received(&mut below, &outer).await,
            [
                at(a, Created),
                at(b, Created),
                at(c, Created),
                at(b, DataChanged),
                at(a, DataChanged),
                at(c, Deleted),
                at(b, Deleted),
                at(a, Deleted)
            ]
        );
        assert_eq!(
            sim.arrived(adds_a_watch),
            2,
            "one for all, and one before it"
        );
        drop((below, exact));
        assert_eq!(received(&mut node, &outer).await, [Stale, Resynchronize]);
        session.create("/a", "").await.unwrap();
        assert_eq!(received(&mut node, &outer).await, [at(a, Created)]);
        drop((node, children));
        none_left(&sim, &outer).await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_break_the_watch_is_set_before_resynchronising() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let other = sim.connect().await;
    let mut updates = session.subscribe("/a").recursive().await.unwrap();
    assert_eq!(updates.next().await, Some(Resynchronize));
    for round in 0..10 {
        sim.session(session.id()).cut();
        // No server reports what happens meanwhile.
        other.create("/a", "").await.unwrap();
        assert_eq!(soon("the break", updates.next()).await, Some(Stale));
        assert_eq!(
            soon("the return", updates.next()).await,
            Some(Resynchronize)
        );
        // From here on every change is reported.
        other.delete("/a").await.unwrap();
        assert_eq!(
            soon("the change", updates.next()).await.map(without_zxid),
            Some(at("/a", Deleted)),
            "{round}"
        );
    }
    assert_eq!(updates.next().now_or_never(), None);
    drop(updates);
    none_left(&sim, &session).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_is_reported_once_and_last() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let other = sim.connect().await;
    let mut one = session.subscribe("/a").await.unwrap();
    let mut two = session.subscribe("/b").recursive().await.unwrap();
    other.create("/a", "").await.unwrap();
    assert_eq!(
        received(&mut one, &other).await,
        [Resynchronize, at("/a", Created)]
    );
    sim.expire(session.id());
    soon("the session is lost", session.lost()).await;
    for updates in [&mut one, &mut two] {
        let mut all = Vec::new();
        while let Some(update) = soon("the end", updates.next()).await {
            all.push(update);
        }
        assert_eq!(
            all.iter().filter(|update| **update == SessionLost).count(),
            1
        );
        assert_eq!(all.last(), Some(&SessionLost));
        assert_eq!(updates.next().await, None);
    }
    let error = session.subscribe("/c").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
    // A dropped session ends as well, and a subscription does not keep it open.
    let third = sim.connect().await;
    let mut updates = third.subscribe("/a").await.unwrap();
    drop(third);
    assert_eq!(updates.next().await, Some(Resynchronize));
    assert_eq!(
        soon("the end", async {
            while updates.next().await != Some(SessionLost) {}
        })
        .await,
        ()
    );
    pass(Duration::from_millis(10)).await;
    assert_eq!(sim.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_dropped_at_any_poll_leaves_nothing() {
    let mut times = 0;
    loop {
        times += 1;
        let sim = Ensemble::new(3);
        let session = sim.connect().await;
        let done = polled(times, session.subscribe("/a").recursive().into_future()).await;
        let is_done = done.is_some();
        drop(done);
        none_left(&sim, &session).await;
        if is_done {
            break;
        }
    }
    assert!(times > 1, "the first poll cannot be the last");
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_and_goes_takes_no_watch_from_another_one() {
    for release in [Release::V3_8, Release::V3_9] {
        let sim = Ensemble::builder().release(release).build();
        let session = sim.connect().await;
        let other = sim.connect().await;
        let mut kept = session.subscribe("/a").children().await.unwrap();
        assert_eq!(kept.next().await, Some(Resynchronize));
        for times in 0..20 {
            drop(polled(times % 5, session.subscribe("/a").recursive().into_future()).await);
            drop(session.subscribe("/a").await.unwrap());
            pass(Duration::from_millis(times as u64 % 4)).await;
        }
        received(&mut kept, &session).await;
        other.create("/a", "").await.unwrap();
        other.create("/a/b", "").await.unwrap();
        assert_eq!(
            received(&mut kept, &session).await,
            [at("/a", Created), at("/a", ChildrenChanged)]
        );
        drop(kept);
        none_left(&sim, &session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_anyone_looks_is_kept_up_to_the_bound() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    let mut updates = session.subscribe("/a").buffer(3).await.unwrap();
    let mut births = session
        .subscribe("/a")
        .only([Created])
        .buffer(3)
        .await
        .unwrap();
    session.create("/a", "").await.unwrap();
    session.set("/a", "1").await.unwrap();
    session.set("/a", "2").await.unwrap();
    pass(Duration::from_secs(10)).await;
    assert_eq!(
        received(&mut updates, &session).await,
        [
            Resynchronize,
            at("/a", Created),
            at("/a", DataChanged),
            at("/a", DataChanged)
        ]
    );
    for _ in 0..4 {
        session.set("/a", "3").await.unwrap();
    }
    assert_eq!(received(&mut updates, &session).await, [Resynchronize]);
    session.set("/a", "4").await.unwrap();
    assert_eq!(
        received(&mut updates, &session).await,
        [at("/a", DataChanged)]
    );
    assert_eq!(
        received(&mut births, &session).await,
        [Resynchronize, at("/a", Created)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_subscription_without_a_connection_says_so_at_its_deadline() {
    let sim = Ensemble::new(1);
    let session = sim.connect().await;
    sim.server(1).stop();
    pass(Duration::from_millis(10)).await;
    let subscribe = session.subscribe("/a").timeout(Duration::from_secs(2));
    let error = subscribe.await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotConnected);
    assert!(
        error.to_string().starts_with("subscribe to /a: "),
        "{error}"
    );
    sim.server(1).start();
    none_left(&sim, &session).await;
    let bad = session.subscribe("a").await.unwrap_err();
    assert_eq!(bad.kind(), ErrorKind::InvalidPath);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_watch_is_made_good() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    for script in 0..3 {
        let on = sim.on(adds_a_watch).session(session.id());
        match script {
            0 => on.lose_request(),
            1 => on.lose_reply(),
            _ => on.refuse(TransportError::Later(ErrorKind::Throttled)),
        };
        let mut updates = session.subscribe("/a").await.unwrap();
        assert_eq!(updates.next().await, Some(Resynchronize));
        session.create("/a", "").await.unwrap();
        session.delete("/a").await.unwrap();
        assert_eq!(
            received(&mut updates, &session).await,
            [at("/a", Created), at("/a", Deleted)]
        );
        drop(updates);
        none_left(&sim, &session).await;
    }
}

#[tokio::test(start_paused = true)]
async fn on_a_lagging_server_no_event_after_resync_is_missed() {
    let sim = Ensemble::new(3);
    let session = sim.connect().server(1).await;
    let other = sim.connect().server(1).await;
    let mut updates = session.subscribe("/a").await.unwrap();
    assert_eq!(updates.next().await, Some(Resynchronize));
    sim.server(2).lag_for(Duration::from_secs(5));
    sim.session(session.id()).move_to(2);
    assert_eq!(soon("the break", updates.next()).await, Some(Stale));
    other.create("/a", "").await.unwrap();
    assert_eq!(
        soon("the return", updates.next()).await,
        Some(Resynchronize)
    );
    if session.exists("/a").await.unwrap().is_none() {
        assert_eq!(
            soon("the change", updates.next()).await.map(without_zxid),
            Some(at("/a", Created))
        );
    }
    assert!(session.exists("/a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn one_shot_watches_and_subscriptions_keep_their_events() {
    for release in [Release::V3_8, Release::V3_9] {
        for is_recursive in [false, true] {
            let sim = Ensemble::builder().release(release).build();
            let session = sim.connect().await;
            let other = sim.connect().await;
            other.create("/a", "").await.unwrap();
            let (_, _, mut before) = session.list("/a").watched().await.unwrap();
            let subscribe = session.subscribe("/a").children();
            let mut updates = if is_recursive {
                subscribe.recursive().await.unwrap()
            } else {
                subscribe.await.unwrap()
            };
            let (_, _, mut after) = session.list("/a").watched().await.unwrap();
            received(&mut updates, &session).await;
            other.create("/a/b", "").await.unwrap();
            let came = if is_recursive {
                at("/a/b", Created)
            } else {
                at("/a", ChildrenChanged)
            };
            let what = format!("{release:?} {is_recursive}");
            assert!(
                received(&mut updates, &session).await.contains(&came),
                "{what}"
            );
            assert_eq!(soon(&what, before.changed()).await, ChildrenChanged);
            assert_eq!(soon(&what, after.changed()).await, ChildrenChanged);
            drop((before, after));

            // Those that are given up, set or on their way, take nothing with them.
            for times in 0..24 {
                let _kept = session.exists("/a").watched().await.unwrap();
                let get = session.get("/a").watched().into_future();
                drop(polled(times % 4, get).await);
                drop(session.list("/a").watched().await.unwrap());
                pass(Duration::from_millis(times as u64 % 5)).await;
            }
            pass(Duration::from_millis(50)).await;
            received(&mut updates, &session).await;
            let (_, _, mut data) = session.get("/a").watched().await.unwrap();
            pass(Duration::from_millis(50)).await;
            received(&mut updates, &session).await;
            other.set("/a", "1").await.unwrap();
            other.delete("/a/b").await.unwrap();
            let gone = if is_recursive {
                at("/a/b", Deleted)
            } else {
                at("/a", ChildrenChanged)
            };
            assert_eq!(
                received(&mut updates, &session).await,
                [at("/a", DataChanged), gone],
                "{what}"
            );
            assert_eq!(soon(&what, data.changed()).await, DataChanged);

            // A subscription that goes takes no one-shot watch with it that is on its way.
            for times in 0..4 {
                let mut get = Box::pin(session.get("/a").watched().into_future());
                for _ in 0..times {
                    assert!(futures_util::poll!(&mut get).is_pending());
                }
                drop(updates);
                let (_, _, mut watch) = get.await.unwrap();
                pass(Duration::from_millis(20)).await;
                other.set("/a", "2").await.unwrap();
                assert_eq!(soon(&what, watch.changed()).await, DataChanged);
                updates = session.subscribe("/a").await.unwrap();
            }
            drop((updates, data));
            other.delete("/a").await.unwrap();
            none_left(&sim, &session).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn servers_without_persistent_watches_are_followed_by_one_shots() {
    let sim = Ensemble::builder().without_persistent_watches().build();
    let session = sim.connect().await;
    let other = sim.connect().await;
    other.create("/a", "").await.unwrap();
    other.create("/a/b", "").await.unwrap();
    let mut one = session.subscribe("/a").children().await.unwrap();
    let mut all = session.subscribe("/a").recursive().await.unwrap();
    assert_eq!(one.next().await, Some(Resynchronize));
    received(&mut one, &session).await;
    received(&mut all, &session).await;
    other.create("/a/c", "").await.unwrap();
    pass(Duration::from_millis(20)).await;
    other.create("/a/c/d", "").await.unwrap();
    pass(Duration::from_millis(20)).await;
    other.set("/a/c/d", "1").await.unwrap();
    other.set("/a", "1").await.unwrap();
    pass(Duration::from_millis(20)).await;
    let (a, c, d) = ("/a", "/a/c", "/a/c/d");
    assert_eq!(
        received(&mut one, &session).await,
        [at(a, ChildrenChanged), at(a, DataChanged)]
    );
    assert_eq!(
        received(&mut all, &session).await,
        [
            at(c, Created),
            at(d, Created),
            at(d, DataChanged),
            at(a, DataChanged)
        ]
    );
    // What happens faster than it is read is found by comparing.
    other.delete("/a").recursive().await.unwrap();
    other.create("/a", "").await.unwrap();
    pass(Duration::from_millis(20)).await;
    let seen = received(&mut one, &session).await;
    assert!(
        seen.ends_with(&[at(a, Deleted), at(a, Created)]),
        "{seen:?}"
    );
    let seen = received(&mut all, &session).await;
    assert!(
        seen.ends_with(&[at(a, Deleted), at(a, Created)]),
        "{seen:?}"
    );
    for path in ["/a/b", c, d] {
        assert!(seen.contains(&at(path, Deleted)), "{seen:?}");
    }
    sim.session(session.id()).cut();
    other.create("/a/x", "").await.unwrap();
    assert_eq!(soon("the break", all.next()).await, Some(Stale));
    assert_eq!(soon("the return", all.next()).await, Some(Resynchronize));
    other.delete("/a/x").await.unwrap();
    assert_eq!(
        soon("the change", all.next()).await.map(without_zxid),
        Some(at("/a/x", Deleted))
    );
    drop((one, all));
    none_left(&sim, &session).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_servers_may_not_know_is_refused_the_second_time() {
    let sim = Ensemble::new(3);
    let session = sim.connect().await;
    let too_old = TransportError::MaybeTooOld {
        needs: "3.6.0".to_owned(),
        why: "closed".to_owned(),
    };
    let refused = sim.on(adds_a_watch).every().refuse(too_old);
    let error = session.subscribe("/a").await.unwrap_err();
    assert!(error.to_string().contains("assume_release"), "{error}");
    assert_eq!(refused.count(), 2);
    drop(refused);
    none_left(&sim, &session).await;
}

/// A read with a watch is in flight, or not polled, when the link breaks.
#[tokio::test(start_paused = true)]
async fn a_read_of_the_same_node_blocks_no_subscription() {
    let ensemble = Ensemble::builder();
    for ensemble in [ensemble.clone(), ensemble.without_persistent_watches()] {
        for is_dropped in [true, false] {
            let what = format!("{ensemble:?} {is_dropped}");
            let sim = ensemble.clone().build();
            let session = sim.connect().await;
            let other = sim.connect().await;
            other.create("/a", "").await.unwrap();
            let mut updates = session.subscribe("/a").await.unwrap();
            received(&mut updates, &session).await;
            let mut get = Box::pin(session.get("/a").watched().into_future());
            assert!(futures_util::poll!(&mut get).is_pending());
            sim.session(session.id()).cut();
            assert_eq!(soon(&what, updates.next()).await, Some(Stale));
            pass(Duration::from_secs(1)).await;
            let mut get = Some(get).filter(|_| !is_dropped);
            assert_eq!(soon(&what, updates.next()).await, Some(Resynchronize));
            // A caller that polls the read again does not wait for a watch that was removed meanwhile.
            let mut watch = match get.take() {
                Some(get) => Some(get.await.unwrap().2),
                None => None,
            };
            other.set("/a", "1").await.unwrap();
            let seen = soon(&what, updates.next()).await;
            assert!(
                matches!(seen, Some(Stale | Update::Changed { .. })),
                "{what}: {seen:?}"
            );
            if let Some(watch) = &mut watch {
                soon(&what, watch.changed()).await;
            }
            drop((watch, updates));
            pass(Duration::from_millis(50)).await;
            none_left(&sim, &session).await;
        }
    }
}

/// Follows the updates as a consumer that reads again at each of them.
async fn follow(
    session: &Session,
    updates: &mut zk_core::Subscription,
    known: &mut Option<(i64, i64)>,
) -> bool {
    match updates.next().await {
        Some(Resynchronize | Update::Changed { .. }) => loop {
            match session.exists("/a/x").await {
                Ok(stat) => {
                    *known = stat.map(|stat| (stat.czxid, stat.mzxid));
                    return true;
                }
                Err(error) if error.is_fatal() => return true,
                Err(_) => {}
            }
        },
        Some(Stale) => true,
        _ => false,
    }
}

#[test]
fn consumer_that_resynchronizes_knows_the_newest_state() {
    let ensemble = Ensemble::builder();
    for ensemble in [ensemble.clone(), ensemble.without_persistent_watches()] {
        follows_updates(ensemble);
    }
}

fn follows_updates(ensemble: EnsembleBuilder) {
    Check::new(0..30)
        .ensemble(ensemble)
        .run(async |sim, _seed| {
            let session = sim.connect().timeout(Duration::from_secs(20)).await;
            let writer = sim.connect().timeout(Duration::from_secs(20)).await;
            let mut updates = session.subscribe("/a").recursive().await?;
            let mut known = None;
            let chaos = Chaos::default().lasting(Duration::from_secs(20)).run(&sim);
            let writes = async move {
                for round in 0..60_u32 {
                    let data = round.to_string();
                    drop(writer.create("/a/x", data.clone()).parents().await);
                    drop(writer.set("/a/x", data).await);
                    if round % 3 == 0 {
                        drop(writer.delete("/a/x").await);
                    }
                    pass(Duration::from_millis(200)).await;
                }
            };
            let work = tokio::spawn(async { tokio::join!(chaos, writes) });
            // A minute without an update is longer than any read takes, so that no read is interrupted.
            let quiet = Duration::from_secs(60);
            while !work.is_finished() || !session.state().is_lost() {
                let next = follow(&session, &mut updates, &mut known);
                match tokio::time::timeout(quiet, next).await {
                    Ok(false) => return Ok(()),
                    Err(_) if work.is_finished() => break,
                    Ok(true) | Err(_) => {}
                }
            }
            let truth = sim
                .tree()
                .node("/a/x")
                .map(|node| (node.stat().czxid, node.stat().mzxid));
            assert!(
                known == truth || session.state().is_lost(),
                "{known:?} {truth:?}"
            );
            Ok::<(), zk_core::Error>(())
        });
}
