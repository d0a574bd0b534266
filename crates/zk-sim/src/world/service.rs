//! Processes requests: from the client to its server, to the leader, and back.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;
use std::time::Duration;

use zk_core::transport::{Phase, Request, SessionEnd, TransportError};
use zk_core::{ErrorKind, NodePath, Permissions, SessionId};

use super::client::{Body, Break};
use super::{Content, Job, JobNumber, Output, Ready, Stuck, World};
use crate::leader::{Author, WriteResult};
use crate::matching::is_write;
use crate::release::is_of_3_6;
use crate::request_log::RequestOutcome;
use crate::script::{self, Act};
use crate::server::Lag;
use crate::server_reply::ServerReply;
use crate::watches::Removal;
use crate::wire_request::WireRequest;
use crate::{access, size};

impl Job {
    /// Returns whether only the request log needs it.
    fn is_finished(&self) -> bool {
        let is_read = match &self.content {
            Content::Request(request) => !is_write(request),
            Content::Wire(_) => true,
            Content::Close => false,
        };
        self.is_resolved
            && match self.outcome {
                RequestOutcome::Stuck | RequestOutcome::InDoubt => false,
                RequestOutcome::Arrived => is_read,
                _ => true,
            }
    }

    /// Returns whether it asks for a watch that the removal would end.
    pub(super) fn asks_for_watch(&self, at: &NodePath, removal: Removal) -> bool {
        let Content::Request(request) = &self.content else {
            return false;
        };
        let (path, asked) = match request {
            Request::GetData { path, watch: true } | Request::Exists { path, watch: true } => {
                (path, Removal::Data)
            }
            Request::GetChildren2 { path, watch: true } => (path, Removal::Children),
            Request::AddWatch { path, .. } => (path, Removal::Any),
            _ => return false,
        };
        path == at && (removal == Removal::Any || removal == asked)
    }
}

impl World {
    /// Submits a request of a client.
    pub(crate) fn submit(&mut self, session: SessionId, content: Content) -> JobNumber {
        let now = self.now;
        let client = self.client_mut(session);
        let refusal = match client.link.phase {
            Phase::Over(ending) => Some(ending),
            _ if client.is_closing => Some(SessionEnd::Closed),
            _ => None,
        };
        client.is_closing |= content == Content::Close;
        let server = client.server;
        let job = Job {
            session,
            content,
            at: now,
            server,
            outcome: RequestOutcome::Unsent,
            answered: false,
            is_resolved: false,
            rule: None,
            ready: Ready::Read,
        };
        let number = self.jobs.push(job, Job::is_finished);
        if let Some(ending) = refusal {
            self.jobs[number].outcome = RequestOutcome::NeverArrived;
            self.fail(number, TransportError::NotSent(ending));
        } else {
            self.send(number);
        }
        number
    }

    /// Takes back a request; returns `false` if it was sent.
    pub(crate) fn take_back(&mut self, number: JobNumber) -> bool {
        let session = self.jobs[number].session;
        let unsent = &mut self.client_mut(session).unsent;
        let Some(at) = unsent.iter().position(|job| *job == number) else {
            return false;
        };
        unsent.remove(at);
        let job = &mut self.jobs[number];
        job.outcome = RequestOutcome::NeverArrived;
        job.is_resolved = true;
        true
    }

    /// Sends a request on the link, or on the next one if there is none.
    pub(super) fn send(&mut self, number: JobNumber) {
        let session = self.jobs[number].session;
        let client = self.client_mut(session);
        if !client.is_up() {
            client.unsent.push_back(number);
            return;
        }
        let job = &mut self.jobs[number];
        if let Content::Request(request) = &job.content {
            job.rule = script::matching_rule(&mut self.rules, session, request);
        }
        let is_remote = self.clients[&session].is_remote;
        let job = &mut self.jobs[number];
        if let Some(rule) = job
            .rule
            .filter(|_| !is_remote)
            .filter(|rule| self.rules[*rule].act == Act::Postpone)
        {
            self.takes_effect(rule);
            self.client_mut(session).unsent.push_back(number);
            let how = Break::because(self.rules[rule].cause.clone());
            self.break_link(session, &how);
            return;
        }
        job.outcome = RequestOutcome::OnTheWay;
        job.at = self.now;
        let client = self.client_mut(session);
        client.in_flight.push(number);
        let (connection, server) = (client.connection, client.server);
        self.jobs[number].server = server;
        let latency = self.latency(session);
        self.schedule(latency, move |world| {
            world.arrive(session, number, connection);
        });
    }

