//! Handles with which a test inspects and disturbs servers and sessions.

use std::sync::Arc;
use std::time::Duration;

use zk_core::SessionId;

use crate::driver::Driver;
use crate::server::Lag;
use crate::tree::Tree;
use crate::world::Break;

/// A server of an ensemble.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    driver: Arc<Driver>,
    /// From zero.
    index: usize,
}

impl ServerHandle {
    pub(crate) fn new(driver: &Arc<Driver>, number: usize) -> Self {
        Self {
            index: index(driver, number),
            driver: Arc::clone(driver),
        }
    }

    /// Stops applying committed transactions until [`catch_up`](Self::catch_up).
    ///
    /// Its sessions read old data, and get no reply to a write or a sync until then.
    ///
    /// If it leads, the transactions wait for their commit, so that no server applies them. As on real servers, the syncs
    /// of its sessions are answered nevertheless.
    pub fn lag(&self) {
        self.set(Lag::Endless);
    }

    /// Delays each transaction by `behind` after its commit.
    pub fn lag_by(&self, behind: Duration) {
        self.set(Lag::By(behind));
    }

    /// Stops applying transactions for this time, and then applies all at once.
    pub fn lag_for(&self, duration: Duration) {
        self.driver.with(|world| {
            let until = world.now() + duration;
            world.set_lag(self.index, Lag::Until(until));
        });
    }

    /// Applies all transactions, now and in the future.
    pub fn catch_up(&self) {
        self.set(Lag::None);
    }

    /// Ends its process. Its links break; if it leads, or a quorum is lost, all links break.
    ///
    /// If there is no leader and a quorum runs, the other servers elect one.
    /// Acknowledged writes survive.
    pub fn stop(&self) {
        self.driver.with(|world| world.stop(self.index));
    }

    /// Starts its process after [`stop`](Self::stop), with its data, or continues it after [`pause`](Self::pause).
    ///
    /// It catches up with the leader before it serves. Without a leader it takes part in an election.
    pub fn start(&self) {
        self.driver.with(|world| world.start(self.index));
    }

    /// Suspends its process: it sends nothing, and its links stay up.
    ///
    /// Clients detect it like a [silent link](SessionHandle::silence). The other servers exclude it after a second.
    pub fn pause(&self) {
        self.driver.with(|world| world.pause(self.index));
    }

    /// Continues its process after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.start();
    }

    /// Returns whether it serves clients: it runs, and leads or follows a leader.
    pub fn is_serving(&self) -> bool {
        self.driver
            .with(|world| world.leading().is_some() && world.servers()[self.index].is_serving())
    }

    /// Returns whether it leads.
    pub fn is_leader(&self) -> bool {
        self.driver
            .with(|world| world.leading() == Some(self.index))
    }

    /// Returns the nodes of this server.
    pub fn tree(&self) -> Tree {
        self.driver
            .with(|world| world.servers()[self.index].tree.clone())
    }

    /// Returns the number of its watches, as servers count them: one per session, node and kind, and two for a
    /// persistent watch that is not recursive.
    pub fn watch_count(&self) -> usize {
        self.driver
            .with(|world| world.servers()[self.index].watches.count())
    }

    /// Returns the sessions that are connected to it.
    pub fn sessions(&self) -> Vec<SessionId> {
        self.driver.with(|world| {
            world
                .clients()
                .filter(|client| client.server == self.index && client.is_up())
                .map(|client| client.id)
                .collect()
        })
    }

    fn set(&self, lag: Lag) {
        self.driver.with(|world| world.set_lag(self.index, lag));
    }
}

/// A session of an ensemble, and its link.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    driver: Arc<Driver>,
    session: SessionId,
}

impl SessionHandle {
    pub(crate) fn new(driver: &Arc<Driver>, session: SessionId) -> Self {
        let is_known = driver.with(|world| world.client(session).is_some());
        assert!(is_known, "session {session} belongs to another ensemble");
        Self {
            driver: Arc::clone(driver),
            session,
        }
    }

    /// Breaks the link. The client reconnects to the next server after the usual pause.
    pub fn cut(&self) {
        self.break_link(None, None);
    }

    /// Breaks the link. The client reconnects to the next server after `pause`.
    pub fn cut_for(&self, pause: Duration) {
        self.break_link(None, Some(pause));
    }

    /// Breaks the link. The client reconnects to `server`, from 1, after the usual pause.
    ///
    /// As on real servers, a server that lags behind what the session has seen rejects it, and it tries the next one.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn move_to(&self, server: usize) {
        let to = index(&self.driver, server);
        self.break_link(Some(to), None);
    }

    /// Breaks the link until [`heal`](Self::heal).
    ///
    /// The leader expires the session one timeout after it last heard of it; the client gives up after 7/5 of that.
    pub fn partition(&self) {
        self.driver.with(|world| world.partition(self.session));
    }

    /// Drops all messages on the link; both sides keep the connection open.
    ///
    /// The client breaks the link when it has received nothing for 2/5 of the session timeout, as `zk-core` does, and
    /// reconnects to the next server.
    /// The leader's timeout runs since it last heard of the session, until it hears of it again.
    pub fn silence(&self) {
        self.driver.with(|world| world.silence(self.session));
    }

    /// Ends a partition or a silence. After a partition the client reconnects to the next server after the usual pause;
    /// after a silence that the client has not detected, the delayed messages arrive.
    pub fn heal(&self) {
        self.driver.with(|world| world.heal(self.session));
    }

    /// Makes the leader expire the session.
    ///
    /// Its ephemeral nodes are deleted immediately, or as soon as there is a leader. The client is notified when its
    /// server has applied that.
    pub fn expire(&self) {
        self.driver.with(|world| world.expire(self.session));
    }

    /// Lets the link report the end of the session this much later than a reply does; by default at once.
    ///
    /// Real clients report it a moment later as well.
    pub fn delay_end(&self, delay: Duration) {
        self.driver
            .with(|world| world.delay_end(self.session, delay));
    }

    /// Returns the server it is connected to, from 1.
    pub fn server(&self) -> Option<usize> {
        self.driver.with(|world| {
            world
                .client(self.session)
                .filter(|client| client.is_up())
                .map(|client| client.server + 1)
        })
    }

    /// Returns whether the leader keeps the session.
    pub fn is_alive(&self) -> bool {
        self.driver
            .with(|world| world.client(self.session).is_some_and(|one| one.is_alive))
    }

    fn break_link(&self, to: Option<usize>, after: Option<Duration>) {
        let how = Break {
            to,
            after,
            ..Break::because("connection reset by the test")
        };
        self.driver
            .with(|world| world.break_link(self.session, &how));
    }
}

/// Converts the number of a server to its index.
pub(crate) fn index(driver: &Arc<Driver>, number: usize) -> usize {
    let servers = driver.with(|world| world.servers().len());
    assert!(
        (1..=servers).contains(&number),
        "there is no server {number}: the ensemble has 1 to {servers}"
    );
    number - 1
}
