//! Sessions whose clients are on the other side of a byte stream.
//!
//! Such a client reconnects, pings and gives up its session by itself, and keeps its own watches.
//! Here it has a session, a connection and watches on its server.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::Phase;

use super::client::{Break, Client};
use super::{Content, JobNumber, Output, World};
use crate::access::Identity;
use crate::server::ProcessState;

/// The reply of a server to a client that wants to resume its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// The session continues on the connection with this number.
    Resumed { connection: u64, timeout: Duration },
    /// The ensemble has no such session.
    Expired,
    /// The server closes the connection without a reply.
    Refused,
    /// The server replies later.
    NotYet,
}

impl World {
    /// Returns whether the client of a session is on the other side of a byte stream.
    pub(super) fn is_remote(&self, session: SessionId) -> bool {
        self.client(session).is_some_and(|client| client.is_remote)
    }

    /// Returns the one-way latency of messages of a session: a byte stream has its own.
    pub(super) fn latency(&self, session: SessionId) -> Duration {
        if self.is_remote(session) {
            Duration::ZERO
        } else {
            self.settings.latency
        }
    }

    /// Resumes a session on a connection to `server`, for a client that has seen the transactions up to `seen`.
    pub(crate) fn attach(&mut self, session: SessionId, server: usize, seen: i64) -> Attachment {
        let it = &self.servers[server];
        if it.state == ProcessState::Paused {
            return Attachment::NotYet;
        }
        let is_behind = it.zxid() < seen;
        if !it.is_serving() || !self.can_commit() || is_behind {
            return Attachment::Refused;
        }
        let client = self.clients.get(&session);
        let is_known =
            |one: &&Client| one.is_remote && !one.is_over() && one.link.phase != Phase::ReadOnly;
        let Some(client) = client.filter(is_known) else {
            return Attachment::Expired;
        };
        if client.is_partitioned {
            return Attachment::Refused;
        }
        let was_here = client.server == server;
        self.break_link(session, &Break::because("the client has reconnected"));
        if was_here {
            // At the same server the stuck requests precede the reconnection.
            self.forward_stuck(session);
        }
        if !self.client_mut(session).is_alive {
            return Attachment::Expired;
        }
        self.touch_session(session);
        let client = self.client_mut(session);
        client.server = server;
        client.connection += 1;
        client.attachments += 1;
        client.sent_by = Duration::ZERO;
        client.identities.clear();
        client.link.phase = Phase::Up;
        let resumed = Attachment::Resumed {
            connection: client.connection,
            timeout: client.timeout,
        };
        if client.opening.take().is_some() {
            self.outputs.push(Output::Opened(session));
        }
        resumed
    }

    /// Returns the number of the connection of a session, if it has one.
    pub(crate) fn connection_of(&self, session: SessionId) -> Option<u64> {
        let client = self.client(session)?;
        client.is_up().then_some(client.connection)
    }

    /// Records that the server has received something on a connection.
    pub(crate) fn hear(&mut self, session: SessionId, connection: u64) {
        if self.connection_of(session) == Some(connection) {
            let now = self.now;
            let client = &self.clients[&session];
            if !client.is_silent && self.servers[client.server].is_running() {
                self.client_mut(session).touches.touch(now);
            }
        }
    }

    /// Submits a request that has arrived on a connection; `None` if the connection has ended.
    pub(crate) fn submit_remote(
        &mut self,
        session: SessionId,
        connection: u64,
        content: Content,
    ) -> Option<JobNumber> {
        let is_current = self.connection_of(session) == Some(connection);
        is_current.then(|| self.submit(session, content))
    }

    /// Adds an identity to a connection.
    pub(crate) fn authenticate(&mut self, session: SessionId, connection: u64, who: Identity) {
        if self.connection_of(session) == Some(connection) {
            self.add_identity(session, who);
        }
    }

    /// Adds an identity to a session.
    pub(crate) fn add_identity(&mut self, session: SessionId, who: Identity) {
        let identities = &mut self.client_mut(session).identities;
        if !identities.contains(&who) {
            identities.push(who);
        }
    }

    /// Adds an identity to a session, and removes the others with its next connection.
    pub(crate) fn replace_identities(&mut self, session: SessionId, who: Identity) {
        self.add_identity(session, who.clone());
        self.client_mut(session).identity_of_next_link = Some(who);
    }

    /// Records that the client has closed a connection.
    pub(crate) fn detach(&mut self, session: SessionId, connection: u64) {
        if self.connection_of(session) == Some(connection) {
            self.break_link(session, &Break::because("closed by the client"));
        }
    }

    /// Expires the session of a remote client when the leader has not heard of it for its timeout.
    pub(super) fn expire_when_unheard(&mut self, session: SessionId) {
        let now = self.now;
        let client = &self.clients[&session];
        if !client.is_remote || !client.is_alive || client.link.phase == Phase::ReadOnly {
            return;
        }
        let due = client.touches.heard() + client.timeout;
        let again = if due > now {
            due.saturating_sub(now)
        } else if self.can_commit() {
            self.expire(session);
            return;
        } else {
            // The next leader restarts the timeout.
            self.settings.reconnect
        };
        self.schedule(again, move |world| world.expire_when_unheard(session));
    }
}
