//! The whole ensemble and its clients as one machine that is told the time: no task, no clock, no channel.
//!
//! Whoever drives it calls [`World::advance`] with the time, does something, and carries out the [`Output`]s.
//! The same calls give the same outputs.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::WatchEvent;
use zk_core::transport::Ending;
use zk_core::transport::Fault;
use zk_core::transport::Link;
use zk_core::transport::Request;

use crate::access::Identity;
use crate::answer::Answer;
use crate::answer::WatchNumber;
use crate::log::Leader;
use crate::record::Fate;
use crate::record::Seen;
use crate::script::Rule;
use crate::server::Lag;
use crate::server::Server;
use crate::tree::Counters;
use crate::watches::Awaited;
pub(crate) use client::Break;
use client::Client;

mod client;
mod links;
mod service;

/// How an ensemble is made.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) servers: usize,
    /// From a client to its server, and the same back.
    pub(crate) latency: Duration,
    /// From the break of a link to the next attempt.
    pub(crate) reconnect: Duration,
    pub(crate) counters: Counters,
    pub(crate) reap_every: Option<Duration>,
}

/// The ensemble, its clients, and what is on the way between them.
#[derive(Debug)]
pub(crate) struct World {
    settings: Settings,
    now: Duration,
    leader: Leader,
    servers: Vec<Server>,
    clients: BTreeMap<SessionId, Client>,
    jobs: Vec<Job>,
    rules: Vec<Rule>,
    stuck: Vec<Stuck>,
    agenda: BTreeMap<(Duration, u64), Event>,
    outputs: Vec<Output>,
    /// Numbers of watches and of events.
    last_number: u64,
}

/// The number of a request, in the order of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobNumber(usize);

/// What a client wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Request(Request),
    Close,
}

/// What whoever drives the world has to tell the clients.
#[derive(Debug)]
pub(crate) enum Output {
    Opened(SessionId),
    Link(SessionId, Link),
    Answer(JobNumber, Result<Answer, Fault>),
    Fire(WatchNumber, WatchEvent),
    /// A rule has had its effect.
    Struck,
}

/// A request on its way through the ensemble, kept for ever as the record of it.
#[derive(Debug)]
struct Job {
    session: SessionId,
    content: Content,
    at: Duration,
    /// The server it was sent to, from zero.
    server: usize,
    fate: Fate,
    answered: bool,
    /// The rule that strikes it.
    rule: Option<usize>,
    ready: Ready,
}

/// When the server can answer.
#[derive(Debug)]
enum Ready {
    /// When its turn has come, by looking.
    Look,
    /// When it has applied this transaction, with this outcome.
    After {
        zxid: i64,
        outcome: Result<Answer, Fault>,
    },
}

/// A request between its server and the leader.
#[derive(Debug)]
struct Stuck {
    job: JobNumber,
    rule: usize,
    /// How often the session was attached to a server when it got stuck.
    attachments: u64,
}

