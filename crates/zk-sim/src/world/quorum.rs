//! Stops and starts servers, elects leaders, and expires sessions.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::Phase;
use zk_core::transport::SessionEnd;

use super::World;
use super::client::Break;
use crate::request_log::RequestOutcome;
use crate::script::Proposal;
use crate::server::Lag;
use crate::server::ProcessState;

impl World {
    /// Returns whether a write that reaches the leader is committed: the leader and a quorum respond.
    pub(crate) fn can_commit(&self) -> bool {
        let Some(leading) = self.leading else {
            return false;
        };
        let answering = self.servers.iter().filter(|server| server.is_serving());
        self.servers[leading].is_running() && self.is_quorum(answering.count())
    }

    fn is_quorum(&self, count: usize) -> bool {
        count * 2 > self.servers.len()
    }

    /// Ends the process of a server. Its links break, and the other servers notice immediately.
    pub(crate) fn stop(&mut self, server: usize) {
        let it = &mut self.servers[server];
        if it.state == ProcessState::Stopped {
            return;
        }
        it.state = ProcessState::Stopped;
        it.incarnation += 1;
        it.is_member = false;
        self.break_links_of(server, "connection reset by peer");
        self.remove_member(server);
    }

    /// Starts or continues the process of a server.
    pub(crate) fn start(&mut self, server: usize) {
        let it = &mut self.servers[server];
        let before = it.state;
        if before == ProcessState::Running {
            return;
        }
        it.state = ProcessState::Running;
        it.incarnation += 1;
        if it.is_member && self.leading.is_some() {
            self.resume_member(server);
            return;
        }
        if before == ProcessState::Paused {
            self.break_links_of(server, "the server is no longer a member");
        }
        match self.leading {
            Some(_) => {
                let incarnation = self.servers[server].incarnation;
                self.schedule(JOINING, move |world| world.join(server, incarnation));
            }
            None => self.schedule_election(),
        }
    }

    /// Suspends the process of a server; neither clients nor servers are notified.
    pub(crate) fn pause(&mut self, server: usize) {
        let it = &mut self.servers[server];
        if it.state != ProcessState::Running {
            return;
        }
        it.state = ProcessState::Paused;
        it.incarnation += 1;
        let incarnation = it.incarnation;
        self.schedule(SYNC_LIMIT, move |world| world.exclude(server, incarnation));
        for session in self.attached(server) {
            self.fall_silent(session);
        }
    }

    /// Ends all disturbances except scripted ones.
    pub(crate) fn heal_all(&mut self) {
        for server in 0..self.servers.len() {
            self.servers[server].lag = Lag::None;
            self.start(server);
        }
        self.apply_due();
        let sessions: Vec<_> = self.clients.keys().copied().collect();
        for session in sessions {
            self.heal(session);
        }
    }

    /// Lets a server that was paused process what it has missed.
    fn resume_member(&mut self, server: usize) {
        self.apply_due();
        for session in self.attached(server) {
            self.touch_session(session);
            self.deliver_muted(session);
            self.answer_ready(session);
        }
        self.resume_waiting();
    }

    /// Excludes a server that was paused for the sync limit.
    fn exclude(&mut self, server: usize, incarnation: u64) {
        let it = &mut self.servers[server];
        if it.incarnation == incarnation && it.is_member {
            it.is_member = false;
            self.remove_member(server);
        }
    }

    /// Removes a member, which may have been the leader or required for the quorum.
    fn remove_member(&mut self, server: usize) {
        let members = self.servers.iter().filter(|server| server.is_member);
        let is_enough = self.is_quorum(members.count());
        if self.leading == Some(server) || (self.leading.is_some() && !is_enough) {
            self.lose_leader();
        }
    }

    /// Removes the leader: no server serves, and the links to all running servers break.
    fn lose_leader(&mut self) {
        self.leading = None;
        self.losses += 1;
        for server in 0..self.servers.len() {
            self.servers[server].is_member = false;
            if self.servers[server].is_running() {
                self.break_links_of(server, "the server has no leader");
            }
        }
        for stuck in std::mem::take(&mut self.stuck) {
            self.jobs[stuck.job].outcome = RequestOutcome::Fenced;
        }
        for job in std::mem::take(&mut self.waiting) {
            if self.is_write(job) && self.proposals == Proposal::Survives {
                self.propose(job);
            } else if self.jobs[job].outcome == RequestOutcome::Arrived {
                self.jobs[job].outcome = RequestOutcome::Vanished;
            }
        }
        self.schedule_election();
    }

