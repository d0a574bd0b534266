//! Slow handshakes of a client without a session: they are set aside while it tries another server.
//!
//! A server that was sent such a handshake is creating a session, however long that takes. If the connection were
//! dropped, that session would be of no use, and the ensemble would keep it until its timeout: an ensemble that is slow
//! because many clients connect would get more sessions to create. So the first grant is used, whichever server gives
//! it, and each later one is closed.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::pending::{Frame, Role};
use super::{Loss, Phase, Server, Session};
use crate::proto::{ConnectResponse, Request, Xid, take_frame};

/// A connection whose server was sent a handshake and has not replied.
///
/// The driver keeps it beside everything else, for [`Session::longest_handshake`] at most. It appends what arrives to
/// [`received`](Self::received), and once a whole frame is there, it calls
/// [`set_aside_answered`](Session::set_aside_answered); if the connection breaks or the time is over,
/// [`set_aside_lost`](Session::set_aside_lost).
#[derive(Debug)]
#[non_exhaustive]
pub struct SetAside {
    /// The number of the connection.
    pub connection: u64,
    /// What has arrived.
    pub received: BytesMut,
}

/// What becomes of a connection that was set aside, once its server has replied.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "drivers handle each of these")]
pub enum SetAsideUse {
    /// It is the session's connection now, in place of any other one.
    Serve,
    /// The session that was granted is not needed: the driver writes these bytes, which close it, and reads until the
    /// server closes the connection.
    Close(Bytes),
    /// The server granted nothing: the driver drops the connection.
    Drop,
}

/// A handshake that was set aside.
#[derive(Debug)]
pub(super) struct SlowHandshake {
    connection: u64,
    server: Server,
    /// Until then, it counts as one of the two that a client makes at the same time.
    limit: Duration,
}

impl Session {
    /// Returns the next connection that is set aside. The driver asks before it drops a connection that the session does
    /// not [want](Self::wants_connection) any more; the number says which one it is.
    pub fn poll_set_aside(&mut self) -> Option<SetAside> {
        self.set_aside.pop_front()
    }

    /// Returns how long a connection that is set aside may wait for the reply of its server.
    pub const fn longest_handshake(&self) -> Duration {
        self.timeout.saturating_mul(2)
    }

    /// Handles the reply to a handshake that was set aside: `answer` begins with a whole frame.
    pub fn set_aside_answered(
        &mut self,
        connection: u64,
        mut answer: BytesMut,
        now: Duration,
    ) -> SetAsideUse {
        let Some(slow) = self.take_slow(connection) else {
            return SetAsideUse::Drop;
        };
        let payload = take_frame(&mut answer.clone(), self.config.max_reply);
        let reply = payload.ok().flatten().map(ConnectResponse::decode);
        let Some(Ok(granted)) = reply else {
            return SetAsideUse::Drop;
        };
        if granted.is_expired() {
            return SetAsideUse::Drop;
        }
        let is_waiting = !matches!(self.phase, Phase::Up { .. } | Phase::Over(_));
        let is_needed = is_waiting && !self.is_established && !self.is_closing;
        let is_unfit = granted.read_only && !self.config.read_only;
        let close = || {
            let close = Frame::new(&Request::CloseSession, Xid::FIRST, Role::Internal);
            SetAsideUse::Close(close.bytes.freeze())
        };
        if !is_needed || is_unfit {
            return close();
        }
        if self.is_handshake_sent() {
            self.set_aside(now);
        }
        if self.start_sasl(&slow.server.host).is_err() {
            return close();
        }
        self.outgoing.clear();
        self.written = 0;
        self.connection = connection;
        self.received = std::mem::take(&mut answer);
        self.begin_handshake(slow.server, now);
        self.received(now);
        if self.wants_connection() {
            SetAsideUse::Serve
        } else {
            SetAsideUse::Drop
        }
    }

    /// Records that the connection is lost, or that its server did not reply in time.
    pub fn set_aside_lost(&mut self, connection: u64) {
        self.take_slow(connection);
    }

    /// Returns when the handshake is set aside, so that another server is tried.
    ///
    /// That is soon if it is the only one. Two are waited for at the same time until the limit of one of them is over.
    pub(super) fn set_aside_at(&self, began: Duration, deadline: Duration) -> Duration {
        let limits = self.slow.iter().map(|slow| slow.limit);
        let alone = limits.max().unwrap_or_default();
        (began + ALONE).max(alone).min(deadline)
    }

    /// Sets the handshake aside, and lets the next server be dialled.
    pub(super) fn set_aside(&mut self, now: Duration) {
        let Phase::Handshake {
            server, deadline, ..
        } = &self.phase
        else {
            return;
        };
        self.slow.push(SlowHandshake {
            connection: self.connection,
            server: server.clone(),
            limit: *deadline,
        });
        self.set_aside.push_back(SetAside {
            connection: self.connection,
            received: std::mem::take(&mut self.received),
        });
        self.authentication.disconnected();
        self.dial_failed(self.dial_began, now);
    }

    /// Returns whether a server was sent the handshake of a new session and has not replied.
    pub(super) fn is_handshake_sent(&self) -> bool {
        let is_sent = self.outgoing.is_empty() && matches!(self.phase, Phase::Handshake { .. });
        is_sent && !self.is_established
    }

    fn take_slow(&mut self, connection: u64) -> Option<SlowHandshake> {
        let is_it = |slow: &SlowHandshake| slow.connection == connection;
        let at = self.slow.iter().position(is_it)?;
        Some(self.slow.remove(at))
    }

    /// Returns how long a server may take to grant the session.
    ///
    /// It begins with the session timeout divided by the number of hosts, at most a third, and doubles: for a new session
    /// after each round of all servers without success, for a session that exists after each handshake that was late.
    /// Such a session must get a connection before it expires, whether a server hangs or all of them are slow. So the
    /// limit is 2/3 of its timeout as soon as a handshake that long would not fit in after a shorter one.
    pub(super) fn handshake_limit(&self, now: Duration) -> Duration {
        let hosts = u32::try_from(self.hosts.hosts().max(3)).unwrap_or(u32::MAX);
        let first = (self.timeout / hosts).max(SHORTEST_LIMIT);
        let doubled = |first: Duration, times: u32| first.saturating_mul(2_u32.pow(times.min(16)));
        if !self.is_established {
            let limit = doubled(first, self.hosts.failed_rounds());
            return limit.min(self.longest_handshake());
        }
        // The only server may be a standalone one that is starting.
        let is_only = self.hosts.len() == 1;
        let first = if is_only { SHORTEST_LIMIT } else { first };
        let limit = doubled(first, self.late_handshakes);
        let longest = (self.timeout * 2 / 3).max(SHORTEST_LIMIT);
        match self.expires_at() {
            Some(expiry) if now + limit + longest > expiry => longest,
            _ => limit.min(longest),
        }
    }

    /// Gives up the handshake of a session that exists.
    pub(super) fn handshake_late(&mut self, server: Server, began: Duration, now: Duration) {
        self.late_handshakes = self.late_handshakes.saturating_add(1);
        let time = now.saturating_sub(began);
        let server = Box::new(server);
        self.connection_lost(&Loss::NotGranted { server, time }, now);
    }
}

/// How long a handshake is the only one.
const ALONE: Duration = Duration::from_millis(750);
/// What the limit of a handshake is at least, however short the session timeout.
///
/// A standalone server that is starting may leave a connection unanswered for ever: its `NIOServerCnxn.close` fails
/// before it closes the socket (seen with 3.9). This is how long such a connection delays a session.
const SHORTEST_LIMIT: Duration = Duration::from_secs(1);
