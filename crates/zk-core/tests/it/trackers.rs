//! One node on a real server: its data, the wait for its end, and events that come before the consumer is ready.

use zk_core::Update::{Resynchronize, SessionLost, Stale};
use zk_core::WatchEvent::{Created, DataChanged, Deleted};
use zk_core::{
    ErrorKind, NodePath, NodeTracker, Session, Subscription, Tracked, Update, WatchEvent,
};
use zk_fault_proxy::{Clients, Close, Route};
use zk_harness::{DataStore, Ensemble};

use crate::subscriptions::without_zxid;
use crate::{MAX_WAIT, connect, until, watches_of, within};

/// How often a node comes and goes while it is followed or waited for.
const ROUNDS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn trackers_waits_and_buffers_miss_nothing_on_a_server() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .proxied(true)
        .start();
    let ensemble = ensemble.await.expect("a server starts");
    let sessions = tokio::join!(
        tracker_knows_a_node_that_comes_and_goes(&ensemble),
        tracker_survives_races_of_create_and_delete(&ensemble),
        waits_end_when_the_node_comes_or_goes(&ensemble),
        deletion_in_the_moment_of_the_wait_is_seen(&ensemble),
        early_events_are_kept_up_to_the_bound(&ensemble),
    );
    // The sessions live, so whatever watch is left was forgotten.
    until("no watch is left", async || {
        watches_of(&ensemble).await == 0
    })
    .await;
    drop(sessions);
    ensemble.down().await.expect("the server goes down");
}

async fn tracker_knows_a_node_that_comes_and_goes(ensemble: &Ensemble) {
    let (session, other) = (connect(ensemble).await, connect(ensemble).await);
    let inside = session.with_namespace("/tracked").unwrap();
    let mut tracker = inside.track("/a").await.unwrap();
    assert!(tracker.now().node.is_none());
    let mut second = tracker.clone();
    let available = tokio::spawn(async move { second.available().await });
    other.create("/tracked/a", "1").parents().await.unwrap();
    let node = within(MAX_WAIT, "the node comes", available).await;
    let node = node.unwrap().expect("the session lives");
    assert_eq!((&*node.data, node.stat.version), (&b"1"[..], 0));
    assert_eq!(data(&next(&mut tracker).await), Some(&b"1"[..]));
    other.set("/tracked/a", "2").await.unwrap();
    let before = next(&mut tracker).await;
    assert_eq!(data(&before), Some(&b"2"[..]));

    // While it is cut off, another node with the same data and version takes the place.
    cut_off(ensemble, &session).await;
    assert!(next(&mut tracker).await.is_stale);
    other.delete("/tracked/a").await.unwrap();
    other.create("/tracked/a", "").await.unwrap();
    other.set("/tracked/a", "2").await.unwrap();
    heal(ensemble, &session);
    let now = loop {
        let now = next(&mut tracker).await;
        if !now.is_stale {
            break now;
        }
    };
    let czxid = |tracked: &Tracked| tracked.node.as_ref().unwrap().stat.czxid;
    assert!(czxid(&now) > czxid(&before), "it is another node");
    other.delete("/tracked/a").await.unwrap();
    assert_eq!(data(&next(&mut tracker).await), None);

    ensemble.expire(session.id().as_i64()).await.unwrap();
    while !next(&mut tracker).await.is_over {}
    assert!(tracker.now().is_stale);
    assert!(tracker.changed().await.is_none());
    assert!(tracker.available().await.is_none());
}

/// Changes without a pause between them, of which a tracker sees some: never an older one after a newer one, and the
/// last one in the end.
async fn tracker_survives_races_of_create_and_delete(ensemble: &Ensemble) -> Session {
    let (session, writer) = (connect(ensemble).await, connect(ensemble).await);
    let mut tracker = session.track("/raced").await.unwrap();
    let writing = tokio::spawn(async move {
        for round in 0..ROUNDS {
            writer.create("/raced", round.to_string()).await.unwrap();
            writer.set("/raced", "again").await.unwrap();
            writer.delete("/raced").await.unwrap();
        }
        let (_, last) = writer.create("/raced", "last").await.unwrap();
        last
    });
    let mut newest = 0;
    while data(&tracker.now()) != Some(b"last") {
        if let Some(node) = next(&mut tracker).await.node {
            assert!(node.stat.mzxid > newest, "{newest} came before {node:?}");
            newest = node.stat.mzxid;
        }
    }
    assert_eq!(writing.await.unwrap().mzxid, newest);
    session
}

async fn waits_end_when_the_node_comes_or_goes(ensemble: &Ensemble) {
    let (session, other) = (connect(ensemble).await, connect(ensemble).await);
    let wait = session.wait_for_deletion("/waited");
    let absent = within(MAX_WAIT, "it is not there", wait.into_future());
    absent.await.unwrap();

    // Cut off, each of them: what happens meanwhile is found when the connection is back.
    let wait = session.wait_for_creation("/waited").into_future();
    let come = watching(&session, wait).await;
    cut_off(ensemble, &session).await;
    let (_, first) = other.create("/waited", "").await.unwrap();
    heal(ensemble, &session);
    let found = within(MAX_WAIT, "it comes", come).await;
    assert_eq!(found.unwrap().unwrap(), first);

    let wait = session.wait_for_deletion("/waited").into_future();
    let gone = watching(&session, wait).await;
    let watches = session.counters().watches;
    other.set("/waited", "1").await.unwrap();
    until("a change has it watch again", async || {
        session.counters().watches > watches
    })
    .await;
    assert!(!gone.is_finished(), "it was changed, not deleted");
    cut_off(ensemble, &session).await;
    other.delete("/waited").await.unwrap();
    // The next one in its place does not hide that it went.
    let (_, second) = other.create("/waited", "").await.unwrap();
    heal(ensemble, &session);
    let gone = within(MAX_WAIT, "it goes", gone).await;
    gone.unwrap().unwrap();

    let wait = |czxid| session.wait_for_deletion("/waited").created_by(czxid);
    let first_is_gone = wait(first.czxid).into_future();
    let first_is_gone = within(MAX_WAIT, "the first one is gone", first_is_gone).await;
    first_is_gone.unwrap();
    let limit = std::time::Duration::from_millis(200);
    let error = wait(second.czxid).timeout(limit).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);

    let wait = session.wait_for_deletion("/waited").into_future();
    let gone = watching(&session, wait).await;
    ensemble.expire(session.id().as_i64()).await.unwrap();
    let ended = within(MAX_WAIT, "the session ends", gone).await;
    let error = ended.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionExpired);
}