    /// Processes a request that reaches its server, which forwards writes to the leader.
    pub(super) fn arrive(&mut self, session: SessionId, number: JobNumber, connection: u64) {
        let client = &self.clients[&session];
        if client.connection != connection || client.is_hung_up {
            return;
        }
        if client.is_silent || !self.servers[client.server].is_running() {
            self.client_mut(session).muted.push(number);
            return;
        }
        self.receive(session);
        if self.is_too_large(number) {
            self.jobs[number].outcome = RequestOutcome::NeverArrived;
            self.break_link(session, &Break::because("connection reset by peer"));
            return;
        }
        let act = self.jobs[number]
            .rule
            .map(|rule| (rule, self.rules[rule].act.clone()));
        let how = |world: &Self, rule: usize| Break::because(world.rules[rule].cause.clone());
        match act {
            // A remote client has written the request when it is seen here.
            Some((rule, Act::LoseRequest | Act::Postpone)) => {
                let how = how(self, rule);
                self.takes_effect(rule);
                self.jobs[number].outcome = RequestOutcome::NeverArrived;
                self.break_link(session, &how);
                return;
            }
            Some((rule, Act::Stall | Act::StallThenMove { .. } | Act::KillLeader(_)))
                if !self.is_for_leader(number) =>
            {
                self.takes_effect(rule);
                let how = how(self, rule);
                self.break_link(session, &how);
                return;
            }
            Some((rule, Act::Stall)) => {
                self.takes_effect(rule);
                self.jobs[number].outcome = RequestOutcome::Stuck;
                let attachments = self.client_mut(session).attachments;
                self.stuck.push(Stuck {
                    job: number,
                    rule,
                    attachments,
                });
                let how = how(self, rule);
                self.break_link(session, &how);
                if self.rules[rule].is_released {
                    self.forward_stuck(session);
                }
                return;
            }
            Some((rule, Act::StallThenMove { to })) => {
                self.takes_effect(rule);
                let how = Break {
                    to: Some(to),
                    ..how(self, rule)
                };
                if !self.servers[to].lag.lasts(self.now) {
                    let shown_at = self.now + self.settings.reconnect + SHOWN_AFTER;
                    self.servers[to].lag = Lag::Until(shown_at);
                }
                self.jobs[number].outcome = RequestOutcome::Arrived;
                self.break_link(session, &how);
                self.forward(number);
                return;
            }
            Some((rule, Act::KillLeader(proposal))) => {
                self.takes_effect(rule);
                let how = how(self, rule);
                self.kill_leader(number, proposal);
                self.break_link(session, &how);
                return;
            }
            Some((rule, Act::Refuse(fault))) => {
                self.takes_effect(rule);
                self.jobs[number].outcome = RequestOutcome::Refused(fault.clone());
                self.jobs[number].ready = Ready::After {
                    zxid: 0,
                    outcome: Err(fault),
                };
                self.client_mut(session).queue.push_back(number);
                self.answer_ready(session);
                return;
            }
            Some((_, Act::LoseReply | Act::Hold | Act::Misreport(_))) | None => {}
        }
        self.jobs[number].outcome = RequestOutcome::Arrived;
        self.client_mut(session).queue.push_back(number);
        let is_sync = self.is_sync(number);
        if self.client_mut(session).link.phase == Phase::ReadOnly
            && (is_sync || self.is_for_leader(number))
        {
            self.jobs[number].ready = Ready::After {
                zxid: 0,
                outcome: Err(TransportError::Refused(ErrorKind::ReadOnlyServer, None)),
            };
        } else if is_sync || self.is_for_leader(number) {
            self.jobs[number].ready = Ready::Never;
            self.forward(number);
            self.cut_when_committed(number);
            return;
        }
        self.answer_ready(session);
    }

    /// Forwards a request to the leader.
    pub(super) fn forward(&mut self, number: JobNumber) {
        if !self.can_commit() {
            self.waiting.push(number);
        } else if self.is_sync(number) {
            let at_leader = self.leading == Some(self.jobs[number].server);
            // The leader answers the syncs of its own clients at once, whatever it has proposed.
            let zxid = if at_leader { 0 } else { self.leader.zxid() };
            let job = &mut self.jobs[number];
            job.ready = Ready::After {
                zxid,
                outcome: Ok(ServerReply::Synced),
            };
            let session = job.session;
            self.answer_ready(session);
        } else {
            self.commit(number);
        }
    }

    fn is_too_large(&self, number: JobNumber) -> bool {
        match &self.jobs[number].content {
            Content::Request(request) => size::of(request) > self.settings.max_request,
            Content::Wire(_) | Content::Close => false,
        }
    }

    fn is_sync(&self, number: JobNumber) -> bool {
        matches!(
            self.jobs[number].content,
            Content::Request(Request::Sync { .. })
        )
    }

