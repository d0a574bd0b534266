//! Stops and starts servers, elects leaders, and expires sessions.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::{Phase, SessionEnd};

use super::World;
use super::client::Break;
use crate::request_log::RequestOutcome;
use crate::script::Proposal;
use crate::server::{Lag, ProcessState};

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
        if self.leading == Some(server) {
            self.leader_paused_at = Some(self.now);
        }
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
        self.resume_reports(server);
        for session in self.attached(server) {
            if !self.client_mut(session).is_silent {
                self.end_timeout(session);
            }
            self.deliver_muted(session);
            self.answer_ready(session);
        }
        self.resume_waiting();
    }

    /// Lets a server that was paused make its reports, or ask for those of the others.
    fn resume_reports(&mut self, server: usize) {
        let sessions: Vec<_> = self.clients.keys().copied().collect();
        for session in &sessions {
            let client = self.client_mut(*session);
            if !client.is_timing_out && !client.is_remote {
                self.catch_up(*session);
            }
        }
        let leads = self.leading == Some(server);
        if leads {
            self.leader_paused_at = None;
        }
        let now = self.now;
        for session in sessions {
            let client = self.client_mut(session);
            if leads || client.server == server {
                client.touches.postpone_report(now);
                self.schedule_report(session);
            }
        }
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
        for client in self.clients.values_mut() {
            if client.server == server {
                client.touches.forget_report();
            }
        }
        let members = self.servers.iter().filter(|server| server.is_member);
        let is_enough = self.is_quorum(members.count());
        if self.leading == Some(server) || (self.leading.is_some() && !is_enough) {
            self.lose_leader();
        }
    }

    /// Removes the leader: no server serves, and the links to all running servers break.
    fn lose_leader(&mut self) {
        self.leading = None;
        self.leader_paused_at = None;
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
            self.client_mut(session).is_timing_out = true;
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
        client.touches.touch(now);
        client.is_timing_out = false;
    }

    /// Records a message to the server of a session.
    pub(super) fn receive(&mut self, session: SessionId) {
        let now = self.now;
        self.catch_up(session);
        if self.is_on_leader(session) {
            self.client_mut(session).touches.touch(now);
        } else {
            self.client_mut(session).touches.receive(now);
        }
    }

    /// Records the pings and reports until now of a session whose link and server work.
    fn catch_up(&mut self, session: SessionId) {
        let (now, is_on_leader) = (self.now, self.is_on_leader(session));
        // A leader that is paused asks for no reports.
        let reports_end = self.leader_paused_at.unwrap_or(now);
        let touches = &mut self.client_mut(session).touches;
        if is_on_leader {
            touches.catch_up_on_leader(now);
        } else {
            touches.catch_up(now, reports_end);
        }
    }

    /// Begins the timeout of a session whose link breaks or falls silent, unless it runs already. It runs since the leader
    /// last heard of the session. If its server works, the leader still hears of the last message.
    pub(super) fn begin_timeout(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        if client.is_timing_out || client.is_remote || client.link.phase == Phase::ReadOnly {
            return;
        }
        client.is_timing_out = true;
        client.clock += 1;
        self.catch_up(session);
        self.schedule_expiry(session);
        self.schedule_report(session);
    }

    /// Ends the timeout of a session whose link is no longer silent, with the next report of its server. Until then the
    /// leader may expire it.
    pub(super) fn end_timeout(&mut self, session: SessionId) {
        if self.is_on_leader(session) || self.is_remote(session) {
            self.touch_session(session);
            return;
        }
        let now = self.now;
        let client = self.client_mut(session);
        client.is_timing_out = false;
        client.touches.receive(now);
        self.schedule_report(session);
    }

    /// Schedules the report of what the server of a session has received, if there is anything to report.
    fn schedule_report(&mut self, session: SessionId) {
        let is_on_leader = self.is_on_leader(session);
        let now = self.now;
        let client = self.client_mut(session);
        let clock = client.clock;
        if let Some(due) = client.touches.report_due()
            && !client.is_remote
            && !is_on_leader
        {
            let after = due.saturating_sub(now);
            self.schedule(after, move |world| world.report(session, clock));
        }
    }

    /// Lets the leader hear of a session, unless it has heard of it in another way since. Reports of a server that is
    /// paused, or to such a leader, are scheduled again when it resumes; the next leader restarts the timeout.
    fn report(&mut self, session: SessionId, clock: u64) {
        let now = self.now;
        let leader_hears = self.leading.is_some() && self.leader_paused_at.is_none();
        let client = &self.clients[&session];
        let is_due = client.touches.report_due().is_some_and(|due| due <= now);
        let is_made = is_due && self.servers[client.server].is_running();
        if client.clock != clock || !leader_hears || !is_made {
            return;
        }
        let client = self.client_mut(session);
        client.clock += 1;
        client.touches.reported(now);
        if client.is_timing_out {
            self.schedule_expiry(session);
        }
    }

    fn is_on_leader(&self, session: SessionId) -> bool {
        let client = self.client(session);
        client.is_some_and(|client| self.leading == Some(client.server))
    }

    /// Schedules the expiry of a session, unless the leader hears of it again.
    fn schedule_expiry(&mut self, session: SessionId) {
        let now = self.now;
        let client = self.client_mut(session);
        if client.is_remote {
            // It has a timeout of its own, which runs until it expires.
            return;
        }
        if client.is_alive && client.link.phase != Phase::ReadOnly {
            let clock = client.clock;
            let after = (client.touches.heard() + client.timeout).saturating_sub(now);
            self.schedule(after, move |world| world.time_out_session(session, clock));
        }
    }

    /// Expires a session, unless the leader has heard of it since.
    fn time_out_session(&mut self, session: SessionId, clock: u64) {
        let now = self.now;
        let client = self.client_mut(session);
        let is_over = client.clock != clock || client.touches.heard() + client.timeout > now;
        if is_over || self.leading.is_none() {
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