/// The deletion comes before the check, between the check and the watch, or after them.
async fn deletion_in_the_moment_of_the_wait_is_seen(ensemble: &Ensemble) -> Session {
    let (session, other) = (connect(ensemble).await, connect(ensemble).await);
    let raced = async {
        for _ in 0..ROUNDS {
            let wait = session.wait_for_creation("/brief");
            let (found, made) = tokio::join!(wait.into_future(), other.create("/brief", ""));
            assert_eq!(found.unwrap(), made.unwrap().1);
            let wait = session.wait_for_deletion("/brief");
            let (gone, deleted) = tokio::join!(wait.into_future(), other.delete("/brief"));
            gone.unwrap();
            deleted.unwrap();
        }
    };
    within(MAX_WAIT, "each wait ends", raced).await;
    session
}

async fn early_events_are_kept_up_to_the_bound(ensemble: &Ensemble) -> Session {
    let (session, other) = (connect(ensemble).await, connect(ensemble).await);
    let mut updates = session.subscribe("/early").buffer(3).await.unwrap();
    let births = session.subscribe("/early").only([Created]).buffer(3);
    let mut births = births.await.unwrap();
    // It is notified last of the three, so its updates are in the buffers of the others.
    let mut witness = session.subscribe("/early").await.unwrap();
    let change = async |data: &str| {
        other.set("/early", data).await.unwrap();
    };
    assert_eq!(update(&mut witness).await, Resynchronize);
    other.create("/early", "").await.unwrap();
    change("1").await;
    change("2").await;
    for event in [Created, DataChanged, DataChanged] {
        assert_eq!(update(&mut witness).await, early(event));
    }
    for expected in [
        Resynchronize,
        early(Created),
        early(DataChanged),
        early(DataChanged),
    ] {
        assert_eq!(update(&mut updates).await, expected);
    }

    // One more than the buffer holds: a consumer that reads again sees all of them.
    for data in ["3", "4", "5", "6"] {
        change(data).await;
        assert_eq!(update(&mut witness).await, early(DataChanged));
    }
    assert_eq!(update(&mut updates).await, Resynchronize);
    change("7").await;
    assert_eq!(update(&mut updates).await, early(DataChanged));
    assert_eq!(update(&mut witness).await, early(DataChanged));

    // What came before an outage is kept over it, and what came during it is read again.
    change("8").await;
    assert_eq!(update(&mut witness).await, early(DataChanged));
    cut_off(ensemble, &session).await;
    assert_eq!(update(&mut witness).await, Stale);
    other.delete("/early").await.unwrap();
    heal(ensemble, &session);
    assert_eq!(update(&mut witness).await, Resynchronize);
    for expected in [early(DataChanged), Stale, Resynchronize] {
        assert_eq!(update(&mut updates).await, expected);
    }
    for expected in [Resynchronize, early(Created), Stale, Resynchronize] {
        assert_eq!(update(&mut births).await, expected);
    }
    other.create("/early", "").await.unwrap();
    assert_eq!(update(&mut births).await, early(Created));
    assert_eq!(update(&mut updates).await, early(Created));

    // The end is kept, too, behind what came before it.
    let ending = connect(ensemble).await;
    let mut last = ending.subscribe("/early").await.unwrap();
    let mut witness = ending.subscribe("/early").await.unwrap();
    assert_eq!(update(&mut witness).await, Resynchronize);
    other.delete("/early").await.unwrap();
    assert_eq!(update(&mut witness).await, early(Deleted));
    ensemble.expire(ending.id().as_i64()).await.unwrap();
    while update(&mut witness).await != SessionLost {}
    assert_eq!(update(&mut last).await, Resynchronize);
    assert_eq!(update(&mut last).await, early(Deleted));
    while update(&mut last).await != SessionLost {}
    assert_eq!(last.next().await, None);
    session
}

fn early(event: WatchEvent) -> Update {
    Update::Changed {
        path: NodePath::parse("/early").expect("a good path"),
        event,
        zxid: None,
    }
}

fn data(tracked: &Tracked) -> Option<&[u8]> {
    tracked.node.as_ref().map(|node| &*node.data)
}

async fn next(tracker: &mut NodeTracker) -> Tracked {
    let changed = within(MAX_WAIT, "the tracker changes", tracker.changed()).await;
    changed.expect("the session is not over")
}

async fn update(updates: &mut Subscription) -> Update {
    let update = within(MAX_WAIT, "an update", updates.next()).await;
    without_zxid(update.expect("the session is not over"))
}

/// Starts to wait, and returns once the wait has its watch.
async fn watching<T: Send + 'static>(
    session: &Session,
    wait: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    let before = session.counters().watches;
    let wait = tokio::spawn(wait);
    until("the wait has a watch", async || {
        session.counters().watches > before
    })
    .await;
    wait
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
