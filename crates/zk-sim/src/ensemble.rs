//! The ensemble as a test holds it.

use std::sync::Arc;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::transport::Request;

use crate::connect::Connect;
use crate::control::ServerHandle;
use crate::control::SessionHandle;
use crate::driver::Driver;
use crate::faults::Script;
use crate::release::Release;
use crate::request_log::LoggedRequest;
use crate::script::Proposal;
use crate::tree::Counters;
use crate::tree::Tree;
use crate::world::Settings;
use crate::world::World;

/// A simulated ensemble. Clones share it.
///
/// # Dropping
///
/// It lives as long as one of its sessions or handles.
#[derive(Debug, Clone)]
pub struct Ensemble {
    driver: Arc<Driver>,
}

impl Ensemble {
    /// Makes an ensemble of so many servers, each with an empty tree.
    ///
    /// # Panics
    ///
    /// When there is no server at all.
    pub fn new(servers: usize) -> Self {
        Self::builder().servers(servers).build()
    }

    /// Starts to describe an ensemble.
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

    /// Returns a server by its number, from 1.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn server(&self, number: usize) -> ServerHandle {
        ServerHandle::new(&self.driver, number)
    }

    /// Returns a session of this ensemble, to look at or to disturb.
    ///
    /// # Panics
    ///
    /// When it is not a session of this ensemble.
    pub fn session(&self, session: SessionId) -> SessionHandle {
        SessionHandle::new(&self.driver, session)
    }

    /// Has the leader expire a session now, see [`SessionHandle::expire`].
    ///
    /// # Panics
    ///
    /// When it is not a session of this ensemble.
    pub fn expire(&self, session: SessionId) {
        self.session(session).expire();
    }

    /// Starts to script a failure of requests that `matcher` matches; [`matching`](crate::matching) has matchers.
    ///
    /// The matcher must not use the ensemble.
    pub fn on(&self, matcher: impl Fn(&Request) -> bool + Send + 'static) -> Script {
        Script::new(&self.driver, matcher)
    }

    /// Returns how many servers there are.
    pub fn servers(&self) -> usize {
        self.driver.with(|world| world.servers().len())
    }

    /// Returns the last requests, as [`requests`](Self::requests) does.
    pub fn last_requests(&self, count: usize) -> Vec<LoggedRequest> {
        self.driver.with(|world| world.last_seen(count))
    }

    /// Returns the server that leads, from 1, if there is one.
    pub fn leader(&self) -> Option<usize> {
        self.driver
            .with(|world| world.leading().map(|index| index + 1))
    }

    /// Starts every server that is stopped or paused, lets all of them catch up, and ends every partition and silence.
    ///
    /// What is scripted stays, and what is held or stalled is not released.
    pub fn heal(&self) {
        self.driver.with(World::heal_all);
    }

    /// Returns the sessions that the leader keeps, in the order in which they were opened.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.driver.with(|world| {
            let alive = world.clients().filter(|client| client.is_alive);
            alive.map(|client| client.id).collect()
        })
    }

    /// Returns the latest transaction that was committed.
    pub fn zxid(&self) -> i64 {
        self.driver.with(|world| world.leader().zxid())
    }

    /// Returns how much time has passed since the first session was opened.
    pub fn now(&self) -> Duration {
        self.driver.with(|world| world.now())
    }

    /// Returns how many requests there have been, those that are no longer on record included.
    pub fn request_count(&self) -> usize {
        self.driver.with(|world| world.count_jobs())
    }

    /// Returns every request so far, in the order of sending, with what became of it; at most so many as are kept on
    /// [record](EnsembleBuilder::record).
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.driver.with(|world| world.seen())
    }

    /// Returns how many requests that `matcher` matches have reached a server.
    pub fn arrived(&self, matcher: impl Fn(&Request) -> bool) -> usize {
        self.requests()
            .iter()
            .filter(|seen| seen.has_arrived() && matcher(&seen.request))
            .count()
    }

    /// Returns the nodes as the leader has them: with everything that was committed.
    pub fn tree(&self) -> Tree {
        self.driver.with(|world| world.leader().tree().clone())
    }

    /// Returns how many watches the servers keep, see [`ServerHandle::watch_count`].
    pub fn watch_count(&self) -> usize {
        self.driver.with(|world| {
            world
                .servers()
                .iter()
                .map(|server| server.watches.count())
                .sum()
        })
    }

    /// Sets the number that the next sequential child of a node gets.
    ///
    /// # Panics
    ///
    /// When there is no such node.
    pub fn set_counter(&self, path: &str, counter: i32) {
        let is_there = NodePath::parse(path)
            .is_ok_and(|path| self.driver.with(|world| world.set_counter(&path, counter)));
        assert!(is_there, "there is no node {path:?} whose counter to set");
    }

    /// Deletes containers whose last child is gone and nodes that outlived their time to live, as a leader does from
    /// time to time. Returns how many.
    pub fn reap(&self) -> usize {
        self.driver.with(World::reap)
    }
}

