//! The handle of an ensemble, and its builder.

use std::sync::Arc;
use std::time::Duration;

use zk_core::transport::Request;
use zk_core::{NodePath, RetryPolicy, SessionId, Sessions};

use crate::connect::Connect;
use crate::control::{ServerHandle, SessionHandle};
use crate::driver::Driver;
use crate::faults::Script;
use crate::release::Release;
use crate::request_log::LoggedRequest;
use crate::tree::{Counters, Tree};
use crate::world::{Settings, World};

/// A simulated ensemble. Clones share it.
///
/// # Dropping
///
/// The ensemble lives as long as one of its sessions or handles.
#[derive(Debug, Clone)]
pub struct Ensemble {
    driver: Arc<Driver>,
}

impl Ensemble {
    /// Creates an ensemble with this number of servers and an empty tree.
    ///
    /// # Panics
    ///
    /// If `servers` is zero.
    pub fn new(servers: usize) -> Self {
        Self::builder().servers(servers).build()
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> EnsembleBuilder {
        EnsembleBuilder::default()
    }

    pub(crate) fn driver(&self) -> &Arc<Driver> {
        &self.driver
    }

    /// Opens a session.
    pub fn connect(&self) -> Connect {
        Connect::new(Arc::clone(&self.driver))
    }

    /// Starts to open sessions, one after the other, with the default settings.
    ///
    /// # Panics
    ///
    /// Panics if called outside a Tokio runtime.
    pub fn open_sessions(&self) -> Sessions {
        let ensemble = self.clone();
        let connect = move || {
            let connecting = ensemble.connect();
            async move { Ok(connecting.await) }
        };
        Sessions::with_connector(connect, RetryPolicy::default())
    }

    /// Returns a server by its number, from 1.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn server(&self, number: usize) -> ServerHandle {
        ServerHandle::new(&self.driver, number)
    }

    /// Returns the handle of a session of this ensemble.
    ///
    /// # Panics
    ///
    /// If it is not a session of this ensemble.
    pub fn session(&self, session: SessionId) -> SessionHandle {
        SessionHandle::new(&self.driver, session)
    }

    /// Makes the leader expire a session, see [`SessionHandle::expire`].
    ///
    /// # Panics
    ///
    /// If it is not a session of this ensemble.
    pub fn expire(&self, session: SessionId) {
        self.session(session).expire();
    }

    /// Starts a script for requests that match `matcher`; [`matching`](crate::matching) has matchers.
    ///
    /// The matcher must not use the ensemble.
    pub fn on(&self, matcher: impl Fn(&Request) -> bool + Send + 'static) -> Script {
        Script::new(&self.driver, matcher)
    }

    /// Returns the number of servers.
    pub fn servers(&self) -> usize {
        self.driver.with(|world| world.servers().len())
    }

    /// Returns the last requests, as [`requests`](Self::requests) does.
    pub fn last_requests(&self, count: usize) -> Vec<LoggedRequest> {
        self.driver.with(|world| world.last_seen(count))
    }

    /// Returns the number of the leader, from 1, if there is one.
    pub fn leader(&self) -> Option<usize> {
        self.driver
            .with(|world| world.leading().map(|index| index + 1))
    }

    /// Starts all stopped and paused servers, lets all servers catch up, and ends all partitions and silences.
    ///
    /// Scripted failures persist, and held or stalled requests are not released.
    pub fn heal(&self) {
        self.driver.with(World::heal_all);
    }

    /// Returns the live sessions, in the order in which they were opened.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.driver.with(|world| {
            let alive = world.clients().filter(|client| client.is_alive);
            alive.map(|client| client.id).collect()
        })
    }

    /// Returns the zxid of the latest committed transaction.
    pub fn zxid(&self) -> i64 {
        self.driver.with(|world| world.leader().zxid())
    }

    /// Returns the time since the first session was opened.
    pub fn now(&self) -> Duration {
        self.driver.with(|world| world.now())
    }

    /// Returns the number of all requests, including those no longer in the log.
    pub fn request_count(&self) -> usize {
        self.driver.with(|world| world.count_jobs())
    }

    /// Returns the requests in the order of sending, with their outcomes; at most as many as the
    /// [log](EnsembleBuilder::request_log) keeps.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.driver.with(|world| world.seen())
    }

    /// Returns the number of requests that match `matcher` and have reached a server.
    pub fn arrived(&self, matcher: impl Fn(&Request) -> bool) -> usize {
        self.requests()
            .iter()
            .filter(|seen| seen.has_arrived() && matcher(&seen.request))
            .count()
    }

    /// Returns the leader's nodes, with everything that was committed.
    pub fn tree(&self) -> Tree {
        self.driver.with(|world| world.leader().tree().clone())
    }

    /// Returns the number of watches on all servers, see [`ServerHandle::watch_count`].
    pub fn watch_count(&self) -> usize {
        self.driver.with(|world| {
            world
                .servers()
                .iter()
                .map(|server| server.watches.count())
                .sum()
        })
    }

    /// Sets the sequence number of the next sequential child of a node.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn set_counter(&self, path: &str, counter: i32) {
        let is_there = NodePath::parse(path)
            .is_ok_and(|path| self.driver.with(|world| world.set_counter(&path, counter)));
        assert!(is_there, "there is no node {path:?}: create it first");
    }

    /// Deletes empty containers and expired TTL nodes, as a leader does periodically. Returns their number.
    pub fn reap(&self) -> usize {
        self.driver.with(World::reap)
    }
}

