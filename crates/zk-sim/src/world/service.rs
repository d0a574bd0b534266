//! A request's way: from the client to its server, to the leader, and back.

use std::sync::Arc;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::transport::Ending;
use zk_core::transport::Fault;
use zk_core::transport::Phase;
use zk_core::transport::Request;

use super::Content;
use super::Event;
use super::Job;
use super::JobNumber;
use super::Output;
use super::Ready;
use super::Stuck;
use super::World;
use super::client::Body;
use super::client::Break;
use super::client::Message;
use crate::answer::Answer;
use crate::answer::WatchNumber;
use crate::log::Author;
use crate::log::Verdict;
use crate::matching::is_write;
use crate::record::Fate;
use crate::script;
use crate::script::Act;
use crate::server::Lag;
use crate::tree::Trigger;

impl Job {
    pub(super) fn asks_for_watch(&self, at: &NodePath) -> bool {
        matches!(
            &self.content,
            Content::Request(
                Request::Get { path, watch: true }
                    | Request::Exists { path, watch: true }
                    | Request::List { path, watch: true }
            ) if path == at
        )
    }
}

impl World {
    /// A client makes a request.
    pub(crate) fn submit(&mut self, session: SessionId, content: Content) -> JobNumber {
        let number = JobNumber(self.jobs.len());
        let now = self.now;
        let client = self.client_mut(session);
        let refusal = match client.link.phase {
            Phase::Over(ending) => Some(ending),
            _ if client.is_closing => Some(Ending::Closed),
            _ => None,
        };
        client.is_closing |= content == Content::Close;
        let is_up = client.is_up();
        let server = client.server;
        self.jobs.push(Job {
            session,
            content,
            at: now,
            server,
            fate: Fate::Unsent,
            answered: false,
            rule: None,
            ready: Ready::Look,
        });
        if let Some(ending) = refusal {
            self.jobs[number.0].fate = Fate::NeverArrived;
            let ended = Err(Fault::Ended(ending));
            self.outputs.push(Output::Answer(number, ended));
        } else if is_up {
            self.send(number);
        } else {
            self.client_mut(session).unsent.push_back(number);
        }
        number
    }

    /// Puts a request on the link.
    pub(super) fn send(&mut self, number: JobNumber) {
        let job = &mut self.jobs[number.0];
        let session = job.session;
        if let Content::Request(request) = &job.content {
            job.rule = script::strike(&mut self.rules, session, request);
        }
        job.fate = Fate::OnTheWay;
        job.at = self.now;
        let client = self.client_mut(session);
        client.in_flight.push(number);
        let (connection, server) = (client.connection, client.server);
        self.jobs[number.0].server = server;
        let latency = self.settings.latency;
        self.plan(
            latency,
            Event::Arrive {
                job: number,
                connection,
            },
        );
    }

    /// A request reaches its server, which passes writes on to the leader at once.
    pub(super) fn arrive(&mut self, number: JobNumber, connection: u64) {
        let session = self.jobs[number.0].session;
        let client = self.client_mut(session);
        if client.connection != connection || client.is_hung_up {
            return;
        }
        let act = self.jobs[number.0]
            .rule
            .map(|rule| (rule, self.rules[rule].act.clone()));
        let how = |world: &Self, rule: usize| Break::because(world.rules[rule].cause.clone());
        match act {
            Some((rule, Act::LoseRequest)) => {
                let how = how(self, rule);
                self.takes_effect(rule);
                self.jobs[number.0].fate = Fate::NeverArrived;
                self.break_link(session, &how);
                return;
            }
            Some((rule, Act::Stall | Act::StallThenMove { .. })) if !self.is_for_leader(number) => {
                self.takes_effect(rule);
                let how = how(self, rule);
                self.break_link(session, &how);
                return;
            }
            Some((rule, Act::Stall)) => {
                self.takes_effect(rule);
                self.jobs[number.0].fate = Fate::Stuck;
                let attachments = self.client_mut(session).attachments;
                self.stuck.push(Stuck {
                    job: number,
                    rule,
                    attachments,
                });
                let how = how(self, rule);
                self.break_link(session, &how);
                if self.rules[rule].is_released {
                    self.land_all(session);
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
                self.jobs[number.0].fate = Fate::Arrived;
                self.break_link(session, &how);
                self.commit(number);
                return;
            }
            Some((rule, Act::Refuse(fault))) => {
                self.takes_effect(rule);
                self.jobs[number.0].fate = Fate::Refused(fault.clone());
                self.jobs[number.0].ready = Ready::After {
                    zxid: 0,
                    outcome: Err(fault),
                };
                self.client_mut(session).queue.push_back(number);
                self.pump(session);
                return;
            }
            Some((_, Act::LoseReply | Act::Hold | Act::Misreport(_))) | None => {}
        }
        self.jobs[number.0].fate = Fate::Arrived;
        self.client_mut(session).queue.push_back(number);
        if self.is_for_leader(number) {
            self.commit(number);
            self.cut_when_committed(number);
            return;
        }
        let job = &mut self.jobs[number.0];
        if let Content::Request(Request::Sync { .. }) = job.content {
            job.ready = Ready::After {
                zxid: self.leader.zxid(),
                outcome: Ok(Answer::Synced),
            };
        }
        self.pump(session);
    }

    /// Whether only the leader can carry it out.
    fn is_for_leader(&self, number: JobNumber) -> bool {
        match &self.jobs[number.0].content {
            Content::Close => true,
            Content::Request(request) => is_write(request),
        }
    }

    fn takes_effect(&mut self, rule: usize) {
        self.rules[rule].struck += 1;
        self.outputs.push(Output::Struck);
    }

    /// The leader carries a write out; servers that do not lag apply it at once.
    fn commit(&mut self, number: JobNumber) {
        let job = &self.jobs[number.0];
        let session = job.session;
        let client = self
            .clients
            .get_mut(&session)
            .expect("clients are never forgotten");
        let verdict = if client.is_alive {
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
            }
        } else {
            Verdict {
                zxid: 0,
                outcome: Err(Fault::Ended(Ending::Expired)),
            }
        };
        let job = &mut self.jobs[number.0];
        job.fate = match &verdict.outcome {
            Ok(_) => Fate::CarriedOut { zxid: verdict.zxid },
            Err(fault) => Fate::Refused(fault.clone()),
        };
        job.ready = Ready::After {
            zxid: verdict.zxid,
            outcome: verdict.outcome,
        };
        self.settle();
        self.pump(session);
    }