    /// Returns whether a request changes nodes.
    pub(super) fn is_write(&self, number: JobNumber) -> bool {
        matches!(&self.jobs[number].content, Content::Request(request) if is_write(request))
    }

    /// Returns whether only the leader can execute a request.
    fn is_for_leader(&self, number: JobNumber) -> bool {
        match &self.jobs[number].content {
            Content::Close => true,
            Content::Request(request) => is_write(request),
            Content::Wire(_) => false,
        }
    }

    fn takes_effect(&mut self, rule: usize) {
        self.rules[rule].applied += 1;
        self.outputs.push(Output::RuleApplied);
    }

    /// Commits a write; servers without lag apply it immediately.
    pub(super) fn commit(&mut self, number: JobNumber) {
        let job = &self.jobs[number];
        let session = job.session;
        let client = self
            .clients
            .get_mut(&session)
            .expect("clients are never removed");
        let result = if client.is_alive {
            match &job.content {
                Content::Close => {
                    client.is_alive = false;
                    self.leader.close(session, self.now)
                }
                Content::Request(request) => {
                    let author = Author {
                        session,
                        identities: &client.identities,
                    };
                    self.leader.write(author, request, self.now)
                }
                Content::Wire(_) => unreachable!("its server carries it out"),
            }
        } else {
            WriteResult {
                zxid: 0,
                outcome: Err(TransportError::Ended(SessionEnd::Expired)),
            }
        };
        let job = &mut self.jobs[number];
        job.outcome = match &result.outcome {
            Ok(_) => RequestOutcome::CarriedOut { zxid: result.zxid },
            Err(fault) => RequestOutcome::Refused(fault.clone()),
        };
        job.ready = Ready::After {
            zxid: result.zxid,
            outcome: result.outcome,
        };
        self.apply_due();
        self.answer_ready(session);
    }

    /// Breaks the link on commit if the reply is to be lost: a lagging server would send the reply much later.
    fn cut_when_committed(&mut self, number: JobNumber) {
        let session = self.jobs[number].session;
        let is_waiting = self.client_mut(session).queue.contains(&number);
        if let Some(rule) = self.jobs[number].rule
            && self.rules[rule].act == Act::LoseReply
            && matches!(self.jobs[number].ready, Ready::After { .. })
            && is_waiting
        {
            self.takes_effect(rule);
            self.close_connection(session, Break::because(self.rules[rule].cause.clone()));
        }
    }

    /// Applies the transactions that are due on each server, and sends the replies that this allows.
    ///
    /// The leader comes first: a transaction that it has not applied is proposed and not committed, so no other server
    /// applies it.
    pub(super) fn apply_due(&mut self) {
        let leading = self.leading;
        let others = (0..self.servers.len()).filter(|server| Some(*server) != leading);
        for server in leading.into_iter().chain(others) {
            if !self.servers[server].is_serving() {
                continue;
            }
            while let Some(due) = self.servers[server].next_due(self.leader.log()) {
                let applied = self.servers[server].applied();
                if self.leading.is_some_and(|leader| {
                    leader != server && self.servers[leader].applied() <= applied
                }) {
                    break;
                }
                if due > self.now {
                    self.schedule(due.saturating_sub(self.now), Self::apply_due);
                    break;
                }
                self.apply_next(server);
            }
            let it = &mut self.servers[server];
            if let Lag::Until(moment) = it.lag
                && moment <= self.now
            {
                it.lag = Lag::None;
            }
        }
    }

    pub(super) fn apply_next(&mut self, server: usize) {
        let it = &mut self.servers[server];
        let transaction = Arc::clone(&self.leader.log()[it.applied()]);
        let clients = &self.clients;
        let notifications = it.apply(&transaction, |session, acl| {
            clients.get(&session).is_none_or(|client| {
                access::is_granted(acl, &[Permissions::READ], &client.identities)
            })
        });
        let zxid = it.zxid();
        for due in notifications {
            self.notify(due.session, due.trigger, due.zxid);
        }
        let closes = transaction.closes;
        let concerned: Vec<SessionId> = self
            .clients
            .values()
            .filter(|client| client.server == server && client.is_up())
            .filter(|client| {
                client.opening.is_some() || !client.queue.is_empty() || closes == Some(client.id)
            })
            .map(|client| client.id)
            .collect();
        for session in concerned {
            let client = self.client_mut(session);
            if client.opening.is_some_and(|opening| opening <= zxid) {
                client.opening = None;
                self.outputs.push(Output::Opened(session));
            }
            self.answer_ready(session);
            if closes == Some(session) && !self.client_mut(session).is_closing {
                self.close_connection(session, Break::because("closed by the server"));
            }
        }
    }

