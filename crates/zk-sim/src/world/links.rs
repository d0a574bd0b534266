//! Breaks and restores links, and ends sessions.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::transport::{Phase, SessionEnd, TransportError, WatchNotification};
use zk_core::{NodePath, SessionId, WatchEvent};

use super::client::Break;
use super::{Content, Output, World};
use crate::request_log::RequestOutcome;
use crate::server::ProcessState;
use crate::server_reply::WatchNumber;
use crate::tree::Trigger;
use crate::watches::{Removal, WatchKind};

impl World {
    /// Breaks the link of a session, if it has one. Replies in flight are lost; requests that have arrived proceed.
    pub(crate) fn break_link(&mut self, session: SessionId, how: &Break) {
        let Some(client) = self.clients.get_mut(&session).filter(|one| one.is_up()) else {
            return;
        };
        if client.link.phase == Phase::ReadOnly {
            // No other server knows the session.
            self.end(session, SessionEnd::Expired);
            return;
        }
        client.link.phase = Phase::Down;
        client.link.breaks += 1;
        client.broken_at = Some(self.now);
        if let Some(identity) = client.identity_of_next_link.take() {
            client.identities = vec![identity];
        }
        client.connection += 1;
        client.queue.clear();
        client.outbox.clear();
        client.muted.clear();
        client.deferred_removals.clear();
        client.is_silent = false;
        client.is_hung_up = false;
        client.tries = 0;
        let connection = client.connection;
        let in_flight = std::mem::take(&mut client.in_flight);
        let is_remote = client.is_remote;
        if is_remote {
            // Another connection may request it again.
            client.is_closing = false;
        }
        self.outputs.push(Output::Link(session, client.link));
        for job in in_flight.iter().rev() {
            if self.jobs[*job].content == Content::Close && !is_remote {
                client.unsent.push_front(*job);
            }
        }
        let server = client.server;
        let timeout = client.timeout;
        let is_partitioned = client.is_partitioned;
        self.lose_persistent_watches(session);
        for job in in_flight {
            let it = &mut self.jobs[job];
            if it.outcome == RequestOutcome::OnTheWay {
                it.outcome = RequestOutcome::NeverArrived;
            }
            if it.content != Content::Close || is_remote {
                self.fail(job, TransportError::Lost(how.cause.clone()));
            }
        }
        self.servers[server].watches.forget(session);
        if is_remote {
            // The client reconnects when it chooses to, and the leader's timeout runs since its last message.
            return;
        }
        self.begin_timeout(session);
        self.schedule(timeout * 7 / 5, move |world| {
            if world.is_down_since(session, connection) {
                world.end(session, SessionEnd::Expired);
            }
        });
        if !is_partitioned {
            let to = how.to.unwrap_or((server + 1) % self.servers.len());
            let after = how.after.unwrap_or(self.settings.reconnect);
            self.schedule_reattaching(session, connection, to, after);
        }
    }

    /// Ends the persistent watches of a session, because they do not outlive the link.
    fn lose_persistent_watches(&mut self, session: SessionId) {
        let outputs = &mut self.outputs;
        let client = self
            .clients
            .get_mut(&session)
            .expect("clients are never removed");
        client.watches.retain(|number, (_, kind)| {
            if kind.is_persistent() {
                outputs.push(Output::Notify(*number, WatchNotification::LinkLost));
            }
            !kind.is_persistent()
        });
    }

    /// Drops all messages on the link; neither side is notified.
    pub(crate) fn silence(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        if client.is_up() && !client.is_silent {
            client.is_silent = true;
            self.fall_silent(session);
        }
    }

    /// Starts the timeouts of the client and the leader for a silent link.
    pub(super) fn fall_silent(&mut self, session: SessionId) {
        self.begin_timeout(session);
        let client = self.client_mut(session);
        client.silences += 1;
        let (timeout, silences) = (client.timeout, client.silences);
        let link_timeout = Self::link_timeout(timeout);
        self.schedule(link_timeout, move |world| {
            world.notice_silence(session, silences);
        });
    }

    /// Breaks the link from the client's side, if it is still silent.
    fn notice_silence(&mut self, session: SessionId, silences: u64) {
        let client = self.client_mut(session);
        let (is_silent, server, timeout) = (client.is_silent, client.server, client.timeout);
        if client.is_remote {
            return;
        }
        if client.silences == silences && (is_silent || !self.servers[server].is_running()) {
            let link_timeout = Self::link_timeout(timeout);
            let cause = format!(
                "no response from connection in {}ms",
                link_timeout.as_millis()
            );
            self.break_link(session, &Break::because(cause));
        }
    }

