//! The state machine of a session: what is sent when, and what each received byte and each moment changes.
//!
//! Pure: no I/O and no clock.
//!
//! A driver owns a [`Session`] and a connection, and repeats:
//!
//! 1. [`poll_event`](Session::poll_event) until there is none, and pass the events on;
//! 2. without a connection, [`poll_dial`](Session::poll_dial): connect to that server, then call
//!    [`dialed`](Session::dialed) or [`connection_lost`](Session::connection_lost);
//! 3. with one, write [`transmit`](Session::transmit) and report how much was written to
//!    [`transmitted`](Session::transmitted), append what is read to [`buffer`](Session::buffer) and call
//!    [`received`](Session::received);
//! 4. at [`poll_timeout`](Session::poll_timeout), call [`handle_timeout`](Session::handle_timeout);
//! 5. look up the servers whenever [`poll_lookup`](Session::poll_lookup) says so;
//! 6. at any time, send the question that [`poll_probe`](Session::poll_probe) returns to its server, and report the answer
//!    to [`probed`](Session::probed), or after [`Probe::TIMEOUT`] that there is none.
//!
//! Moments are durations since a moment that the driver chooses, and never decrease.
//!
//! The session says with [`wants_connection`](Session::wants_connection) whether the driver may keep its connection. A
//! connection that it does not want any more may be [set aside](SetAside): a driver that drops it instead leaves an unused
//! session on the servers.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::config::{Config, SavedSession};
use crate::proto::{Release, Request, Xid};
use crate::sasl::Nonces;

mod authentication;
mod connection;
mod event;
mod host_list;
mod host_refresh;
mod hosts;
mod pending;
mod probe;
mod replies;
mod requests;
mod set_aside;
mod timeouts;
mod tls_failure;
mod watches;
mod writable_server;

pub use event::{Event, Loss, Outcome, SessionEnd, SubmitError, Ticket};
pub use hosts::{Host, Server};
pub use probe::Probe;
pub use set_aside::{SetAside, SetAsideUse};
pub use tls_failure::{CertificateRefusal, TlsFailure};

use authentication::Authentication;
use host_refresh::HostRefresh;
use hosts::DialOrder;
use pending::{Frame, Role};
use replies::SkippedReply;
use set_aside::SlowHandshake;
use watches::Watches;
use writable_server::WritableServerSearch;

/// A session, see the [module](self). Its debug output contains no secrets and no data.
pub struct Session {
    config: Config,
    hosts: DialOrder,
    /// Runs if the servers are looked up.
    refresh: Option<HostRefresh>,
    phase: Phase,
    id: i64,
    password: Bytes,
    /// Whether the ensemble knows the session: a read-only server makes up a session of its own.
    is_established: bool,
    /// The granted session timeout; the requested one before that.
    timeout: Duration,
    /// The smallest timeout that was granted.
    smallest_timeout: Option<Duration>,
    last_zxid: i64,
    epoch: u64,
    next_ticket: u64,
    next_xid: Xid,
    /// Requests for this or a later connection.
    queue: VecDeque<Frame>,
    queued_bytes: usize,
    /// Requests for this connection, the first of which may be written in part.
    outgoing: VecDeque<Frame>,
    /// How much of the first one is written.
    written: usize,
    /// Requests that wait for their replies.
    sent: VecDeque<Frame>,
    received: BytesMut,
    authentication: Authentication,
    watches: Watches,
    /// The newest release that a request which was answered needs: the servers are at least that new.
    shown_release: Option<Release>,
    /// Runs on a read-only server.
    search: WritableServerSearch,
    probes: VecDeque<Probe>,
    events: VecDeque<Event>,
    is_closing: bool,
    /// How many connections there were.
    connections: u64,
    /// The number of the session's connection, or of the last one.
    connection: u64,
    /// Handshakes that wait beside the session's connection.
    slow: Vec<SlowHandshake>,
    /// Those of them that the driver has not taken.
    set_aside: VecDeque<SetAside>,
    /// How many handshakes of the session were given up since its last connection.
    late_handshakes: u32,
    /// The reply that is not read because it is too long, while the rest of it arrives.
    skipped: Option<SkippedReply>,
    /// The server that the session moves to.
    moves_to: Option<Server>,
    /// When the last dial began.
    dial_began: Duration,
    last_sent: Duration,
    /// When anything last arrived over the connection.
    last_received: Duration,
    /// When the last whole message arrived from a server that had granted the session.
    last_message: Duration,
}

#[derive(Debug)]
enum Phase {
    /// There is no connection before this moment.
    Waiting {
        until: Duration,
    },
    Dialing {
        server: Server,
        deadline: Duration,
    },
    Handshake {
        server: Server,
        began: Duration,
        deadline: Duration,
    },
    Up {
        server: Server,
        read_only: bool,
        /// Whether the caller knows of the connection.
        is_reported: bool,
    },
    Over(SessionEnd),
}

impl Session {
    /// Begins a session with the ensemble of these servers, which are never looked up.
    ///
    /// # Panics
    ///
    /// If there is no server.
    pub fn with_servers(servers: Vec<Server>, config: Config, now: Duration) -> Self {
        assert!(!servers.is_empty(), "a session needs a server");
        let mut session = Self::new(config, None, now);
        session.refresh = None;
        session.hosts.replace(servers);
        session
    }

