//! Subscriptions on real servers of both releases.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt, stream};
use zk_core::Update::{Resynchronize, Stale};
use zk_core::WatchEvent::{ChildrenChanged, Created, DataChanged, Deleted};
use zk_core::{ConnectionState, NodePath, Session, Subscription, Update, WatchEvent};

use crate::{
    MAX_WAIT, connect, connect_for, for_each_release, server_of, until, watches_of, with_release,
    within,
};

fn at(path: &str, event: WatchEvent) -> Update {
    Update::Changed {
        path: NodePath::parse(path).unwrap(),
        event,
        zxid: None,
    }
}

/// The update without its transaction.
pub(crate) fn without_zxid(update: Update) -> Update {
    match update {
        Update::Changed { path, event, .. } => Update::Changed {
            path,
            event,
            zxid: None,
        },
        other => other,
    }
}

async fn next(updates: &mut Subscription) -> Update {
    without_zxid(next_with_zxid(updates).await)
}

async fn next_with_zxid(updates: &mut Subscription) -> Update {
    let next = within(MAX_WAIT, "an update", updates.next());
    next.await.expect("the session is not over")
}

/// Returns the updates up to and including `last`.
async fn updates_until(updates: &mut Subscription, last: &Update) -> Vec<Update> {
    let mut received = Vec::new();
    while received.last() != Some(last) {
        received.push(next(updates).await);
    }
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_tell_every_change_and_leave_nothing() {
    for_each_release(async |release| {
        with_release(1, release, async |ensemble| {
            let session = connect(ensemble).await.with_namespace("/ns").unwrap();
            let other = connect(ensemble).await;
            let mut children = session.subscribe("/a").children().await.unwrap();
            assert_eq!(next(&mut children).await, Resynchronize);
            let mut below = session.subscribe("/a").recursive().await.unwrap();
            assert_eq!(next(&mut below).await, Resynchronize);
            assert_eq!(next(&mut children).await, Stale);
            assert_eq!(next(&mut children).await, Resynchronize);
            other.create("/ns/a", "").parents().await.unwrap();
            other.create("/ns/a/b", "").await.unwrap();
            other.set("/ns/a/b", "1").await.unwrap();
            other.delete("/ns/a/b").await.unwrap();
            other.delete("/ns/a").await.unwrap();
            let (a, b) = ("/a", "/a/b");
            assert_eq!(
                updates_until(&mut children, &at(a, Deleted)).await,
                [
                    at(a, Created),
                    at(a, ChildrenChanged),
                    at(a, ChildrenChanged),
                    at(a, Deleted)
                ],
                "{release}"
            );
            assert_eq!(
                updates_until(&mut below, &at(a, Deleted)).await,
                [
                    at(a, Created),
                    at(b, Created),
                    at(b, DataChanged),
                    at(b, Deleted),
                    at(a, Deleted)
                ],
                "{release}"
            );
            drop((children, below));
            until("no watch is left", async || watches_of(ensemble).await == 0).await;
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_name_their_transactions_from_3_9_on() {
    for_each_release(async |release| {
        with_release(1, release, async |ensemble| {
            let session = connect(ensemble).await.with_namespace("/ns").unwrap();
            session.create("/a", "").parents().await.unwrap();
            let mut children = session.subscribe("/a").children().await.unwrap();
            assert_eq!(next(&mut children).await, Resynchronize);
            session.create("/a/b", "").await.unwrap();
            let set = session.set("/a", "1").await.unwrap();
            let created = session.stat("/a/b").await.unwrap().czxid;
            let expected = [(ChildrenChanged, created), (DataChanged, set.mzxid)];
            for (event, zxid) in expected {
                let changed = Update::Changed {
                    path: NodePath::parse("/a").unwrap(),
                    event,
                    zxid: (release != "3.8").then_some(zxid),
                };
                assert_eq!(next_with_zxid(&mut children).await, changed, "{release}");
            }
        })
        .await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_shot_watches_take_no_events_from_a_subscription() {
    for_each_release(async |release| {
        with_release(1, release, async |ensemble| {
            for is_recursive in [false, true] {
                let session = connect(ensemble).await;
                let other = connect(ensemble).await;
                other.create("/a", "").await.unwrap();
                let (_, _, mut before) = session.list("/a").watched().await.unwrap();
                let subscribe = session.subscribe("/a").children();
                let mut updates = if is_recursive {
                    subscribe.recursive().await.unwrap()
                } else {
                    subscribe.await.unwrap()
                };
                let (_, _, mut after) = session.list("/a").watched().await.unwrap();
                let (_, _, mut data) = session.get("/a").watched().await.unwrap();
                for round in 0..50_usize {
                    drop(session.exists("/a").watched().await.unwrap());
                    let mut get = session.get("/a").watched().into_future();
                    // Dropped before it is sent, or while the reply is on its way, or just after.
                    if round % 2 == 1 {
                        drop((&mut get).now_or_never());
                    }
                }
                settled(&session, &mut updates).await;
                other.create("/a/b", "").await.unwrap();
                other.set("/a", "1").await.unwrap();
                let child = if is_recursive {
                    at("/a/b", Created)
                } else {
                    at("/a", ChildrenChanged)
                };
                let received = updates_until(&mut updates, &at("/a", DataChanged)).await;
                assert!(received.contains(&child), "{release} {received:?}");
                for (watch, event) in [
                    (&mut before, ChildrenChanged),
                    (&mut after, ChildrenChanged),
                    (&mut data, DataChanged),
                ] {
                    assert_eq!(within(MAX_WAIT, release, watch.changed()).await, event);
                }
                drop((updates, before, after, data));
                other.delete("/a").recursive().await.unwrap();
                until("no watch is left", async || watches_of(ensemble).await == 0).await;
            }
        })
        .await;
    })
    .await;
}

/// Waits until no more updates arrive.
async fn settled(session: &Session, updates: &mut Subscription) {
    let mut is_live = true;
    let mut quiet = 0;
    while quiet < 5 || !is_live {
        session.sync("/").with_quorum().await.unwrap();
        match tokio::time::timeout(Duration::from_millis(50), updates.next()).await {
            Ok(Some(update)) => {
                is_live = update != Stale;
                quiet = 0;
            }
            Ok(None) => panic!("the session is over"),
            Err(_) => quiet += 1,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_subscriptions_survive_a_reconnect() {
    for_each_release(async |release| {
        with_release(3, release, async |ensemble| {
            let session = connect_for(ensemble, MAX_WAIT).await;
            let other = connect_for(ensemble, MAX_WAIT).await;
            for directory in 0..50 {
                let path = format!("/watched/{directory:03}");
                let create = other.create(path, "").parents();
                create.idempotent().await.unwrap();
            }
            let path = |number: usize| format!("/watched/{:03}/{number:032}", number % 50);
            let bytes: usize = (0..COUNT).map(|number| path(number).len()).sum();
            assert!(bytes > 128 * 1024, "{bytes} bytes are no challenge");
            let subscribed = stream::iter((0..COUNT).map(|number| {
                let subscribe = session.subscribe(path(number)).timeout(MAX_WAIT);
                subscribe.into_future()
            }));
            let mut all: Vec<_> = subscribed
                .buffered(200)
                .map(|subscription| subscription.unwrap())
                .collect()
                .await;

            let server = server_of(ensemble, &session).await;
            server.kill().await.unwrap();
            for updates in &mut all {
                updates_until(updates, &Stale).await;
                assert_eq!(next(updates).await, Resynchronize);
            }
            let created = stream::iter((0..COUNT).map(|number| {
                let create = other.create(path(number), "").timeout(MAX_WAIT);
                create.idempotent().into_future()
            }));
            let created: Vec<_> = created.buffer_unordered(200).collect().await;
            assert!(created.iter().all(Result::is_ok), "{created:?}");
            for (number, updates) in all.iter_mut().enumerate() {
                updates_until(updates, &at(&path(number), Created)).await;
            }
            assert_eq!(session.state(), ConnectionState::Connected);
            let counts = session.counters();
            println!(
                "{release}: {COUNT} subscriptions, {bytes} bytes of paths, {} watches set, {} breaks",
                counts.watches, counts.connection_losses
            );
            let watched = server_of(ensemble, &session).await;
            drop(all);
            until("nothing is watched", async || {
                watched.mntr().await.unwrap().watches() == Some(0)
            })
            .await;
        })
        .await;
    })
    .await;
}

const COUNT: usize = 3000;