/// The settings of an [`Ensemble`].
#[derive(Debug, Clone, Default)]
#[must_use = "`build` creates the ensemble"]
pub struct EnsembleBuilder {
    settings: Settings,
}

impl EnsembleBuilder {
    /// Sets the number of servers; default 3.
    pub fn servers(mut self, servers: usize) -> Self {
        self.settings.servers = servers;
        self
    }

    /// Sets the one-way latency between client and server; default 1 ms.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.settings.latency = latency;
        self
    }

    /// Sets the bytes per second of each link from server to client, so that replies queue up; default unlimited.
    ///
    /// # Panics
    ///
    /// If it is zero.
    pub fn bandwidth(mut self, bytes_per_second: u32) -> Self {
        assert!(
            bytes_per_second > 0,
            "the bandwidth is zero: set at least 1"
        );
        self.settings.bandwidth = Some(bytes_per_second);
        self
    }

    /// Sets the pause of a client without a link before it tries the next server; default 10 ms.
    pub fn reconnect_after(mut self, pause: Duration) -> Self {
        self.settings.reconnect = pause;
        self
    }

    /// Sets how sequence numbers behave after 2147483647; default, they stick.
    pub fn counters(mut self, counters: Counters) -> Self {
        self.settings.counters = counters;
        self
    }

    /// Lets the leader [`reap`](Ensemble::reap) at this interval; default never.
    pub fn reap_every(mut self, interval: Duration) -> Self {
        self.settings.reap_every = Some(interval);
        self
    }

    /// Sets the seed of all random choices; default 0.
    ///
    /// It also determines the unique names and the retry delays of the sessions.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Sets the release whose behaviour the servers have; default the newest.
    pub fn release(mut self, release: Release) -> Self {
        self.settings.release = release;
        self
    }

    /// Lets servers without a leader grant read-only sessions to clients that
    /// [accept them](crate::Connect::allow_read_only); default, they do not.
    ///
    /// Only that server knows such a session, which ends with the link, as with `readonlymode.enabled` and
    /// `localSessionsEnabled`.
    pub fn read_only(mut self) -> Self {
        self.settings.read_only = true;
        self
    }

    /// Disables persistent watches and all other requests that servers know since 3.6: those that read several nodes, list
    /// ephemeral nodes, count nodes and return identities.
    ///
    /// The servers refuse such a request and close the connection, as with every unknown request. Simulated sessions
    /// [assume](zk_core::SessionBuilder::assume_release) release 3.5, and so send none.
    pub fn without_persistent_watches(mut self) -> Self {
        self.settings.persistent_watches = false;
        self
    }

    /// Sets the longest request that servers read, in bytes; default 1048575, as `jute.maxbuffer`.
    ///
    /// A longer request breaks the link. `zk-core` refuses requests longer than the default before it sends them.
    /// Replies have no limit, because the client crate sets none.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.settings.max_request = bytes;
        self
    }

    /// Sets the capacity of the [log of requests](Ensemble::requests); default 2^20.
    ///
    /// When it is full, the oldest finished requests are dropped.
    pub fn request_log(mut self, requests: usize) -> Self {
        self.settings.request_log = requests;
        self
    }

    /// Creates the ensemble.
    ///
    /// # Panics
    ///
    /// If there are no servers, or a pause is zero: a client would retry forever without time passing.
    pub fn build(self) -> Ensemble {
        let Settings {
            servers,
            reconnect,
            reap_every,
            ..
        } = &self.settings;
        assert!(*servers > 0, "the ensemble has no server: set at least 1");
        assert!(
            !reconnect.is_zero() && reap_every.is_none_or(|interval| !interval.is_zero()),
            "`reconnect_after` or `reap_every` is zero: set a longer pause"
        );
        Ensemble {
            driver: Arc::new(Driver::new(self.settings)),
        }
    }
}