    /// Answers the requests of a session that are ready, in order.
    pub(super) fn answer_ready(&mut self, session: SessionId) {
        loop {
            let client = self.client_mut(session);
            if client.is_hung_up {
                return;
            }
            let Some(number) = client.queue.front().copied() else {
                return;
            };
            let server = client.server;
            let zxid = self.servers[server].zxid();
            let is_ready = match &self.jobs[number].ready {
                Ready::Read => true,
                Ready::Never => false,
                Ready::After { zxid: wanted, .. } => *wanted <= zxid,
            };
            if !is_ready || !self.servers[server].is_running() {
                return;
            }
            self.client_mut(session).queue.pop_front();
            self.answer(number, server);
        }
    }

    fn answer(&mut self, number: JobNumber, server: usize) {
        let job = &mut self.jobs[number];
        let session = job.session;
        let zxid = self.servers[server].zxid();
        let is_unknown = match &job.content {
            Content::Request(request) => !self.settings.persistent_watches && is_of_3_6(request),
            Content::Wire(WireRequest::Unknown) => true,
            _ => false,
        };
        let mut missed = Vec::new();
        let (mut outcome, mut watch) = match (&job.ready, &job.content) {
            _ if is_unknown => (
                Err(TransportError::Refused(ErrorKind::Unsupported, None)),
                None,
            ),
            (Ready::After { outcome, .. }, _) => (outcome.clone(), None),
            (Ready::Read, Content::Request(request)) => {
                let identities = &self.clients[&session].identities;
                self.servers[server].read(session, identities, request)
            }
            (Ready::Read, Content::Wire(request)) => {
                let identities = &self.clients[&session].identities;
                let (reply, events) = self.servers[server].carry_out(session, identities, request);
                missed = events;
                (Ok(reply), None)
            }
            (Ready::Read, Content::Close) | (Ready::Never, _) => {
                unreachable!("the leader executes it")
            }
        };
        if job.outcome == RequestOutcome::Arrived {
            job.outcome = match &outcome {
                Ok(_) => RequestOutcome::CarriedOut { zxid },
                Err(fault) => RequestOutcome::Refused(fault.clone()),
            };
        }
        let rule = job.rule;
        for trigger in missed {
            self.notify(session, trigger, None);
        }
        match rule.map(|rule| (rule, self.rules[rule].act.clone())) {
            Some((rule, Act::LoseReply)) => {
                self.takes_effect(rule);
                let how = Break::because(self.rules[rule].cause.clone());
                self.close_connection(session, how);
                return;
            }
            Some((rule, Act::Misreport(reply))) => {
                self.takes_effect(rule);
                outcome = reply;
                // The client does not know the watch, which ends with the connection.
                watch = None;
            }
            Some((rule, Act::Hold)) => self.takes_effect(rule),
            _ => {}
        }
        self.push(
            session,
            Body::Reply {
                job: number,
                zxid,
                outcome,
                watch,
            },
        );
        if is_unknown {
            self.close_connection(session, Break::because("closed by the server"));
        }
    }

    /// Releases the requests that a rule holds or stalls.
    pub(crate) fn release(&mut self, rule: usize) {
        self.rules[rule].is_released = true;
        let stuck = std::mem::take(&mut self.stuck);
        let (landing, left) = stuck.into_iter().partition(|stuck| stuck.rule == rule);
        self.stuck = left;
        self.forward_or_fence(landing);
        let waiting: Vec<_> = self
            .clients
            .values()
            .map(|client| (client.id, client.connection))
            .collect();
        for (session, connection) in waiting {
            self.deliver(session, connection);
        }
    }

    /// Forwards the stuck requests of a session to the leader.
    pub(super) fn forward_stuck(&mut self, session: SessionId) {
        let stuck = std::mem::take(&mut self.stuck);
        let (landing, left) = stuck
            .into_iter()
            .partition(|stuck| self.jobs[stuck.job].session == session);
        self.stuck = left;
        self.forward_or_fence(landing);
    }

    /// Forwards stuck requests, except those from a server that the session has left: a leader rejects them.
    fn forward_or_fence(&mut self, landing: Vec<Stuck>) {
        for stuck in landing {
            let session = self.jobs[stuck.job].session;
            if self.client_mut(session).attachments == stuck.attachments {
                self.forward(stuck.job);
            } else {
                self.jobs[stuck.job].outcome = RequestOutcome::Fenced;
            }
        }
    }
}

/// The lag of the server that a session is moved to by `stall_then_move`.
const SHOWN_AFTER: Duration = Duration::from_millis(500);