/// How an [`Ensemble`] is to be.
#[derive(Debug, Clone, Default)]
#[must_use = "it is made by `build`"]
pub struct EnsembleBuilder {
    settings: Settings,
}

impl EnsembleBuilder {
    /// Sets how many servers there are; default 3.
    pub fn servers(mut self, servers: usize) -> Self {
        self.settings.servers = servers;
        self
    }

    /// Sets how long a message between client and server takes, one way; default 1 ms.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.settings.latency = latency;
        self
    }

    /// Sets how many bytes per second each link carries from the server to its client, so that answers queue up; default no
    /// limit.
    ///
    /// # Panics
    ///
    /// If it is zero.
    pub fn bandwidth(mut self, bytes_per_second: u32) -> Self {
        assert!(bytes_per_second > 0, "a link carries something");
        self.settings.bandwidth = Some(bytes_per_second);
        self
    }

    /// Sets how long a client without a link takes to try the next server; default 10 ms.
    pub fn reconnect_after(mut self, pause: Duration) -> Self {
        self.settings.reconnect = pause;
        self
    }

    /// Sets what becomes of the counter of a parent after 2147483647; default, it sticks.
    pub fn counters(mut self, counters: Counters) -> Self {
        self.settings.counters = counters;
        self
    }

    /// Lets the leader [`reap`](Ensemble::reap) each time so much time has passed; default never.
    pub fn reap_every(mut self, interval: Duration) -> Self {
        self.settings.reap_every = Some(interval);
        self
    }

    /// Sets where everything that happens by chance comes from; default 0.
    ///
    /// The unique names and the pauses between the attempts of its sessions come from there, too.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Sets whose ways the servers have, where releases differ; default the newest.
    pub fn release(mut self, release: Release) -> Self {
        self.settings.release = release;
        self
    }

    /// Sets how long it takes the servers to find a leader when there is none; default 300 ms.
    pub fn election(mut self, duration: Duration) -> Self {
        self.settings.election = duration;
        self
    }

    /// Sets how long it takes a server that is started to serve, when there is a leader; default 200 ms.
    pub fn joining(mut self, duration: Duration) -> Self {
        self.settings.joining = duration;
        self
    }

    /// Sets how long a server that is paused is waited for by the others before they do without it; default 1 s.
    ///
    /// A real ensemble waits for `syncLimit` times `tickTime`.
    pub fn sync_limit(mut self, duration: Duration) -> Self {
        self.settings.sync_limit = duration;
        self
    }

    /// Sets what becomes of writes that wait for a quorum when the leader is lost; default, they vanish.
    pub fn proposals(mut self, proposals: Proposal) -> Self {
        self.settings.proposals = proposals;
        self
    }

    /// Lets servers that have no leader grant sessions that only read, to who
    /// [allows it](crate::Connect::allow_read_only); default, they grant none.
    ///
    /// Such a session is of that server alone and ends with the link, as with `readonlymode.enabled` and
    /// `localSessionsEnabled`.
    pub fn read_only(mut self) -> Self {
        self.settings.read_only = true;
        self
    }

    /// Lets the servers have no persistent watches, as those before 3.6; default, they have them.
    ///
    /// They say so to who asks for one, and close the connection, as they do with every request that they do not know.
    pub fn without_persistent_watches(mut self) -> Self {
        self.settings.persistent_watches = false;
        self
    }

    /// Sets the longest request that servers read, in bytes; default 1048575, as `jute.maxbuffer`.
    ///
    /// Whoever sends a longer one loses the link. `zk-core` refuses what is longer than the default before it is sent.
    /// Answers have no limit: the client crate reads them however long they are.
    pub fn max_request(mut self, bytes: usize) -> Self {
        self.settings.max_request = bytes;
        self
    }

    /// Sets how many requests are kept on [record](Ensemble::requests); default 2^20.
    ///
    /// The oldest are forgotten, as soon as they are finished.
    pub fn record(mut self, requests: usize) -> Self {
        self.settings.record = requests;
        self
    }

    /// Makes the ensemble.
    ///
    /// # Panics
    ///
    /// When there is no server at all, or a pause is zero: a client would try for ever in one moment.
    pub fn build(self) -> Ensemble {
        let Settings {
            servers,
            reconnect,
            reap_every,
            ..
        } = &self.settings;
        assert!(*servers > 0, "an ensemble has at least one server");
        assert!(
            !reconnect.is_zero() && reap_every.is_none_or(|interval| !interval.is_zero()),
            "the pauses between attempts and between reapings are longer than nothing"
        );
        Ensemble {
            driver: Arc::new(Driver::new(self.settings)),
        }
    }
}
