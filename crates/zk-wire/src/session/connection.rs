//! A connection from the dial to its loss: the handshake, and what is sent with it.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use bytes::Bytes;

use super::pending::{Frame, Role};
use super::writable_server::WritableServerSearch;
use super::{Event, Loss, NO_PASSWORD, Outcome, Phase, Server, Session, SessionEnd};
use crate::proto::{ConnectRequest, ConnectResponse, Request, Xid};

impl Session {
    /// Returns the server to connect to now, if any. The driver replies with [`dialed`](Self::dialed) or
    /// [`connection_lost`](Self::connection_lost).
    pub fn poll_dial(&mut self, now: Duration) -> Option<Server> {
        match self.phase {
            Phase::Waiting { until } if until <= now && self.hosts.len() > 0 => {
                let server = self.hosts.take_next();
                self.dial_began = now;
                self.phase = Phase::Dialing {
                    server: server.clone(),
                    deadline: now + self.connect_limit(&server),
                };
                Some(server)
            }
            _ => None,
        }
    }

    /// Returns whether a connection that was asked for or made is still wanted.
    pub const fn wants_connection(&self) -> bool {
        matches!(
            self.phase,
            Phase::Dialing { .. } | Phase::Handshake { .. } | Phase::Up { .. }
        )
    }

    /// Returns whether a connection was asked for and is not made yet.
    pub const fn is_dialing(&self) -> bool {
        matches!(self.phase, Phase::Dialing { .. })
    }

    /// Returns the server of the session's connection, if it has this number.
    pub fn server_of(&self, connection: u64) -> Option<&Server> {
        match &self.phase {
            Phase::Handshake { server, .. } | Phase::Up { server, .. } => Some(server),
            _ => None,
        }
        .filter(|_| self.connection == connection)
    }

    /// Returns the number of the session's connection, or of the last one. What arrives over a connection with another
    /// number is not for [`buffer`](Self::buffer), and nothing that [`transmit`](Self::transmit) returns is for it.
    pub const fn connection(&self) -> u64 {
        self.connection
    }

    /// Records that the connection is made: the handshake begins. Returns the number of the connection.
    pub fn dialed(&mut self, now: Duration) -> u64 {
        let Phase::Dialing { server, .. } = &self.phase else {
            return self.connection;
        };
        let server = server.clone();
        self.hosts.was_in_time(&server);
        self.received.clear();
        self.written = 0;
        self.last_sent = now;
        let connect = ConnectRequest {
            last_zxid_seen: self.last_zxid,
            timeout: self.config.timeout,
            session_id: if self.is_established { self.id } else { 0 },
            password: if self.is_established {
                self.password.clone()
            } else {
                NO_PASSWORD
            },
            read_only: self.config.read_only && self.hosts.failed_rounds() > 0,
        };
        self.outgoing.push_back(Frame::handshake(&connect));
        let started = self.start_sasl(&server.host);
        self.connections += 1;
        self.connection = self.connections;
        self.begin_handshake(server, now);
        if let Err(loss) = started {
            self.connection_lost(&loss, now);
        }
        self.connection
    }

    /// Waits for the server's reply to the handshake.
    pub(super) fn begin_handshake(&mut self, server: Server, now: Duration) {
        let deadline = now + self.handshake_limit(now);
        self.phase = Phase::Handshake {
            server,
            began: now,
            deadline,
        };
    }

    pub(super) fn send_credentials_and_watches(&mut self) {
        self.send_credentials();
        for lists in self.watches.lists(SET_WATCHES_LIMIT) {
            let set = Request::SetWatches {
                last_zxid_seen: self.last_zxid,
                lists,
            };
            self.outgoing
                .push_back(Frame::new(&set, Xid::SET_WATCHES, Role::Internal));
        }
    }

    /// Records that a connection could not be made, or is lost.
    pub fn connection_lost(&mut self, why: &Loss, now: Duration) {
        let began = match &self.phase {
            Phase::Waiting { .. } | Phase::Over(_) => return,
            Phase::Up { .. } => {
                self.events
                    .push_back(Event::Disconnected { why: why.clone() });
                // Its address may have gone from its name.
                if let Some(refresh) = &mut self.refresh {
                    refresh.ask(now);
                }
                now
            }
            Phase::Dialing { server, .. } => {
                let took = now.saturating_sub(self.dial_began);
                if took >= self.connect_limit(server) {
                    self.hosts.was_late(server);
                } else {
                    self.hosts.was_in_time(server);
                }
                self.dial_began
            }
            Phase::Handshake { .. } => self.dial_began,
        };
        // Other failures of a dial pass when a server is back; these need another configuration.
        if !matches!(self.phase, Phase::Up { .. })
            && matches!(why, Loss::Tls { .. } | Loss::Sasl { .. })
        {
            self.events
                .push_back(Event::Disconnected { why: why.clone() });
        }
        let sent = std::mem::take(&mut self.sent);
        self.dial_failed(began, now);
        self.skipped = None;
        self.moves_to = None;
        self.authentication.disconnected();
        self.probes.clear();
        self.received.clear();
        for frame in sent {
            if let Some(ticket) = frame.ticket() {
                let (epoch, why) = (self.epoch, self.loss_of(&frame, why));
                let outcome = Outcome::Unknown { epoch, why };
                self.events.push_back(Event::Answered(ticket, outcome));
            } else if frame.is_close() {
                self.outgoing.push_back(frame);
            }
        }
        // A frame that was written in part is none to the server.
        self.written = 0;
        if self.is_closing && !self.is_established {
            self.end(SessionEnd::Closed);
            return;
        }
        while let Some(frame) = self.outgoing.pop_back() {
            if frame.ticket().is_some() || frame.is_close() {
                self.queued_bytes += frame.payload_len();
                self.queue.push_front(frame);
            }
        }
    }

