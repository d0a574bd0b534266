//! The state machine of the ensemble and its clients: no tasks, clocks or channels.
//!
//! The driver calls [`World::advance`] with the time, then an operation, and processes the [`Output`]s.
//! The same calls return the same outputs.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_core::transport::{
    Link, Phase, ReplyHeader, Request, ServerRole, TransportError, WatchNotification,
};
use zk_core::{NodePath, SessionId, WatchEvent};

use crate::access::Identity;
use crate::jobs::Jobs;
use crate::leader::Leader;
use crate::release::Release;
use crate::request_log::{LoggedRequest, RequestOutcome};
use crate::script::{Proposal, Rule, Turn};
use crate::server::{Lag, Server};
use crate::server_reply::{ServerReply, WatchNumber};
use crate::tree::{Counters, Trigger};
use crate::wire_request::WireRequest;
pub(crate) use client::Break;
use client::Client;
pub(crate) use remote::Attachment;

mod client;
mod delivery;
mod links;
mod quorum;
mod remote;
mod service;
mod touches;

/// The settings of an ensemble.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) servers: usize,
    /// The one-way latency between a client and its server.
    pub(crate) latency: Duration,
    /// Bytes per second from a server to each of its clients.
    pub(crate) bandwidth: Option<u32>,
    /// The pause between the break of a link and the next attempt.
    pub(crate) reconnect: Duration,
    pub(crate) counters: Counters,
    pub(crate) release: Release,
    pub(crate) reap_every: Option<Duration>,
    /// Whether servers without a quorum grant read-only sessions.
    pub(crate) read_only: bool,
    /// Whether the servers support persistent watches.
    pub(crate) persistent_watches: bool,
    /// The longest request that servers read, in bytes.
    pub(crate) max_request: usize,
    /// The capacity of the request log.
    pub(crate) request_log: usize,
    /// The seed of all random choices.
    pub(crate) seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: 3,
            latency: Duration::from_millis(1),
            bandwidth: None,
            reconnect: Duration::from_millis(10),
            counters: Counters::default(),
            release: Release::default(),
            reap_every: None,
            read_only: false,
            persistent_watches: true,
            max_request: 0xf_ffff,
            request_log: 1 << 20,
            seed: 0,
        }
    }
}

/// The ensemble, its clients, and the messages between them.
pub(crate) struct World {
    settings: Settings,
    now: Duration,
    /// The committed transactions of all leaders, one after the other.
    leader: Leader,
    /// The index of the leader.
    leading: Option<usize>,
    /// When the leader was paused, if it is.
    leader_paused_at: Option<Duration>,
    /// The outcome of a write that waits for the quorum when the leader is lost.
    proposals: Proposal,
    servers: Vec<Server>,
    clients: BTreeMap<SessionId, Client>,
    jobs: Jobs<Job>,
    rules: Vec<Rule>,
    stuck: Vec<Stuck>,
    /// Requests that wait for a leader with a quorum, in order.
    waiting: Vec<JobNumber>,
    /// Proposals that the next leader finds in its log.
    proposed: Vec<JobNumber>,
    /// Sessions to expire as soon as there is a leader with a quorum.
    expiring: Vec<SessionId>,
    /// The number of lost leaders.
    losses: u64,
    events: BTreeMap<(Duration, u64), Event>,
    outputs: Vec<Output>,
    random: fastrand::Rng,
    /// The last id of a watch or an event.
    last_number: u64,
}

pub(crate) use crate::jobs::JobNumber;

/// The options of a new session.
#[derive(Debug, Clone)]
pub(crate) struct SessionOptions {
    /// The index of the server, or any server.
    pub(crate) server: Option<usize>,
    pub(crate) timeout: Duration,
    pub(crate) identities: Vec<Identity>,
    pub(crate) takes_read_only: bool,
    /// Whether its client is on the other side of a byte stream.
    pub(crate) is_remote: bool,
}

/// The content of a message from a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Request(Request),
    /// What only a client on a byte stream requests.
    Wire(WireRequest),
    Close,
}

/// A result for the driver to pass on to a client.
#[derive(Debug)]
pub(crate) enum Output {
    Opened(SessionId),
    Link(SessionId, Link),
    /// The reply to a request, its header, and the watch that the request has set.
    Reply(
        JobNumber,
        Result<ServerReply, TransportError>,
        Option<ReplyHeader>,
        Option<WatchNumber>,
    ),
    /// The reply to a request of a remote client, with the latest transaction that its server had applied.
    RemoteReply {
        session: SessionId,
        job: JobNumber,
        zxid: i64,
        outcome: Result<ServerReply, TransportError>,
    },
    /// A watch event for a remote client.
    RemoteEvent {
        session: SessionId,
        trigger: Trigger,
        zxid: Option<i64>,
    },
    Fire(WatchNumber, WatchEvent),
    /// An event of a persistent watch.
    Notify(WatchNumber, WatchNotification),
    /// A rule was applied.
    RuleApplied,
}

