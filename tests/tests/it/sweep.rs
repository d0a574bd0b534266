//! Crash-point sweeps: one after the other, every request of a story is struck by everything that may strike it.
//!
//! The servers are real, and the fault proxy injects the faults. The affected client begins at a certain server, the
//! leader or a follower, and reconnects to another one, which lags as far as it may.

mod barrier;
mod breadcrumb;
mod counter;
mod group;
mod lock;
mod one_shot_lease;
mod operations;
mod other_locks;
mod partitioner;
mod persistent_node;
mod queue;
mod rw;
mod semaphore;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_fault_proxy::{Clients, Close, FaultProxy, Match, Route, Rule, RuleBuilder};
use zk_harness::{DataStore, Ensemble};
use zk_lock::Inspector;

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(60);
/// Of the session that is struck: a third of it is left to come back in after a silence.
const SESSION_TIMEOUT: Duration = Duration::from_secs(8);
/// How many stories with the same strike and home are under way at once.
const AT_ONCE: u64 = 4;
/// The longest story has fewer requests; one that has more is a story without end.
const LAST: u64 = 80;

/// What strikes, and how long until it is undone, for what does not end by itself.
type Strike = (&'static str, fn(RuleBuilder) -> Rule, Option<Duration>);

const STRIKES: [Strike; 7] = [
    ("the request is lost", RuleBuilder::drop_then_cut, None),
    (
        "cut behind the request",
        RuleBuilder::forward_then_cut,
        None,
    ),
    ("the reply is lost", RuleBuilder::cut_on_reply, None),
    (
        "the reply is lost by a reset",
        |rule| rule.close(Close::Rst).cut_on_reply(),
        None,
    ),
    ("late", |rule| rule.delay(Duration::from_millis(150)), None),
    ("held", RuleBuilder::hold, Some(Duration::from_millis(400))),
    // The client notices by itself, after two thirds of its session timeout.
    ("silence", RuleBuilder::black_hole, Some(SESSION_TIMEOUT)),
];

/// An ensemble behind fault proxies, and how to get at its servers.
struct Stage {
    ensemble: Ensemble,
    proxy: FaultProxy,
    /// The server that leads, and one that follows.
    homes: [u32; 2],
    /// Held while new connections are led to one server.
    routing: Mutex<()>,
}

impl Stage {
    async fn new() -> Self {
        let ensemble = Ensemble::builder()
            .servers(3)
            .data(DataStore::Memory)
            .proxied(true)
            // The servers stay together over a few seconds in which the machine stands still.
            .sync_limit(25)
            .start_timeout(Duration::from_secs(120))
            .start()
            .await
            .expect("the servers start");
        let leader = ensemble.wait_leader(SOON).await.expect("one leads").id();
        let follower = (1..=3).find(|id| *id != leader).expect("there are three");
        let proxy = ensemble.proxy().expect("it was started with one");
        Self {
            ensemble,
            proxy,
            homes: [leader, follower],
            routing: Mutex::default(),
        }
    }

    /// A session at server `home`, which comes back at another one.
    async fn session(&self, home: u32) -> Session {
        let to = |server| {
            self.proxy
                .route(Clients::All, server)
                .expect("it is one of three");
        };
        let routing = self.routing.lock().await;
        to(Route::To(home));
        let session = connect(&self.ensemble.connect_string(), SESSION_TIMEOUT).await;
        to(Route::SameServer);
        drop(routing);
        let id = session.id().as_i64();
        let other = (1..=3)
            .rev()
            .find(|id| *id != home)
            .expect("there are three");
        let back = self.proxy.route(Clients::Session(id), Route::To(other));
        back.expect("it is one of three");
        session
    }

    /// A session that nothing strikes.
    async fn observer(&self) -> Session {
        connect(&self.ensemble.direct_connect_string(), SOON / 2).await
    }
}

async fn connect(servers: &str, session_timeout: Duration) -> Session {
    Session::builder(servers)
        .session_timeout(session_timeout)
        .operation_timeout(SOON)
        .connect()
        .await
        .expect("a server grants a session")
}

/// What a story has to play with.
#[derive(Clone)]
struct Scene {
    /// Which strike, where, and on which request.
    what: String,
    /// A path that no other scene uses.
    path: String,
    struck: Session,
    observer: Session,
}

/// Plays the story once for each of its requests and each strike; returns how many requests were struck.
async fn sweep<F>(stage: &Stage, name: &str, story: impl Fn(Scene) -> F) -> u64
where
    F: Future<Output = ()> + Send + 'static,
{
    let observer = stage.observer().await;
    let mut sweeping = Vec::new();
    for (index, strike) in STRIKES.into_iter().enumerate() {
        for home in homes(stage, index) {
            sweeping.push(strike_each(stage, name, &observer, &story, strike, home));
        }
    }
    join_all(sweeping).await.into_iter().sum()
}

/// The servers at which a strike is played: the leader and the follower in turn, or both with `SWEEP=full` in the
/// environment, which takes twice as long.
fn homes(stage: &Stage, strike: usize) -> Vec<u32> {
    match std::env::var("SWEEP") {
        Ok(extent) if extent == "full" => stage.homes.to_vec(),
        Ok(extent) => panic!("SWEEP={extent:?} is not known: use full, or leave it out"),
        Err(_) => vec![stage.homes[strike % 2]],
    }
}

/// Plays the story once for each of its requests; returns how many requests were struck.
async fn strike_each<F>(
    stage: &Stage,
    name: &str,
    observer: &Session,
    story: &impl Fn(Scene) -> F,
    (strike, make, undo): Strike,
    home: u32,
) -> u64
where
    F: Future<Output = ()> + Send + 'static,
{
    let (mut nth, mut total) = (0, 0);
    loop {
        let mut scenes = JoinSet::new();
        for _ in 0..AT_ONCE {
            nth += 1;
            let struck = stage.session(home).await;
            let matching = Match::requests().session(struck.id().as_i64());
            let rule = make(stage.proxy.on(matching).nth(nth));
            let scene = Scene {
                what: format!("{name}, {strike}, request {nth} at server {home}"),
                path: format!("/{name}/{strike}-{home}-{nth}").replace(' ', "-"),
                struck,
                observer: observer.clone(),
            };
            scenes.spawn(play(scene.clone(), story(scene), rule, undo));
        }
        let struck: u64 = scenes.join_all().await.into_iter().map(u64::from).sum();
        total += struck;
        if struck < AT_ONCE {
            assert!(
                total > 0,
                "{name}, {strike}: nothing was struck at server {home}"
            );
            return total;
        }
        assert!(nth < LAST, "{name}, {strike}: no end after {nth} requests");
    }
}

/// Plays one scene to its end; returns whether its request was struck.
async fn play(
    scene: Scene,
    story: impl Future<Output = ()>,
    rule: Rule,
    undo: Option<Duration>,
) -> bool {
    let undoing = async {
        // Undone from outside: the story may wait for it.
        if let Some(after) = undo
            && rule.happened(SOON).await.is_ok()
        {
            tokio::time::timeout(after, std::future::pending::<()>())
                .await
                .expect_err("nothing comes of it");
            rule.remove();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = tokio::time::timeout(SOON, story) => {
            assert!(ended.is_ok(), "{}: not over after {SOON:?}", scene.what);
        }
        () = undoing => {}
    }
    let struck = rule.count() > 0;
    rule.remove();
    let closed = tokio::time::timeout(SOON, scene.struck.close()).await;
    assert!(closed.is_ok(), "{}: the session does not close", scene.what);
    struck
}

/// Waits until it is so, for at most two seconds: a strike may keep it from that.
async fn until_or_late<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    let looking = async {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        while !is_so().await {
            looks.tick().await;
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(2), looking).await);
}

/// Waits until one contender waits, or until something keeps it from that: both are of interest.
async fn until_one_waits(inspector: &Inspector) {
    until_or_late(|| async { contenders(inspector).await >= 2 }).await;
}

/// Counts the contenders that a session sees which nothing strikes.
async fn contenders(inspector: &Inspector) -> usize {
    let seen = inspector.contenders().await;
    seen.expect("nothing strikes this one").len()
}

/// Checks that no contender is left after the session has cleaned up.
async fn no_contender_is_left(scene: &Scene, inspector: &Inspector) {
    let what = &scene.what;
    settled(scene).await;
    let caught_up = scene.observer.sync(scene.path.as_str()).with_quorum().await;
    caught_up.expect("nothing strikes this one");
    let left = inspector.contenders().await;
    let left = left.expect("nothing strikes this one");
    assert!(left.is_empty(), "{what}: left behind: {left:?}");
}

/// Waits until the session has nothing left to clean up.
async fn settled(scene: &Scene) {
    let settled = tokio::time::timeout(SOON, scene.struck.settled()).await;
    assert!(settled.is_ok(), "{}: it does not settle", scene.what);
}
