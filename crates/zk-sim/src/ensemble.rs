//! The ensemble as a test holds it.

use std::sync::Arc;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::transport::Request;

use crate::connect::Connect;
use crate::control::ServerHandle;
use crate::control::SessionHandle;
use crate::faults::Script;
use crate::record::Seen;
use crate::shared::Shared;
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
    shared: Arc<Shared>,
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

    /// Opens a session.
    pub fn connect(&self) -> Connect {
        Connect::new(Arc::clone(&self.shared))
    }

    /// Returns a server by its number, from 1.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn server(&self, number: usize) -> ServerHandle {
        ServerHandle::new(&self.shared, number)
    }

    /// Returns a session of this ensemble, to look at or to disturb.
    ///
    /// # Panics
    ///
    /// When it is not a session of this ensemble.
    pub fn session(&self, session: SessionId) -> SessionHandle {
        SessionHandle::new(&self.shared, session)
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
        Script::new(&self.shared, matcher)
    }

    /// Returns every request so far, in the order of sending, with what became of it.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.with(|world| world.seen())
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
        self.shared.with(|world| world.leader().tree().clone())
    }

    /// Returns how many watches the servers keep: each session once for each node and kind.
    pub fn watch_count(&self) -> usize {
        self.shared.with(|world| {
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
            .is_ok_and(|path| self.shared.with(|world| world.set_counter(&path, counter)));
        assert!(is_there, "there is no node {path:?} whose counter to set");
    }

    /// Deletes containers whose last child is gone and nodes that outlived their time to live, as a leader does from
    /// time to time. Returns how many.
    pub fn reap(&self) -> usize {
        self.shared.with(World::reap)
    }
}

/// How an [`Ensemble`] is to be.
#[derive(Debug, Clone)]
#[must_use = "it is made by `build`"]
pub struct EnsembleBuilder {
    settings: Settings,
}

impl Default for EnsembleBuilder {
    fn default() -> Self {
        Self {
            settings: Settings {
                servers: 3,
                latency: Duration::from_millis(1),
                reconnect: Duration::from_millis(10),
                counters: Counters::default(),
                reap_every: None,
            },
        }
    }
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
            shared: Arc::new(Shared::new(self.settings)),
        }
    }
}