/// Something that happens later. An event of a connection that has ended is void.
#[derive(Debug)]
enum Event {
    Arrive {
        job: JobNumber,
        connection: u64,
    },
    Deliver {
        session: SessionId,
        connection: u64,
    },
    Reattach {
        session: SessionId,
        connection: u64,
        to: usize,
    },
    /// The leader has not heard of the session for its timeout.
    Unheard {
        session: SessionId,
        connection: u64,
    },
    /// The client gives the session up.
    GiveUp {
        session: SessionId,
        connection: u64,
    },
    TakeWatchBack {
        session: SessionId,
        connection: u64,
        path: NodePath,
        awaited: Awaited,
    },
    CatchUp,
    Reap,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        let servers = (0..settings.servers)
            .map(|_| Server::new(settings.counters))
            .collect();
        let mut world = Self {
            leader: Leader::new(settings.counters),
            servers,
            now: Duration::ZERO,
            clients: BTreeMap::new(),
            jobs: Vec::new(),
            rules: Vec::new(),
            stuck: Vec::new(),
            agenda: BTreeMap::new(),
            outputs: Vec::new(),
            last_number: 0,
            settings,
        };
        world.plan_reaping();
        world
    }

    /// Does everything that is due by `now`, in order.
    pub(crate) fn advance(&mut self, now: Duration) {
        while let Some(entry) = self.agenda.first_entry() {
            let due = entry.key().0;
            if due > now {
                break;
            }
            let event = entry.remove();
            self.now = self.now.max(due);
            self.happen(event);
        }
        self.now = self.now.max(now);
    }

    /// When something happens next if nobody does anything.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.agenda.keys().next().map(|(due, _)| *due)
    }

    /// What is to be told, in order.
    pub(crate) fn take_outputs(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.outputs)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrive { job, connection } => self.arrive(job, connection),
            Event::Deliver {
                session,
                connection,
            } => self.deliver(session, connection),
            Event::Reattach {
                session,
                connection,
                to,
            } => self.reattach(session, connection, to),
            Event::Unheard {
                session,
                connection,
            } => {
                if self.is_down_since(session, connection) {
                    self.expire(session);
                }
            }
            Event::GiveUp {
                session,
                connection,
            } => {
                if self.is_down_since(session, connection) {
                    self.end(session, Ending::Expired);
                }
            }
            Event::TakeWatchBack {
                session,
                connection,
                path,
                awaited,
            } => self.take_watch_back(session, connection, &path, awaited),
            Event::CatchUp => self.settle(),
            Event::Reap => {
                self.reap();
                self.plan_reaping();
            }
        }
    }

    fn plan(&mut self, after: Duration, event: Event) {
        let number = self.number();
        self.agenda.insert((self.now + after, number), event);
    }

    fn plan_reaping(&mut self) {
        if let Some(interval) = self.settings.reap_every {
            self.plan(interval, Event::Reap);
        }
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Opens a session at a server, counted from zero, or at the next that does not lag.
    pub(crate) fn open(
        &mut self,
        server: Option<usize>,
        timeout: Duration,
        identities: Vec<Identity>,
    ) -> SessionId {
        let count = self.clients.len();
        let servers = self.servers.len();
        let server = server.unwrap_or_else(|| {
            (0..servers)
                .map(|at| (count + at) % servers)
                .find(|at| !self.servers[*at].lag.lasts(self.now))
                .unwrap_or(count % servers)
        });
        let id = i64::try_from(count + 1).unwrap_or(i64::MAX) | FIRST_SESSION;
        let session = SessionId::from_i64(id);
        let zxid = self.leader.open(self.now);
        self.clients.insert(
            session,
            Client::new(session, server, timeout, identities, zxid),
        );
        self.settle();
        session
    }

    /// Has the leader end a session.
    pub(crate) fn expire(&mut self, session: SessionId) {
        if let Some(client) = self.clients.get_mut(&session)
            && client.is_alive
        {
            client.is_alive = false;
            self.leader.close(session, self.now);
            self.settle();
        }
    }

    /// Deletes empty containers and outlived nodes, and tells how many.
    pub(crate) fn reap(&mut self) -> usize {
        let gone = self.leader.reap(self.now).len();
        self.settle();
        gone
    }

    /// Sets the number for the next sequential child, and tells whether there is such a node.
    pub(crate) fn set_counter(&mut self, path: &NodePath, counter: i32) -> bool {
        let is_there = self.leader.set_counter(path, counter, self.now);
        self.settle();
        is_there
    }

    /// Changes how far a server lags; what is due then, it applies.
    pub(crate) fn set_lag(&mut self, server: usize, lag: Lag) {
        self.servers[server].lag = lag;
        self.settle();
    }

    pub(crate) fn add_rule(&mut self, rule: Rule) -> usize {
        self.rules.push(rule);
        self.rules.len() - 1
    }

    pub(crate) fn rule(&self, at: usize) -> &Rule {
        &self.rules[at]
    }

    /// Every request so far, in the order of sending.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.jobs
            .iter()
            .filter_map(|job| match &job.content {
                Content::Close => None,
                Content::Request(request) => Some(Seen {
                    at: job.at,
                    session: job.session,
                    server: job.server + 1,
                    request: request.clone(),
                    fate: job.fate.clone(),
                    answered: job.answered,
                }),
            })
            .collect()
    }

    pub(crate) fn now(&self) -> Duration {
        self.now
    }

    pub(crate) fn session_of(&self, job: JobNumber) -> SessionId {
        self.jobs[job.0].session
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = &Client> {
        self.clients.values()
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
            .expect("clients are never forgotten")
    }
}

/// Sessions have numbers like those of a real ensemble, the same in each run.
const FIRST_SESSION: i64 = 0x0100_0000_0000_0000;

#[cfg(test)]
mod tests;