    /// Stops the leader after it has proposed a write.
    pub(super) fn kill_leader(&mut self, job: super::JobNumber, proposal: Proposal) {
        match proposal {
            Proposal::Survives => self.propose(job),
            Proposal::Vanishes => self.jobs[job].outcome = RequestOutcome::Vanished,
        }
        if let Some(leading) = self.leading {
            self.stop(leading);
        }
    }

    /// Keeps a proposal for the next leader.
    fn propose(&mut self, job: super::JobNumber) {
        self.jobs[job].outcome = RequestOutcome::InDoubt;
        self.proposed.push(job);
    }

    fn schedule_election(&mut self) {
        let losses = self.losses;
        self.schedule(ELECTION, move |world| world.elect(losses));
    }

    /// Elects a leader if the running servers are a quorum: all have everything that was committed, so it is the one
    /// with the highest number.
    fn elect(&mut self, losses: u64) {
        let running = |at: &usize| self.servers[*at].is_running();
        let electors: Vec<usize> = (0..self.servers.len()).filter(running).collect();
        if self.leading.is_some() || losses != self.losses || !self.is_quorum(electors.len()) {
            return;
        }
        self.leading = electors.last().copied();
        for server in &electors {
            self.servers[*server].is_member = true;
        }
        for job in std::mem::take(&mut self.proposed) {
            self.commit(job);
        }
        self.leader.begin_epoch();
        for server in electors {
            self.join_now(server);
        }
        // A new leader knows all sessions and restarts their timeouts.
        let sessions: Vec<_> = self.clients.keys().copied().collect();
        for session in sessions {
            self.touch_session(session);
            self.schedule_expiry(session);
        }
        self.resume_waiting();
    }

    /// Lets a running server join the leader; it catches up before it serves.
    fn join(&mut self, server: usize, incarnation: u64) {
        if self.servers[server].incarnation == incarnation && self.leading.is_some() {
            self.join_now(server);
            self.resume_waiting();
        }
    }

    fn join_now(&mut self, server: usize) {
        for session in self.attached(server) {
            // A read-only session that only this server knows.
            self.end(session, SessionEnd::Expired);
        }
        self.servers[server].is_member = true;
        while self.servers[server].applied() < self.leader.log().len() {
            self.apply_next(server);
        }
        let zxid = self.leader.zxid();
        self.servers[server].begin_epoch(zxid);
    }

    /// Processes what has waited for a leader with a quorum.
    fn resume_waiting(&mut self) {
        if !self.can_commit() {
            return;
        }
        for job in std::mem::take(&mut self.waiting) {
            self.forward(job);
        }
        for session in std::mem::take(&mut self.expiring) {
            self.expire(session);
        }
    }

    /// Restarts the timeout of a session at the leader.
    pub(super) fn touch_session(&mut self, session: SessionId) {
        let now = self.now;
        let client = self.client_mut(session);
        client.clock += 1;
        client.heard_at = now;
    }

    /// Schedules the expiry of a session, unless the leader hears of it again.
    pub(super) fn schedule_expiry(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        if client.is_remote {
            // It has a timeout of its own, which runs until it expires.
            return;
        }
        if client.is_alive && client.link.phase != Phase::ReadOnly {
            let (timeout, clock) = (client.timeout, client.clock);
            self.schedule(timeout, move |world| world.time_out_session(session, clock));
        }
    }

    /// Expires a session, unless the leader has heard of it since.
    fn time_out_session(&mut self, session: SessionId, clock: u64) {
        if self.client_mut(session).clock != clock || self.leading.is_none() {
            // The next leader restarts the timeout.
            return;
        }
        if self.can_commit() {
            self.expire(session);
        } else {
            // The leader is paused, or waits for a quorum.
            let pause = self.settings.reconnect;
            self.schedule(pause, move |world| world.time_out_session(session, clock));
        }
    }

    fn break_links_of(&mut self, server: usize, cause: &str) {
        for session in self.attached(server) {
            self.break_link(session, &Break::because(cause));
        }
    }

    /// Returns the sessions whose clients consider themselves connected to a server.
    pub(super) fn attached(&self, server: usize) -> Vec<SessionId> {
        self.clients
            .values()
            .filter(|client| client.server == server && client.is_up())
            .map(|client| client.id)
            .collect()
    }

    /// Returns how long a client waits for a silent server, as in `zk-core`.
    pub(super) fn link_timeout(session_timeout: Duration) -> Duration {
        session_timeout * 2 / 5
    }
}

/// The duration of an election.
const ELECTION: Duration = Duration::from_millis(300);
/// The time from the start of a server until it serves, if there is a leader.
const JOINING: Duration = Duration::from_millis(200);
/// The time after which the servers exclude a paused one.
const SYNC_LIMIT: Duration = Duration::from_secs(1);
