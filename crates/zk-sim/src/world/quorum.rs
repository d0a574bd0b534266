//! Servers that stop and come back, and who leads them.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::Phase;
use zk_core::transport::SessionEnd;

use super::Event;
use super::World;
use super::client::Break;
use crate::request_log::RequestOutcome;
use crate::script::Proposal;
use crate::server::Lag;
use crate::server::State;

impl World {
    /// Tells whether a write that reaches the leader is committed: the leader and a quorum answer.
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

    /// The process of a server ends. Its links break at once, and the others know.
    pub(crate) fn stop(&mut self, server: usize) {
        let it = &mut self.servers[server];
        if it.state == State::Stopped {
            return;
        }
        it.state = State::Stopped;
        it.incarnation += 1;
        it.is_member = false;
        self.break_links_of(server, "connection reset by peer");
        self.remove_member(server);
    }

    /// The process of a server begins, or goes on.
    pub(crate) fn start(&mut self, server: usize) {
        let it = &mut self.servers[server];
        let before = it.state;
        if before == State::Running {
            return;
        }
        it.state = State::Running;
        it.incarnation += 1;
        if it.is_member && self.leading.is_some() {
            self.resume_member(server);
            return;
        }
        if before == State::Paused {
            self.break_links_of(server, "the server is not with the others any more");
        }
        match self.leading {
            Some(_) => {
                let incarnation = self.servers[server].incarnation;
                let joining = self.settings.joining;
                self.schedule(
                    joining,
                    Event::Join {
                        server,
                        incarnation,
                    },
                );
            }
            None => self.schedule_election(),
        }
    }

    /// The process of a server does nothing, and nobody is told.
    pub(crate) fn pause(&mut self, server: usize) {
        let it = &mut self.servers[server];
        if it.state != State::Running {
            return;
        }
        it.state = State::Paused;
        it.incarnation += 1;
        let incarnation = it.incarnation;
        let sync_limit = self.settings.sync_limit;
        self.schedule(
            sync_limit,
            Event::SyncLimit {
                server,
                incarnation,
            },
        );
        for session in self.attached(server) {
            self.fall_silent(session);
        }
    }

    /// Everything that was disturbed, and not scripted, is as it was.
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

    /// A server that was paused does what it has missed.
    fn resume_member(&mut self, server: usize) {
        self.apply_due();
        for session in self.attached(server) {
            self.touch_session(session);
            self.deliver_muted(session);
            self.answer_ready(session);
        }
        self.resume_waiting();
    }

    /// The others have waited for a server for long enough.
    pub(super) fn exclude(&mut self, server: usize, incarnation: u64) {
        let it = &mut self.servers[server];
        if it.incarnation == incarnation && it.is_member {
            it.is_member = false;
            self.remove_member(server);
        }
    }

    /// A server is no longer one of them: maybe they have no leader now, or are too few.
    fn remove_member(&mut self, server: usize) {
        let members = self.servers.iter().filter(|server| server.is_member);
        let is_enough = self.is_quorum(members.count());
        if self.leading == Some(server) || (self.leading.is_some() && !is_enough) {
            self.lose_leader();
        }
    }

    /// Nobody leads: no server serves, and every link to one that runs breaks.
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
            if self.is_write(job) && self.settings.proposals == Proposal::Survives {
                self.propose(job);
            } else if self.jobs[job].outcome == RequestOutcome::Arrived {
                self.jobs[job].outcome = RequestOutcome::Vanished;
            }
        }
        self.schedule_election();
    }

    /// A leader dies of a write that it has proposed.
    pub(super) fn kill_leader(&mut self, job: super::JobNumber, proposal: Proposal) {
        match proposal {
            Proposal::Survives => self.propose(job),
            Proposal::Vanishes => self.jobs[job].outcome = RequestOutcome::Vanished,
        }
        if let Some(leading) = self.leading {
            self.stop(leading);
        }
    }

    /// Leaves a write to the next leader.
    fn propose(&mut self, job: super::JobNumber) {
        self.jobs[job].outcome = RequestOutcome::InDoubt;
        self.proposed.push(job);
    }

    fn schedule_election(&mut self) {
        let losses = self.losses;
        let election = self.settings.election;
        self.schedule(election, Event::Elect { losses });
    }

    /// The servers that run agree on a leader, if they are enough: all know everything that was committed, so it is the
    /// one with the highest number.
    pub(super) fn elect(&mut self, losses: u64) {
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
        // A new leader knows of all sessions and when it heard of none.
        let sessions: Vec<_> = self.clients.keys().copied().collect();
        for session in sessions {
            self.touch_session(session);
            self.schedule_expiry(session);
        }
        self.resume_waiting();
    }

    /// A server that runs finds the leader, and has everything from it before it serves.
    pub(super) fn join(&mut self, server: usize, incarnation: u64) {
        if self.servers[server].incarnation == incarnation && self.leading.is_some() {
            self.join_now(server);
            self.resume_waiting();
        }
    }

    fn join_now(&mut self, server: usize) {
        for session in self.attached(server) {
            // One that only this server has granted.
            self.end(session, SessionEnd::Expired);
        }
        self.servers[server].is_member = true;
        while self.servers[server].applied() < self.leader.log().len() {
            self.apply_next(server);
        }
        let zxid = self.leader.zxid();
        self.servers[server].begin_epoch(zxid);
    }

    /// Does what has waited for a leader and a quorum.
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

    /// The leader has heard of a session now.
    pub(super) fn touch_session(&mut self, session: SessionId) {
        self.client_mut(session).clock += 1;
    }

    /// From now on the leader hears nothing of a session, unless it does again.
    pub(super) fn schedule_expiry(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        if client.is_alive && client.link.phase != Phase::ReadOnly {
            let (timeout, clock) = (client.timeout, client.clock);
            self.schedule(timeout, Event::SessionTimeout { session, clock });
        }
    }

    /// The leader has not heard of a session for its timeout, unless it has since.
    pub(super) fn time_out_session(&mut self, session: SessionId, clock: u64) {
        if self.client_mut(session).clock != clock || self.leading.is_none() {
            // The next leader begins to count anew.
            return;
        }
        if self.can_commit() {
            self.expire(session);
        } else {
            // The leader does nothing now, or waits for a quorum.
            let pause = self.settings.reconnect;
            self.schedule(pause, Event::SessionTimeout { session, clock });
        }
    }

    fn break_links_of(&mut self, server: usize, cause: &str) {
        for session in self.attached(server) {
            self.break_link(session, &Break::because(cause));
        }
    }

    /// The sessions whose clients take themselves for connected to a server.
    pub(super) fn attached(&self, server: usize) -> Vec<SessionId> {
        self.clients
            .values()
            .filter(|client| client.server == server && client.is_up())
            .map(|client| client.id)
            .collect()
    }

    /// How long a client waits for a silent server: as `zk-core` sets it.
    pub(super) fn link_timeout(session_timeout: Duration) -> Duration {
        session_timeout * 2 / 5
    }
}