    /// A reply that is to be lost may be long in coming when the server lags: the link breaks without it.
    fn cut_when_committed(&mut self, number: JobNumber) {
        let session = self.jobs[number.0].session;
        let is_waiting = self.client_mut(session).queue.contains(&number);
        if let Some(rule) = self.jobs[number.0].rule
            && self.rules[rule].act == Act::LoseReply
            && is_waiting
        {
            self.takes_effect(rule);
            self.hang_up(session, Break::because(self.rules[rule].cause.clone()));
        }
    }

    /// Every server applies what it is to have applied by now, and answers what that allows.
    pub(super) fn settle(&mut self) {
        for server in 0..self.servers.len() {
            while let Some(due) = self.servers[server].next_due(self.leader.log()) {
                if due > self.now {
                    self.plan(due.saturating_sub(self.now), Event::CatchUp);
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

    fn apply_next(&mut self, server: usize) {
        let it = &mut self.servers[server];
        let transaction = Arc::clone(&self.leader.log()[it.applied()]);
        let notices = it.apply(&transaction);
        let zxid = it.zxid();
        for (session, trigger) in notices {
            self.notify(session, trigger);
        }
        let attached: Vec<SessionId> = self
            .clients
            .values_mut()
            .filter(|client| client.server == server && client.is_up())
            .map(|client| client.id)
            .collect();
        for session in attached {
            let client = self.client_mut(session);
            if client.opening.is_some_and(|opening| opening <= zxid) {
                client.opening = None;
                self.outputs.push(Output::Opened(session));
            }
            self.pump(session);
            if transaction.closes == Some(session) && !self.client_mut(session).is_closing {
                self.hang_up(session, Break::because("closed by the server"));
            }
        }
    }

    /// Answers the requests of a session whose turn has come.
    fn pump(&mut self, session: SessionId) {
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
            if let Ready::After { zxid: wanted, .. } = &self.jobs[number.0].ready
                && *wanted > zxid
            {
                return;
            }
            self.client_mut(session).queue.pop_front();
            self.answer(number, server);
        }
    }

    fn answer(&mut self, number: JobNumber, server: usize) {
        let job = &mut self.jobs[number.0];
        let session = job.session;
        let zxid = self.servers[server].zxid();
        let (mut outcome, mut watch) = match (&job.ready, &job.content) {
            (Ready::After { outcome, .. }, _) => (outcome.clone(), None),
            (Ready::Look, Content::Request(request)) => {
                let identities = &self.clients[&session].identities;
                self.servers[server].read(session, identities, request)
            }
            (Ready::Look, Content::Close) => unreachable!("committed when it arrived"),
        };
        if job.fate == Fate::Arrived {
            job.fate = match &outcome {
                Ok(_) => Fate::CarriedOut { zxid },
                Err(fault) => Fate::Refused(fault.clone()),
            };
        }
        match job.rule.map(|rule| (rule, self.rules[rule].act.clone())) {
            Some((rule, Act::LoseReply)) => {
                self.takes_effect(rule);
                let how = Break::because(self.rules[rule].cause.clone());
                self.hang_up(session, how);
                return;
            }
            Some((rule, Act::Misreport(fault))) => {
                self.takes_effect(rule);
                outcome = Err(fault);
                // The client does not know of the watch, which goes with the connection.
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
    }

    /// A server tells a session that a watch has fired.
    pub(super) fn notify(&mut self, session: SessionId, trigger: Trigger) {
        self.push(session, Body::Notice(trigger));
    }

    /// A server ends a connection, after what it has sent on it.
    fn hang_up(&mut self, session: SessionId, how: Break) {
        self.push(session, Body::End(how));
        self.client_mut(session).is_hung_up = true;
    }

    fn push(&mut self, session: SessionId, body: Body) {
        let due = self.now + self.settings.latency;
        let client = self.client_mut(session);
        if client.is_hung_up || !client.is_up() {
            return;
        }
        client.outbox.push_back(Message { due, body });
        let connection = client.connection;
        let latency = self.settings.latency;
        self.plan(
            latency,
            Event::Deliver {
                session,
                connection,
            },
        );
    }

    /// What has reached the client, in order; what is held, holds up all that comes after it.
    pub(super) fn deliver(&mut self, session: SessionId, connection: u64) {
        loop {
            let now = self.now;
            let client = &self.clients[&session];
            if client.connection != connection {
                return;
            }
            let Some(message) = client.outbox.front() else {
                return;
            };
            if message.due > now || self.is_held(&message.body) {
                return;
            }
            let message = self.client_mut(session).outbox.pop_front();
            match message.map(|message| message.body) {
                None => return,
                Some(Body::End(how)) => self.break_link(session, &how),
                Some(Body::Notice(trigger)) => self.fire(session, &trigger),
                Some(Body::Reply {
                    job,
                    zxid,
                    outcome,
                    watch,
                }) => {
                    let watch = watch.map(|watch| (WatchNumber(self.number()), watch));
                    let client = self.client_mut(session);
                    client.in_flight.retain(|one| *one != job);
                    client.seen = client.seen.max(zxid);
                    let number = watch.as_ref().map(|(number, _)| *number);
                    client.watches.extend(watch);
                    self.told(job, outcome, number);
                }
            }
        }
    }

    fn is_held(&self, body: &Body) -> bool {
        match body {
            Body::Reply { job, .. } => self.jobs[job.0]
                .rule
                .map(|rule| &self.rules[rule])
                .is_some_and(|rule| rule.act == Act::Hold && !rule.is_released),
            Body::Notice(_) | Body::End(_) => false,
        }
    }

    /// The client learns what became of its request.
    fn told(
        &mut self,
        number: JobNumber,
        mut outcome: Result<Answer, Fault>,
        watch: Option<WatchNumber>,
    ) {
        let job = &mut self.jobs[number.0];
        let session = job.session;
        job.answered = true;
        if let Ok(answer) = &mut outcome
            && let Some(place) = answer.watch_mut()
        {
            *place = watch;
        }
        let ending = match &outcome {
            Ok(Answer::Closed) => Some(Ending::Closed),
            Err(Fault::Ended(ending)) => Some(*ending),
            _ => None,
        };
        self.outputs.push(Output::Answer(number, outcome));
        if let Some(ending) = ending {
            self.end(session, ending);
        }
    }

    fn fire(&mut self, session: SessionId, trigger: &Trigger) {
        let client = self.client_mut(session);
        let met: Vec<_> = client
            .watches
            .iter()
            .filter(|(_, (path, awaited))| {
                *path == trigger.path && awaited.is_met_by(trigger.event)
            })
            .map(|(number, _)| *number)
            .collect();
        for number in met {
            self.client_mut(session).watches.remove(&number);
            self.outputs.push(Output::Fire(number, trigger.event));
        }
    }

    /// Lets go what a rule holds or has stuck.
    pub(crate) fn release(&mut self, rule: usize) {
        self.rules[rule].is_released = true;
        let stuck = std::mem::take(&mut self.stuck);
        let (landing, left) = stuck.into_iter().partition(|stuck| stuck.rule == rule);
        self.stuck = left;
        self.land(landing);
        let waiting: Vec<_> = self
            .clients
            .values()
            .map(|client| (client.id, client.connection))
            .collect();
        for (session, connection) in waiting {
            self.deliver(session, connection);
        }
    }

    /// What of a session is stuck comes to the leader.
    pub(super) fn land_all(&mut self, session: SessionId) {
        let stuck = std::mem::take(&mut self.stuck);
        let (landing, left) = stuck
            .into_iter()
            .partition(|stuck| self.jobs[stuck.job.0].session == session);
        self.stuck = left;
        self.land(landing);
    }

    /// A leader turns away what comes from a server that the session has left.
    fn land(&mut self, landing: Vec<Stuck>) {
        for stuck in landing {
            let session = self.jobs[stuck.job.0].session;
            if self.client_mut(session).attachments == stuck.attachments {
                self.commit(stuck.job);
            } else {
                self.jobs[stuck.job.0].fate = Fate::Fenced;
            }
        }
    }
}

/// How long a server to which a session is moved does not show what was stalled.
const SHOWN_AFTER: Duration = Duration::from_millis(500);