    /// Delivers the delayed messages.
    pub(super) fn deliver_muted(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        let connection = client.connection;
        for job in std::mem::take(&mut client.muted) {
            self.arrive(session, job, connection);
        }
        self.deliver(session, connection);
    }

    fn schedule_reattaching(
        &mut self,
        session: SessionId,
        connection: u64,
        to: usize,
        after: Duration,
    ) {
        self.schedule(after, move |world| world.reattach(session, connection, to));
    }

    pub(super) fn is_down_since(&self, session: SessionId, connection: u64) -> bool {
        self.client(session).is_some_and(|client| {
            client.connection == connection && client.link.phase == Phase::Down
        })
    }

    /// Lets the client try a server.
    fn reattach(&mut self, session: SessionId, connection: u64, to: usize) {
        if !self.is_down_since(session, connection) || self.client_mut(session).is_partitioned {
            return;
        }
        let servers = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        let client = self.client_mut(session);
        let (seen, timeout) = (client.seen, client.timeout);
        client.tries += 1;
        let rounds = ((client.tries - 1) / servers).min(MOST_DOUBLINGS);
        let next = (to + 1) % self.servers.len();
        let it = &self.servers[to];
        if !it.is_serving() {
            let after = match it.state {
                // It accepts the connection but does not reply.
                ProcessState::Paused => Self::link_timeout(timeout),
                ProcessState::Running | ProcessState::Stopped => {
                    self.settings.reconnect * 2_u32.pow(rounds)
                }
            };
            self.schedule_reattaching(session, connection, next, after);
            return;
        }
        // A server rejects a client that has seen a larger zxid.
        if it.zxid() < seen {
            let after = self.settings.reconnect;
            self.schedule_reattaching(session, connection, next, after);
            return;
        }
        if !self.can_commit() {
            // Only a leader knows whether the session is alive. The client waits.
            let after = self.settings.reconnect;
            self.schedule_reattaching(session, connection, to, after);
            return;
        }
        if self.client_mut(session).server == to {
            // At the same server the stuck requests precede the reconnection.
            self.forward_stuck(session);
        }
        if !self.client_mut(session).is_alive {
            self.end(session, SessionEnd::Expired);
            return;
        }
        self.touch_session(session);
        let client = self.client_mut(session);
        client.server = to;
        client.connection += 1;
        client.attachments += 1;
        client.sent_by = Duration::ZERO;
        client.link.phase = Phase::Up;
        let link = client.link;
        if client.opening.take().is_some() {
            self.outputs.push(Output::Opened(session));
        }
        self.outputs.push(Output::Link(session, link));
        self.set_watches_again(session);
        let unsent = std::mem::take(&mut self.client_mut(session).unsent);
        for job in unsent {
            self.send(job);
        }
    }

    /// Sets the watches of the client at its new server, which reports missed events immediately.
    fn set_watches_again(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        let (server, seen) = (client.server, client.seen);
        let identities = client.identities.clone();
        let watches: Vec<_> = client.watches.values().cloned().collect();
        let mut missed: Vec<Trigger> = Vec::new();
        for (path, kind) in watches {
            let it = &mut self.servers[server];
            let fired = it.set_again(session, &identities, (&path, kind), seen);
            missed.extend(fired.filter(|trigger| !missed.contains(trigger)));
        }
        for trigger in missed {
            self.notify(session, trigger, None);
        }
    }

    /// Drops a watch of the client.
    pub(crate) fn drop_watch(&mut self, session: SessionId, watch: WatchNumber) {
        let Some((path, kind)) = self.client_mut(session).watches.remove(&watch) else {
            return;
        };
        let client = &self.clients[&session];
        let others: Vec<_> = client
            .watches
            .values()
            .filter(|(other, _)| *other == path)
            .map(|(_, kind)| *kind)
            .collect();
        let is_asked_for = self.is_asked_for(session, &path, Removal::Any);
        if let Some(removal) = Removal::of(kind, &others, is_asked_for) {
            self.request_removal(session, path, removal);
        }
    }

    /// Requests the removal of watches from the client's server, unless a request in flight asks for such a watch: then
    /// its reply decides.
    pub(super) fn request_removal(&mut self, session: SessionId, path: NodePath, removal: Removal) {
        let is_asked_for = self.is_asked_for(session, &path, removal);
        let client = self.clients.get_mut(&session).filter(|one| one.is_up());
        let Some(client) = client else {
            return;
        };
        if is_asked_for {
            client.deferred_removals.push((path, removal));
            return;
        }
        let connection = client.connection;
        let latency = self.settings.latency;
        self.schedule(latency, move |world| {
            world.remove_watch(session, connection, &path, removal);
        });
    }