    /// Returns why a request in flight has no reply: a server that does not know it may have closed the connection, or
    /// left it out.
    fn loss_of(&self, frame: &Frame, why: &Loss) -> Loss {
        let is_possible = matches!(why, Loss::Broken(_) | Loss::OutOfOrder { .. });
        match frame.needs.filter(|_| is_possible) {
            Some(needs) if self.shown_release < Some(needs) => {
                let why = Box::new(why.clone());
                Loss::MaybeTooOld { needs, why }
            }
            _ => why.clone(),
        }
    }

    /// Waits before the next dial, after one that began at `began` or a connection that broke then.
    pub(super) fn dial_failed(&mut self, began: Duration, now: Duration) {
        let pause = self.hosts.failed();
        // A pause follows each round without success.
        if let Some(refresh) = self.refresh.as_mut().filter(|_| !pause.is_zero()) {
            refresh.ask(now);
        }
        let until = now.max(began + pause);
        self.phase = Phase::Waiting { until };
    }

    pub(super) fn connected(
        &mut self,
        server: Server,
        payload: Bytes,
        now: Duration,
    ) -> Result<(), Loss> {
        let granted = ConnectResponse::decode(payload).map_err(Loss::Malformed)?;
        // A server without a quorum cannot know that the ensemble has ended a session.
        if granted.read_only && self.is_established && granted.is_expired() {
            return Err(Loss::ReadOnly);
        }
        if self.is_established && (granted.is_expired() || granted.session_id != self.id) {
            self.end(self.end_if_gone());
            return Ok(());
        }
        if granted.is_expired() {
            return Err(Loss::Refused);
        }
        let read_only = granted.read_only;
        if read_only && !self.config.read_only {
            return Err(Loss::ReadOnly);
        }
        self.is_established |= !read_only;
        self.id = granted.session_id;
        // The granted one shares the memory of the receive buffer, which is much larger.
        self.password = Bytes::copy_from_slice(&granted.password);
        self.timeout = granted.timeout;
        let smallest = self.smallest_timeout.unwrap_or(granted.timeout);
        self.smallest_timeout = Some(smallest.min(granted.timeout));
        self.epoch += 1;
        self.late_handshakes = 0;
        if read_only {
            self.search.begin(now);
        } else {
            self.search = WritableServerSearch::new();
        }
        self.authenticate();
        self.phase = Phase::Up {
            server,
            read_only,
            is_reported: false,
        };
        self.report_connected();
        self.record_success();
        Ok(())
    }

    /// Reports the connection once the server has accepted the SASL mechanism and all credentials, so that a session with
    /// wrong ones is never connected.
    pub(super) fn report_connected(&mut self) {
        let mut frames = self.outgoing.iter().chain(&self.sent);
        let is_unproved = |frame: &Frame| matches!(frame.role(), Role::Credentials(_));
        if self.authentication.is_exchanging() || frames.any(is_unproved) {
            return;
        }
        let Phase::Up {
            read_only,
            is_reported,
            ..
        } = &mut self.phase
        else {
            return;
        };
        if std::mem::replace(is_reported, true) {
            return;
        }
        let read_only = *read_only;
        self.events.push_back(Event::Connected {
            epoch: self.epoch,
            timeout: self.timeout,
            read_only,
        });
    }

    /// Resets the pauses between dials once the host has granted the session, accepted the SASL mechanism and set the
    /// watches. Not while the session is being closed: such a host may still refuse to close it.
    pub(super) fn record_success(&mut self) {
        let mut frames = self.outgoing.iter().chain(&self.sent);
        let is_waiting = self.is_closing || self.authentication.is_exchanging();
        if !is_waiting && frames.all(|frame| frame.xid != Xid::SET_WATCHES) {
            self.hosts.succeeded();
        }
    }

    /// Returns how long it may take to connect to a server, with the TLS handshake.
    pub(super) fn connect_limit(&self, server: &Server) -> Duration {
        let hosts = u32::try_from(self.hosts.hosts().max(1)).unwrap_or(u32::MAX);
        let longest = (self.timeout / (2 * hosts)).max(MIN_LONGEST_CONNECT);
        self.hosts.connect_time(server, longest)
    }
}

/// How many bytes of paths one request sets watches on; the Java client has 128 KiB.
const SET_WATCHES_LIMIT: usize = 100 << 10;
/// What the longest time of a connect is at least, however short the session timeout.
const MIN_LONGEST_CONNECT: Duration = Duration::from_secs(1);
