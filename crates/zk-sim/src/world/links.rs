//! Links that break and come back, and sessions that end.

use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::WatchEvent;
use zk_core::transport::Ending;
use zk_core::transport::Fault;
use zk_core::transport::Phase;

use super::Content;
use super::Event;
use super::Output;
use super::World;
use super::client::Break;
use crate::answer::WatchNumber;
use crate::record::Fate;
use crate::tree::Trigger;
use crate::watches;
use crate::watches::Awaited;

impl World {
    /// Breaks the link of a session, if it has one. Requests in flight are lost; what of them has arrived, goes on.
    pub(crate) fn break_link(&mut self, session: SessionId, how: &Break) {
        let Some(client) = self.clients.get_mut(&session).filter(|one| one.is_up()) else {
            return;
        };
        client.link.phase = Phase::Down;
        client.link.breaks += 1;
        client.connection += 1;
        client.queue.clear();
        client.outbox.clear();
        client.is_hung_up = false;
        let connection = client.connection;
        let in_flight = std::mem::take(&mut client.in_flight);
        self.outputs.push(Output::Link(session, client.link));
        for job in in_flight.iter().rev() {
            if self.jobs[job.0].content == Content::Close {
                client.unsent.push_front(*job);
            }
        }
        let server = client.server;
        let timeout = client.timeout;
        let is_partitioned = client.is_partitioned;
        for job in in_flight {
            let it = &mut self.jobs[job.0];
            if it.fate == Fate::OnTheWay {
                it.fate = Fate::NeverArrived;
            }
            if it.content != Content::Close {
                let lost = Err(Fault::Lost(how.cause.clone()));
                self.outputs.push(Output::Answer(job, lost));
            }
        }
        self.servers[server].watches.forget(session);
        self.plan(
            timeout,
            Event::Unheard {
                session,
                connection,
            },
        );
        self.plan(
            timeout * 7 / 5,
            Event::GiveUp {
                session,
                connection,
            },
        );
        if !is_partitioned {
            let to = how.to.unwrap_or((server + 1) % self.servers.len());
            let after = how.after.unwrap_or(self.settings.reconnect);
            self.plan_reattaching(session, connection, to, after);
        }
    }

    fn plan_reattaching(
        &mut self,
        session: SessionId,
        connection: u64,
        to: usize,
        after: Duration,
    ) {
        self.plan(
            after,
            Event::Reattach {
                session,
                connection,
                to,
            },
        );
    }

    pub(super) fn is_down_since(&self, session: SessionId, connection: u64) -> bool {
        self.client(session).is_some_and(|client| {
            client.connection == connection && client.link.phase == Phase::Down
        })
    }

    /// The client tries a server.
    pub(super) fn reattach(&mut self, session: SessionId, connection: u64, to: usize) {
        if !self.is_down_since(session, connection) || self.client_mut(session).is_partitioned {
            return;
        }
        // A server sends away who has seen more than itself.
        if self.servers[to].zxid() < self.client_mut(session).seen {
            let next = (to + 1) % self.servers.len();
            let after = self.settings.reconnect;
            self.plan_reattaching(session, connection, next, after);
            return;
        }
        if self.client_mut(session).server == to {
            // Through the same server they come before the word that the session is back.
            self.land_all(session);
        }
        if !self.client_mut(session).is_alive {
            self.end(session, Ending::Expired);
            return;
        }
        let client = self.client_mut(session);
        client.server = to;
        client.connection += 1;
        client.attachments += 1;
        client.link.phase = Phase::Up;
        let link = client.link;
        self.outputs.push(Output::Link(session, link));
        self.set_watches_again(session);
        let unsent = std::mem::take(&mut self.client_mut(session).unsent);
        for job in unsent {
            self.send(job);
        }
    }

    /// Sets the watches of the client at its new server, which tells at once what happened meanwhile.
    fn set_watches_again(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        let (server, seen) = (client.server, client.seen);
        let watches: Vec<_> = client.watches.values().cloned().collect();
        let mut told: Vec<Trigger> = Vec::new();
        for (path, awaited) in watches {
            let it = &mut self.servers[server];
            match watches::missed(&it.tree, &path, awaited, seen) {
                None => it.watches.add(session, &path, awaited),
                Some(event) => {
                    let trigger = Trigger { path, event };
                    if !told.contains(&trigger) {
                        told.push(trigger);
                    }
                }
            }
        }
        for trigger in told {
            self.notify(session, trigger);
        }
    }

    /// The client no longer wants to be told.
    pub(crate) fn drop_watch(&mut self, session: SessionId, watch: WatchNumber) {
        let client = self.client_mut(session);
        let Some((path, awaited)) = client.watches.remove(&watch) else {
            return;
        };
        if client.is_up() {
            let connection = client.connection;
            let latency = self.settings.latency;
            self.plan(
                latency,
                Event::TakeWatchBack {
                    session,
                    connection,
                    path,
                    awaited,
                },
            );
        }
    }

    pub(super) fn take_watch_back(
        &mut self,
        session: SessionId,
        connection: u64,
        path: &NodePath,
        awaited: Awaited,
    ) {
        let client = self.client_mut(session);
        if client.connection != connection || client.awaits(path, awaited) {
            return;
        }
        let server = client.server;
        let in_flight = client.in_flight.clone();
        // A client leaves the watch to a request that asks for it again.
        if !in_flight
            .iter()
            .any(|job| self.jobs[job.0].asks_for_watch(path))
        {
            self.servers[server].watches.remove(session, path, awaited);
        }
    }

    /// Cuts the session off from all servers, or lets it back to one.
    pub(crate) fn set_partitioned(&mut self, session: SessionId, is_partitioned: bool) {
        let client = self.client_mut(session);
        client.is_partitioned = is_partitioned;
        let (connection, server) = (client.connection, client.server);
        if is_partitioned {
            self.break_link(session, &Break::because("no route to the servers"));
        } else if self.is_down_since(session, connection) {
            let to = (server + 1) % self.servers.len();
            let after = self.settings.reconnect;
            self.plan_reattaching(session, connection, to, after);
        }
    }

    /// The client's session is over, whatever the reason.
    pub(super) fn end(&mut self, session: SessionId, ending: Ending) {
        let client = self.client_mut(session);
        if client.is_over() {
            return;
        }
        if client.is_up() {
            client.link.breaks += 1;
        }
        client.link.phase = Phase::Over(ending);
        client.connection += 1;
        client.queue.clear();
        client.outbox.clear();
        let (link, server) = (client.link, client.server);
        let mut left = std::mem::take(&mut client.in_flight);
        left.extend(std::mem::take(&mut client.unsent));
        let watches = std::mem::take(&mut client.watches);
        self.servers[server].watches.forget(session);
        self.outputs.push(Output::Link(session, link));
        for job in left {
            let it = &mut self.jobs[job.0];
            if matches!(it.fate, Fate::OnTheWay | Fate::Unsent) {
                it.fate = Fate::NeverArrived;
            }
            let ended = Err(Fault::Ended(ending));
            self.outputs.push(Output::Answer(job, ended));
        }
        for watch in watches.into_keys() {
            self.outputs
                .push(Output::Fire(watch, WatchEvent::SessionLost));
        }
    }
}