    /// Returns whether a request in flight asks for a watch on this node that the removal would end.
    fn is_asked_for(&self, session: SessionId, path: &NodePath, removal: Removal) -> bool {
        let mut in_flight = self.clients[&session].in_flight.iter();
        in_flight.any(|job| self.jobs[*job].asks_for_watch(path, removal))
    }

    /// Requests the deferred removals that no request in flight affects any more, after a reply that set `watch`.
    pub(super) fn request_deferred_removals(
        &mut self,
        session: SessionId,
        watch: Option<&(NodePath, WatchKind)>,
    ) {
        let deferred = std::mem::take(&mut self.client_mut(session).deferred_removals);
        for (path, removal) in deferred {
            if watch.is_none_or(|(set, kind)| *set != path || !removal.ends(*kind)) {
                self.request_removal(session, path, removal);
            }
        }
    }

    fn remove_watch(
        &mut self,
        session: SessionId,
        connection: u64,
        path: &NodePath,
        removal: Removal,
    ) {
        let client = &self.clients[&session];
        let is_heard = !client.is_silent && self.servers[client.server].is_running();
        if client.connection == connection && is_heard {
            let server = client.server;
            self.servers[server].watches.remove(session, path, removal);
        }
    }

    /// Separates the session from all servers.
    pub(crate) fn partition(&mut self, session: SessionId) {
        self.client_mut(session).is_partitioned = true;
        self.break_link(session, &Break::because("no route to the servers"));
    }

    /// Ends a partition or a silence.
    pub(crate) fn heal(&mut self, session: SessionId) {
        let client = self.client_mut(session);
        let was_partitioned = std::mem::take(&mut client.is_partitioned);
        let was_silent = std::mem::take(&mut client.is_silent);
        let (connection, server) = (client.connection, client.server);
        let is_remote = client.is_remote;
        if was_silent && self.servers[server].is_running() {
            self.end_timeout(session);
            self.deliver_muted(session);
        } else if was_partitioned && !is_remote && self.is_down_since(session, connection) {
            let to = (server + 1) % self.servers.len();
            let after = self.settings.reconnect;
            self.schedule_reattaching(session, connection, to, after);
        }
    }

    /// Sets how much later than a reply the link reports the end of the session.
    pub(crate) fn delay_end(&mut self, session: SessionId, delay: Duration) {
        self.client_mut(session).end_delay = delay;
    }

    /// Ends the session at its client.
    pub(super) fn end(&mut self, session: SessionId, ending: SessionEnd) {
        if self.client_mut(session).is_over() {
            return;
        }
        self.begin_timeout(session);
        let client = self.client_mut(session);
        if client.is_up() {
            client.link.breaks += 1;
        }
        client.link.phase = Phase::Over(ending);
        client.connection += 1;
        client.queue.clear();
        client.outbox.clear();
        client.muted.clear();
        client.is_silent = false;
        let was_opening = client.opening.take().is_some();
        let (link, server, end_delay) = (client.link, client.server, client.end_delay);
        let sent = std::mem::take(&mut client.in_flight).into_iter();
        let sent = sent.map(|job| (job, TransportError::Ended(ending)));
        let unsent = std::mem::take(&mut client.unsent).into_iter();
        let unsent = unsent.map(|job| (job, TransportError::NotSent(ending)));
        let left: Vec<_> = sent.chain(unsent).collect();
        let watches = std::mem::take(&mut client.watches);
        self.servers[server].watches.forget(session);
        if end_delay.is_zero() {
            self.outputs.push(Output::Link(session, link));
        } else {
            self.schedule(end_delay, move |world| {
                world.outputs.push(Output::Link(session, link));
            });
        }
        for (job, fault) in left {
            let it = &mut self.jobs[job];
            if matches!(
                it.outcome,
                RequestOutcome::OnTheWay | RequestOutcome::Unsent
            ) {
                it.outcome = RequestOutcome::NeverArrived;
            }
            self.fail(job, fault);
        }
        for (watch, (_, kind)) in watches {
            self.outputs.push(if kind.is_persistent() {
                Output::Notify(watch, WatchNotification::LinkLost)
            } else {
                Output::Fire(watch, WatchEvent::SessionLost)
            });
        }
        if was_opening {
            self.outputs.push(Output::Opened(session));
        }
    }
}

/// After this number of rounds over all servers the pause no longer doubles.
const MOST_DOUBLINGS: u32 = 5;