    /// Begins a session whose servers are looked up: [`poll_lookup`](Self::poll_lookup) says when, also after each
    /// `interval`.
    pub fn new(mut config: Config, interval: Option<Duration>, now: Duration) -> Self {
        let resumed = config.resume.take();
        let credentials = std::mem::take(&mut config.auth);
        Self {
            hosts: DialOrder::new(config.draw_seed()),
            refresh: Some(HostRefresh::new(interval, now)),
            phase: Phase::Waiting { until: now },
            id: resumed.as_ref().map_or(0, |saved| saved.id),
            is_established: resumed.is_some(),
            timeout: config.timeout,
            smallest_timeout: None,
            last_zxid: resumed.as_ref().map_or(0, |saved| saved.last_zxid),
            password: resumed.map_or(NO_PASSWORD, |saved| saved.password),
            epoch: 0,
            next_ticket: 1,
            next_xid: Xid::FIRST,
            queue: VecDeque::new(),
            queued_bytes: 0,
            outgoing: VecDeque::new(),
            written: 0,
            sent: VecDeque::new(),
            received: BytesMut::new(),
            authentication: Authentication::new(credentials, Nonces::new(config.nonce_seed)),
            watches: Watches::default(),
            shown_release: None,
            search: WritableServerSearch::new(),
            probes: VecDeque::new(),
            events: VecDeque::new(),
            is_closing: false,
            connections: 0,
            connection: 0,
            slow: Vec::new(),
            set_aside: VecDeque::new(),
            late_handshakes: 0,
            skipped: None,
            moves_to: None,
            dial_began: now,
            last_sent: now,
            last_received: now,
            last_message: now,
            config,
        }
    }

    /// Returns the session id; 0 before the first connection, unless a session is resumed.
    pub const fn id(&self) -> i64 {
        self.id
    }

    /// Returns what resumes the session; `None` if the ensemble does not know it.
    pub fn saved(&self) -> Option<SavedSession> {
        self.is_established.then(|| SavedSession {
            id: self.id,
            password: self.password.clone(),
            last_zxid: self.last_zxid,
        })
    }

    /// Returns the number of the last connection that a server has granted; 0 before the first one.
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the newest transaction that a reply has named.
    pub const fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Ends the session, after all that was submitted before.
    pub fn close(&mut self) {
        if self.is_closing || matches!(self.phase, Phase::Over(_)) {
            return;
        }
        self.is_closing = true;
        let is_up = matches!(self.phase, Phase::Up { .. });
        if !self.is_established && !is_up {
            self.end(SessionEnd::Closed);
            return;
        }
        self.enqueue(Frame::new(
            &Request::CloseSession,
            self.next_xid,
            Role::Internal,
        ));
    }

    /// Returns whether the session is being closed.
    pub const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns the smallest session timeout that a server has granted; `None` before the first connection.
    pub const fn smallest_timeout(&self) -> Option<Duration> {
        self.smallest_timeout
    }

    /// Returns the server that the session is connected to.
    pub const fn connected_to(&self) -> Option<&Server> {
        match &self.phase {
            Phase::Up { server, .. } => Some(server),
            _ => None,
        }
    }

    /// Ends the session here without telling the servers, which expire it after its timeout.
    pub fn abandon(&mut self, end: SessionEnd) {
        if !matches!(self.phase, Phase::Over(_)) {
            self.end(end);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Ends the session, and every request with it.
    fn end(&mut self, end: SessionEnd) {
        if self.is_handshake_sent() {
            self.set_aside(self.dial_began);
        }
        self.phase = Phase::Over(end);
        let sent = std::mem::take(&mut self.sent);
        let unsent = std::mem::take(&mut self.outgoing)
            .into_iter()
            .chain(std::mem::take(&mut self.queue));
        self.queued_bytes = 0;
        let epoch = self.epoch;
        let sent = sent.into_iter().map(|frame| {
            let why = Loss::Over(end);
            (frame, Outcome::Unknown { epoch, why })
        });
        let unsent = unsent.map(|frame| (frame, Outcome::NotSent { end }));
        for (frame, outcome) in sent.chain(unsent) {
            if let Some(ticket) = frame.ticket() {
                self.events.push_back(Event::Answered(ticket, outcome));
            }
        }
        // An earlier connection may have sent them.
        for ticket in self.authentication.take_waiting() {
            let why = Loss::Over(end);
            let outcome = Outcome::Unknown { epoch, why };
            self.events.push_back(Event::Answered(ticket, outcome));
        }
        self.events.push_back(Event::Over(end));
    }

    /// Returns how the session ends if the servers no longer have it.
    const fn end_if_gone(&self) -> SessionEnd {
        if self.is_closing {
            SessionEnd::Closed
        } else {
            SessionEnd::Expired
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &format_args!("{:#x}", self.id))
            .field("phase", &self.phase)
            .field("epoch", &self.epoch)
            .field("queued", &self.queue.len())
            .field("in_flight", &(self.outgoing.len() + self.sent.len()))
            .finish_non_exhaustive()
    }
}

const NO_PASSWORD: Bytes = Bytes::from_static(&[0; 16]);

#[cfg(test)]
mod tests;