/// A request on its way through the ensemble, and later an entry of the request log.
#[derive(Debug)]
struct Job {
    session: SessionId,
    content: Content,
    at: Duration,
    /// The index of the server it was sent to.
    server: usize,
    outcome: RequestOutcome,
    answered: bool,
    /// Whether its client has received the reply or lost the request.
    is_resolved: bool,
    /// The rule that applies to it.
    rule: Option<usize>,
    ready: Ready,
}

/// The condition for the server's reply.
#[derive(Debug)]
enum Ready {
    /// The server reads its own tree as soon as the earlier requests are answered.
    Read,
    /// The leader has not executed it yet.
    Never,
    /// The server must have applied this transaction; the outcome is known.
    After {
        zxid: i64,
        outcome: Result<ServerReply, TransportError>,
    },
}

/// A request that is stuck between its server and the leader.
#[derive(Debug)]
struct Stuck {
    job: JobNumber,
    rule: usize,
    /// The session's number of attachments when the request got stuck.
    attachments: u64,
}

/// A scheduled event. An event of an ended connection has no effect.
type Event = Box<dyn FnOnce(&mut World) + Send>;

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let servers = (0..settings.servers)
            .map(|_| Server::new(settings.counters, settings.release))
            .collect();
        let mut world = Self {
            leader: Leader::new(settings.counters, settings.release),
            leading: settings.servers.checked_sub(1),
            proposals: Proposal::default(),
            servers,
            now: Duration::ZERO,
            clients: BTreeMap::new(),
            jobs: Jobs::new(settings.request_log),
            rules: Vec::new(),
            stuck: Vec::new(),
            waiting: Vec::new(),
            proposed: Vec::new(),
            expiring: Vec::new(),
            leader_paused_at: None,
            losses: 0,
            events: BTreeMap::new(),
            outputs: Vec::new(),
            random: fastrand::Rng::with_seed(settings.seed),
            last_number: 0,
            settings,
        };
        world.schedule_reaping();
        world
    }

    /// Processes all events that are due by `now`, in order.
    pub(crate) fn advance(&mut self, now: Duration) {
        while let Some(entry) = self.events.first_entry() {
            let due = entry.key().0;
            if due > now {
                break;
            }
            let event = entry.remove();
            self.now = self.now.max(due);
            event(self);
        }
        self.now = self.now.max(now);
    }

    /// Returns when the next scheduled event is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.events.keys().next().map(|(due, _)| *due)
    }

    /// Takes the outputs, in order.
    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    fn schedule(&mut self, after: Duration, event: impl FnOnce(&mut Self) + Send + 'static) {
        let number = self.number();
        self.events
            .insert((self.now + after, number), Box::new(event));
    }

    fn schedule_reaping(&mut self) {
        if let Some(interval) = self.settings.reap_every {
            self.schedule(interval, |world| {
                world.reap();
                world.schedule_reaping();
            });
        }
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Opens a session at the chosen server, or at the next one that does not lag; `None` if no server grants one.
    pub(crate) fn open(&mut self, options: &SessionOptions) -> Option<SessionId> {
        let count = self.clients.len();
        let servers = self.servers.len();
        let in_turn = (0..servers).map(|at| (count + at) % servers);
        let candidates: Vec<usize> = match options.server {
            Some(server) => vec![server],
            None => in_turn.collect(),
        };
        let serving = |server: &&usize| self.servers[**server].is_serving() && self.can_commit();
        let server = candidates
            .iter()
            .filter(serving)
            .find(|at| !self.servers[**at].lag.lasts(self.now))
            .or_else(|| candidates.iter().find(serving));
        let session = SessionId::from_i64(i64::try_from(count + 1).ok()? | FIRST_SESSION);
        let identities = options.identities.clone();
        let now = self.now;
        let client = |server, opening| Client {
            is_remote: options.is_remote,
            ..Client::new(session, server, options.timeout, now, identities, opening)
        };
        if let Some(server) = server.copied() {
            let zxid = self.leader.open(self.now);
            self.clients.insert(session, client(server, zxid));
            self.expire_when_unheard(session);
            self.apply_due();
            return Some(session);
        }
        let cut_off = |server: &&usize| {
            let server = &self.servers[**server];
            server.is_running() && !server.is_member
        };
        let server = candidates
            .iter()
            .find(cut_off)
            .filter(|_| self.settings.read_only && options.takes_read_only)
            .copied()?;
        // A session that only this server knows.
        let mut client = client(server, self.servers[server].zxid());
        client.link.phase = Phase::ReadOnly;
        client.opening = None;
        self.clients.insert(session, client);
        self.outputs.push(Output::Opened(session));
        Some(session)
    }

    /// Expires a session, as soon as there is a leader.
    pub(crate) fn expire(&mut self, session: SessionId) {
        if !self.can_commit() {
            self.expiring.push(session);
            return;
        }
        if let Some(client) = self.clients.get_mut(&session)
            && client.is_alive
        {
            client.is_alive = false;
            self.leader.close(session, self.now);
            self.apply_due();
        }
    }

    /// Deletes empty containers and expired TTL nodes, and returns their number.
    pub(crate) fn reap(&mut self) -> usize {
        if !self.can_commit() {
            return 0;
        }
        let gone = self.leader.reap(self.now).len();
        self.apply_due();
        gone
    }

    /// Sets the next sequence number of a node, and returns whether the node exists.
    pub(crate) fn set_counter(&mut self, path: &NodePath, counter: i32) -> bool {
        let is_there = self.leader.set_counter(path, counter, self.now);
        self.apply_due();
        is_there
    }

    /// Changes the lag of a server, which applies the transactions that are due then.
    pub(crate) fn set_lag(&mut self, server: usize, lag: Lag) {
        self.servers[server].lag = lag;
        self.apply_due();
    }

    pub(crate) fn add_rule(&mut self, rule: Rule) -> usize {
        self.rules.push(rule);
        self.rules.len() - 1
    }

    /// Ends a rule.
    pub(crate) fn withdraw(&mut self, rule: usize) {
        self.rules[rule].turn = Turn::Never;
        self.release(rule);
    }

    pub(crate) fn rule(&self, at: usize) -> &Rule {
        &self.rules[at]
    }

    /// Returns the logged requests, in the order of sending.
    pub(crate) fn seen(&self) -> Vec<LoggedRequest> {
        self.last_seen(usize::MAX)
    }

    /// Returns at most `count` of the last requests.
    pub(crate) fn last_seen(&self, count: usize) -> Vec<LoggedRequest> {
        let shown = |job: &Job| match &job.content {
            Content::Close | Content::Wire(_) => None,
            Content::Request(request) => Some(LoggedRequest {
                at: job.at,
                session: job.session,
                server: job.server + 1,
                request: request.clone(),
                outcome: job.outcome.clone(),
                answered: job.answered,
            }),
        };
        let mut last: Vec<_> = self
            .jobs
            .iter()
            .rev()
            .filter_map(shown)
            .take(count)
            .collect();
        last.reverse();
        last
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
    }

    /// Returns the number of all requests.
    pub(crate) fn count_jobs(&self) -> usize {
        self.jobs.count()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn set_proposals(&mut self, proposals: Proposal) {
        self.proposals = proposals;
    }

    /// Returns the random generator of all random choices.
    pub(crate) fn random(&mut self) -> &mut fastrand::Rng {
        &mut self.random
    }

    /// Returns the role of the server that a session is connected to, and how often its link had broken before.
    pub(crate) fn role_of_server(&self, session: SessionId) -> Option<(ServerRole, u64)> {
        let client = self.client(session)?;
        let role = if Some(client.server) == self.leading {
            ServerRole::Leader
        } else {
            ServerRole::Learner
        };
        let is_member = client.link.phase == Phase::Up;
        is_member.then_some((role, client.link.breaks))
    }

    /// Returns the index of the leader.
    pub(crate) fn leading(&self) -> Option<usize> {
        self.leading
    }

    pub(crate) fn leader(&self) -> &Leader {
        &self.leader
    }

    pub(crate) fn servers(&self) -> &[Server] {
        &self.servers
    }

    pub(crate) fn client(&self, session: SessionId) -> Option<&Client> {
        self.clients.get(&session)
    }

    fn client_mut(&mut self, session: SessionId) -> &mut Client {
        self.clients
            .get_mut(&session)
            .expect("clients are never removed")
    }
}

/// Session ids resemble those of a real ensemble, and are the same in each run.
const FIRST_SESSION: i64 = 0x0100_0000_0000_0000;

#[cfg(test)]
mod tests;
