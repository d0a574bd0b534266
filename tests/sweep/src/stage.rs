//! Servers behind a fault proxy, on which stories are played and struck.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use zk_core::Session;
use zk_fault_proxy::{Clients, FaultProxy, Match, Route, Rule, RuleBuilder};
use zk_harness::{DataStore, Ensemble};

use crate::SOON;
use crate::extent::{self, Draw, Extent};
use crate::scene::Scene;
use crate::strike::{SESSION_TIMEOUT, STRIKES, Strike};

/// An ensemble behind fault proxies, which stories share.
#[derive(Debug)]
pub struct Stage {
    ensemble: Ensemble,
    proxy: FaultProxy,
    /// The server that leads, and one that follows.
    homes: [u32; 2],
    /// Held while new connections are led to one server.
    routing: Mutex<()>,
    /// One permit for each scene under way.
    scenes: Semaphore,
    extent: Extent,
}

/// A story that is struck.
struct Sweep<'a, S> {
    stage: &'a Stage,
    name: &'a str,
    observer: Session,
    story: S,
}

impl Stage {
    /// Starts the servers.
    ///
    /// # Panics
    ///
    /// If they do not start, or if the variables `SWEEP` and `SEED` have no meaning.
    pub async fn new() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let extent = Extent::parse(variable("SWEEP").as_deref(), variable("SEED").as_deref());
        let extent = extent.unwrap_or_else(|wrong| panic!("{wrong}"));
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
            scenes: Semaphore::new(SCENES),
            extent,
        }
    }

    /// Plays a story once for each strike: a sample of them, or all. It has at least `least` requests.
    ///
    /// # Panics
    ///
    /// If the story panics or does not end, if it has fewer requests, or if one of the kinds of strikes hits none.
    pub async fn sweep<F>(&self, name: &str, least: u64, story: impl Fn(Scene) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let sweep = Sweep {
            stage: self,
            name,
            observer: connect(&self.ensemble.direct_connect_string(), SOON / 2).await,
            story,
        };
        let struck = match self.extent {
            Extent::Full => sweep.all(least).await,
            Extent::Sample(seed) => sweep.sample(seed, least).await,
        };
        #[expect(clippy::print_stdout, reason = "a test's output")]
        {
            println!("{name}: {struck} requests struck, {}", self.extent);
        }
    }

    /// Stops the servers.
    ///
    /// # Panics
    ///
    /// If they do not stop.
    pub async fn down(self) {
        self.ensemble.down().await.expect("the servers stop");
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
}

impl<S, F> Sweep<'_, S>
where
    S: Fn(Scene) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    /// Strikes each request by each strike at both servers; returns how many were struck.
    async fn all(&self, least: u64) -> usize {
        let strikes = STRIKES.iter().flat_map(|strike| {
            let homes = self.stage.homes.into_iter();
            homes.map(move |home| self.strike_each(strike, home))
        });
        let struck: usize = join_all(strikes).await.into_iter().sum();
        let wanted = least * 2 * STRIKES.len() as u64;
        assert!(
            struck as u64 >= wanted,
            "{}: {struck} requests struck",
            self.name
        );
        struck
    }

    /// Strikes each request by one strike at one server; returns how many were struck.
    async fn strike_each(&self, strike: &Strike, home: u32) -> usize {
        let (name, kind) = (self.name, strike.name);
        let mut total = 0;
        for first in (1..LAST).step_by(AT_ONCE) {
            let requests = (first..).take(AT_ONCE);
            let scenes = requests.map(|request| self.strike(strike, home, request));
            let struck = join_all(scenes).await;
            let struck = struck.into_iter().filter(|is_struck| *is_struck).count();
            total += struck;
            if struck < AT_ONCE {
                assert!(
                    total > 0,
                    "{name}, {kind}: nothing was struck at server {home}"
                );
                return total;
            }
        }
        panic!("{name}, {kind}: no end after {LAST} requests");
    }

    /// Strikes a sample of the requests, by each strike; returns how many were struck.
    async fn sample(&self, seed: u64, least: u64) -> usize {
        let requests = self.requests().await;
        assert!(requests >= least, "{}: {requests} requests", self.name);
        let draws = extent::sample(seed, self.name);
        let strikes = draws.iter().map(|draw| self.strike_drawn(draw, requests));
        join_all(strikes).await.len()
    }

    /// Strikes one request of so many.
    async fn strike_drawn(&self, draw: &Draw, mut requests: u64) {
        let (strike, home) = (&STRIKES[draw.strike], self.stage.homes[draw.home]);
        loop {
            let request = draw.request(requests);
            if self.strike(strike, home, request).await {
                return;
            }
            // This time it had fewer requests.
            let (name, kind) = (self.name, strike.name);
            assert!(
                request > 1,
                "{name}, {kind}: nothing was struck at server {home}"
            );
            requests = request - 1;
        }
    }

    /// Plays the story unstruck; returns how many requests it has.
    async fn requests(&self) -> u64 {
        let count = |requests: RuleBuilder| requests.pass();
        self.play("unstruck", self.stage.homes[0], count, None)
            .await
    }

    /// Plays the story once; returns whether the request was struck.
    async fn strike(&self, strike: &Strike, home: u32, request: u64) -> bool {
        let Strike { name, rule, undo } = *strike;
        let what = format!("{name}, request {request}");
        let rule = |requests: RuleBuilder| rule(requests.nth(request));
        self.play(&what, home, rule, undo).await > 0
    }

    /// Plays the story to its end with a rule for its requests; returns how often that was applied.
    async fn play(
        &self,
        what: &str,
        home: u32,
        rule: impl FnOnce(RuleBuilder) -> Rule,
        undo: Option<Duration>,
    ) -> u64 {
        let (name, stage) = (self.name, self.stage);
        let permit = stage.scenes.acquire().await;
        let struck = stage.session(home).await;
        let requests = Match::requests().session(struck.id().as_i64());
        let rule = rule(stage.proxy.on(requests));
        let scene = Scene {
            what: format!("{name}, {what} at server {home}, {}", stage.extent),
            path: format!("/{name}/{what}-{home}").replace([' ', ','], "-"),
            struck,
            observer: self.observer.clone(),
        };
        let story = (self.story)(scene.clone());
        let mut playing = JoinSet::new();
        playing.spawn(to_its_end(scene, story, rule, undo));
        let applied = playing.join_all().await.into_iter().sum();
        drop(permit);
        applied
    }
}

/// Plays a story to its end; returns how often the rule was applied.
async fn to_its_end(
    scene: Scene,
    story: impl Future<Output = ()>,
    rule: Rule,
    undo: Option<Duration>,
) -> u64 {
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
    let applied = rule.count();
    rule.remove();
    let closed = tokio::time::timeout(SOON, scene.struck.close()).await;
    assert!(closed.is_ok(), "{}: the session does not close", scene.what);
    applied
}

async fn connect(servers: &str, session_timeout: Duration) -> Session {
    Session::builder(servers)
        .session_timeout(session_timeout)
        .operation_timeout(SOON)
        .connect()
        .await
        .expect("a server grants a session")
}

/// How many scenes are under way at once.
const SCENES: usize = 64;
/// How many of those have the same strike, story and home.
const AT_ONCE: usize = 4;
/// The longest story has fewer requests; one that has more is a story without end.
const LAST: u64 = 80;
