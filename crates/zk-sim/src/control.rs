//! Handles by which a test looks at servers and sessions and disturbs them.

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

    /// Lets it apply nothing more of what the leader commits, until [`catch_up`](Self::catch_up).
    ///
    /// Its sessions read what was there before, and have no answer to a write or a sync until then.
    pub fn lag(&self) {
        self.set(Lag::Endless);
    }

    /// Lets it apply each transaction so long after the leader has committed it.
    pub fn lag_by(&self, behind: Duration) {
        self.set(Lag::By(behind));
    }

    /// Lets it apply nothing for so long, and then all at once.
    pub fn lag_for(&self, duration: Duration) {
        self.driver.with(|world| {
            let until = world.now() + duration;
            world.set_lag(self.index, Lag::Until(until));
        });
    }

    /// Lets it apply everything, now and from now on.
    pub fn catch_up(&self) {
        self.set(Lag::None);
    }

    /// Ends its process: its links break, and if it leads, or the others are too few without it, all do.
    ///
    /// The others elect a leader when there is none and more than half of all servers run.
    /// What was acknowledged is kept.
    pub fn stop(&self) {
        self.driver.with(|world| world.stop(self.index));
    }

    /// Starts its process after [`stop`](Self::stop), with everything it had, or lets it go on after
    /// [`pause`](Self::pause).
    ///
    /// It catches up with the leader before it serves; without a leader it takes part in an election.
    pub fn start(&self) {
        self.driver.with(|world| world.start(self.index));
    }

    /// Stops its process without ending it: it answers nothing, its links stay, and nobody is told.
    ///
    /// Clients find out as of a [silent link](SessionHandle::silence); the other servers do without it after a second,
    /// or as [`EnsembleBuilder::sync_limit`](crate::EnsembleBuilder::sync_limit) says.
    pub fn pause(&self) {
        self.driver.with(|world| world.pause(self.index));
    }

    /// Lets it go on after [`pause`](Self::pause).
    pub fn resume(&self) {
        self.start();
    }

    /// Tells whether it answers its clients: it runs, and follows a leader or is it.
    pub fn is_serving(&self) -> bool {
        self.driver
            .with(|world| world.leading().is_some() && world.servers()[self.index].is_serving())
    }

    /// Tells whether it leads.
    pub fn is_leader(&self) -> bool {
        self.driver
            .with(|world| world.leading() == Some(self.index))
    }

    /// Returns the nodes as this server has them.
    pub fn tree(&self) -> Tree {
        self.driver
            .with(|world| world.servers()[self.index].tree.clone())
    }

    /// Returns how many watches it keeps: each session once for each node and kind, and a persistent watch that is not
    /// recursive twice, as servers count.
    pub fn watch_count(&self) -> usize {
        self.driver
            .with(|world| world.servers()[self.index].watches.count())
    }

    /// Returns the sessions that are attached to it.
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

/// The link of a session of an ensemble, and its life.
#[derive(Debug, Clone)]
pub struct SessionHandle {
    driver: Arc<Driver>,
    session: SessionId,
}

impl SessionHandle {
    pub(crate) fn new(driver: &Arc<Driver>, session: SessionId) -> Self {
        let is_known = driver.with(|world| world.client(session).is_some());
        assert!(is_known, "session {session} is not one of this ensemble");
        Self {
            driver: Arc::clone(driver),
            session,
        }
    }

    /// Breaks the link now. It comes back at the next server, after the usual pause.
    pub fn cut(&self) {
        self.break_link(None, None);
    }

    /// Breaks the link now. It comes back at the next server after `pause`.
    pub fn cut_for(&self, pause: Duration) {
        self.break_link(None, Some(pause));
    }

    /// Breaks the link now. It comes back at `server`, from 1, after the usual pause.
    ///
    /// A server that lags behind what the session has seen sends it on to the next, as real ones do.
    ///
    /// # Panics
    ///
    /// When there is no such server.
    pub fn move_to(&self, server: usize) {
        let to = index(&self.driver, server);
        self.break_link(Some(to), None);
    }

    /// Breaks the link now and lets it not come back until [`heal`](Self::heal).
    ///
    /// The leader expires the session after its timeout; the client gives it up after 7/5 of that.
    pub fn partition(&self) {
        self.driver.with(|world| world.partition(self.session));
    }

    /// Lets nothing pass on the link from now on, without either side being told.
    ///
    /// The client finds out when it has heard nothing for 2/5 of the session timeout, with several servers for the
    /// timeout divided by twice their number, and at least for a second where that is no more than 3/5 of the timeout:
    /// as `zk-core` sets it. Then it goes on at the next server.
    /// The leader's clock for the session runs from now on, until the client is back.
    pub fn silence(&self) {
        self.driver.with(|world| world.silence(self.session));
    }

    /// Ends a partition or a silence. After a partition the link comes back at the next server, after the usual pause;
    /// after a silence that nobody has noticed, what was on its way arrives.
    pub fn heal(&self) {
        self.driver.with(|world| world.heal(self.session));
    }

    /// Has the leader expire the session now.
    ///
    /// Its ephemeral nodes are gone at once, or as soon as there is a leader. The client learns it when its server has
    /// applied that.
    pub fn expire(&self) {
        self.driver.with(|world| world.expire(self.session));
    }

    /// Returns the server it is attached to, from 1, while it is connected.
    pub fn server(&self) -> Option<usize> {
        self.driver.with(|world| {
            world
                .client(self.session)
                .filter(|client| client.is_up())
                .map(|client| client.server + 1)
        })
    }

    /// Tells whether the leader keeps the session.
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

/// The index of the server with this number.
pub(crate) fn index(driver: &Arc<Driver>, number: usize) -> usize {
    let servers = driver.with(|world| world.servers().len());
    assert!(
        (1..=servers).contains(&number),
        "server {number} is not one of 1 to {servers}"
    );
    number - 1
}
