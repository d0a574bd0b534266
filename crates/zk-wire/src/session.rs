//! The state machine of a session: what is sent when, and what each received byte and each moment changes.
//!
//! Pure: no I/O and no clock.
//!
//! A driver owns a [`Session`] and a connection, and repeats:
//!
//! 1. [`poll_event`](Session::poll_event) until there is none, and pass the events on;
//! 2. without a connection, [`poll_dial`](Session::poll_dial): connect to that host, then call
//!    [`dialed`](Session::dialed) or [`connection_lost`](Session::connection_lost);
//! 3. with one, write [`transmit`](Session::transmit) and report how much was written to
//!    [`transmitted`](Session::transmitted), append what is read to [`buffer`](Session::buffer) and call
//!    [`received`](Session::received);
//! 4. at [`poll_timeout`](Session::poll_timeout), call [`handle_timeout`](Session::handle_timeout);
//! 5. if hosts are looked up, do so whenever [`poll_hosts`](Session::poll_hosts) says so;
//! 6. at any time, ask what [`poll_probe`](Session::poll_probe) returns, and report the answer to
//!    [`probed`](Session::probed), or soon that there is none: requests may wait for it.
//!
//! Moments are durations since a moment that the driver chooses, and never decrease.
//!
//! The session says with [`wants_connection`](Session::wants_connection) whether the driver may keep its connection.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSlice;
use std::time::Duration;

use bytes::Bytes;
use bytes::BytesMut;

use crate::config::Config;
use crate::config::SavedSession;
use crate::proto::ConnectRequest;
use crate::proto::ConnectResponse;
use crate::proto::ErrorCode;
use crate::proto::Incoming;
use crate::proto::Release;
use crate::proto::Reply;
use crate::proto::Request;
use crate::proto::WatchEvent;
use crate::proto::Xid;
use crate::proto::take_frame;

mod event;
mod host_refresh;
mod hosts;
mod pending;
mod probe;
mod releases;
mod watches;
mod writable_server;

pub use event::Event;
pub use event::Loss;
pub use event::NotSent;
pub use event::Outcome;
pub use event::SessionEnd;
pub use event::SubmitError;
pub use event::Ticket;
pub use hosts::Host;
pub use probe::Probe;

use host_refresh::HostRefresh;
use hosts::Hosts;
use pending::Frame;
use pending::Role;
use probe::FourLetterWord;
use releases::Releases;
use releases::Support;
use watches::Watches;
use writable_server::WritableServerSearch;

/// A session, see the [module](self). Its debug output contains no secrets and no data.
pub struct Session {
    config: Config,
    hosts: Hosts,
    /// Runs if the hosts are looked up.
    refresh: Option<HostRefresh>,
    phase: Phase,
    id: i64,
    password: Bytes,
    /// Whether the ensemble knows the session: a read-only server makes up a session of its own.
    is_established: bool,
    /// The granted session timeout; the requested one before that.
    timeout: Duration,
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
    watches: Watches,
    releases: Releases,
    probes: VecDeque<Probe>,
    events: VecDeque<Event>,
    is_closing: bool,
    last_sent: Duration,
    last_received: Duration,
}

#[derive(Debug)]
enum Phase {
    /// There is no connection before this moment.
    Waiting {
        until: Duration,
    },
    Dialing {
        host: Host,
        deadline: Duration,
    },
    Handshake {
        host: Host,
        deadline: Duration,
    },
    Up {
        host: Host,
        /// Runs on a read-only server.
        search: Option<WritableServerSearch>,
    },
    Over(SessionEnd),
}

impl Session {
    /// Begins a session with the ensemble of these hosts.
    ///
    /// # Panics
    ///
    /// If there is no host.
    pub fn new(hosts: Vec<Host>, config: Config, now: Duration) -> Self {
        assert!(!hosts.is_empty(), "a session needs a host");
        Self::begin(hosts, config, now)
    }

    /// Begins a session whose hosts are looked up: [`poll_hosts`](Self::poll_hosts) says when, and also returns `true`
    /// after each `interval`.
    pub fn with_host_lookup(config: Config, interval: Option<Duration>, now: Duration) -> Self {
        let mut session = Self::begin(Vec::new(), config, now);
        session.refresh = Some(HostRefresh::new(interval, now));
        session
    }

    fn begin(hosts: Vec<Host>, mut config: Config, now: Duration) -> Self {
        let resumed = config.resume.take();
        Self {
            hosts: Hosts::new(hosts, config.seed),
            refresh: None,
            phase: Phase::Waiting { until: now },
            id: resumed.as_ref().map_or(0, |saved| saved.id),
            is_established: resumed.is_some(),
            timeout: config.timeout,
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
            watches: Watches::default(),
            releases: Releases::default(),
            probes: VecDeque::new(),
            events: VecDeque::new(),
            is_closing: false,
            last_sent: now,
            last_received: now,
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

    /// Submits a request. It is sent after all that were submitted before, on this connection or a later one.
    ///
    /// # Errors
    ///
    /// If it is not accepted, see [`SubmitError`]. It has no outcome then.
    pub fn submit(&mut self, request: &Request) -> Result<Ticket, SubmitError> {
        if let Phase::Over(end) = self.phase {
            return Err(SubmitError::Over(end));
        }
        if self.is_closing {
            return Err(SubmitError::Over(SessionEnd::Closed));
        }
        let ticket = Ticket(self.next_ticket);
        let outer = self.config.chroot.request(request);
        let outer = outer.map_err(|path| SubmitError::InvalidPath { path })?;
        let frame = Frame::new(&outer, self.next_xid, Role::Caller(ticket));
        let (len, limit) = (frame.payload_len(), self.config.max_request);
        if len > limit {
            return Err(SubmitError::TooLong { len, limit });
        }
        let (requests, bytes) = (self.queue.len(), self.queued_bytes);
        let is_too_much = bytes + len > self.config.max_queued_bytes && requests > 0;
        if requests >= self.config.max_queued || is_too_much {
            return Err(SubmitError::Busy { requests, bytes });
        }
        self.next_ticket += 1;
        self.enqueue(frame);
        Ok(ticket)
    }

    /// Takes back a request that was not sent yet; returns `false` if it may have been.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let at = self.queue.iter().position(|frame| frame.is_of(ticket));
        let cancelled = at.and_then(|at| self.queue.remove(at));
        self.queued_bytes -= cancelled.as_ref().map_or(0, Frame::payload_len);
        cancelled.is_some()
    }

    /// Forgets the watch that a request has set, so that it fires no more, and removes it from the server if possible.
    pub fn forget_watch(&mut self, ticket: Ticket) {
        if let Some(frame) = self.frame_mut(ticket) {
            // The server has not set it yet.
            frame.is_watch_dropped = true;
            return;
        }
        let Some(removal) = self.watches.forget(ticket) else {
            return;
        };
        let Request::RemoveWatches { path, .. } = &removal else {
            return;
        };
        // A request that sets a watch there again would set it before this removes it.
        let is_needed = |frame: &Frame| frame.watched_path() == Some(path);
        let mut frames = self.queue.iter().chain(&self.outgoing).chain(&self.sent);
        if self.is_closing || frames.any(is_needed) {
            return;
        }
        if let Phase::Up { .. } = self.phase {
            let frame = Frame::new(&removal, self.next_xid, Role::Internal);
            self.enqueue(frame);
        }
    }

    /// Returns whether the watch that a request has set is still there.
    pub fn has_watch(&self, ticket: Ticket) -> bool {
        self.watches.has(ticket)
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

    /// Ends the session here without telling the servers, which expire it after its timeout.
    pub fn abandon(&mut self) {
        if !matches!(self.phase, Phase::Over(_)) {
            self.end(SessionEnd::RuntimeEnded);
        }
    }

    /// Replaces the list of hosts. The connection stays if its host does; an empty list is ignored.
    pub fn update_hosts(&mut self, hosts: Vec<Host>, now: Duration) {
        if hosts.is_empty() {
            return;
        }
        let is_gone = match &self.phase {
            Phase::Dialing { host, .. }
            | Phase::Handshake { host, .. }
            | Phase::Up { host, .. } => !hosts.contains(host),
            Phase::Waiting { .. } | Phase::Over(_) => false,
        };
        self.hosts.replace(hosts);
        if is_gone {
            self.connection_lost(
                &Loss::Broken("its host is not in the list any more".to_owned()),
                now,
            );
        }
    }

    /// Returns whether the hosts are to be looked up now. The driver replies with [`hosts_found`](Self::hosts_found) or
    /// [`hosts_not_found`](Self::hosts_not_found), and connects meanwhile to those it knows.
    pub fn poll_hosts(&mut self, now: Duration) -> bool {
        let is_over = matches!(self.phase, Phase::Over(_));
        let refresh = self.refresh.as_mut().filter(|_| !is_over);
        refresh.is_some_and(|refresh| refresh.is_due(now))
    }

    /// Records the hosts that were looked up. The connection stays also if its host is not among them.
    pub fn hosts_found(&mut self, hosts: Vec<Host>, now: Duration) {
        if hosts.is_empty() {
            return self.hosts_not_found("the list is empty", now);
        }
        let is_known = |host: &Host| self.hosts.iter().any(|known| known == host);
        if hosts.len() != self.hosts.len() || !hosts.iter().all(is_known) {
            self.hosts.replace(hosts);
        }
        self.hosts_answered(now);
    }

    /// Records that the hosts could not be looked up: those that are known stay.
    pub fn hosts_not_found(&mut self, why: &str, now: Duration) {
        if self.hosts.len() == 0 && !matches!(self.phase, Phase::Over(_)) {
            let why = Loss::NoHosts(why.to_owned());
            self.events.push_back(Event::Disconnected { why });
        }
        self.hosts_answered(now);
    }

    fn hosts_answered(&mut self, now: Duration) {
        let has_hosts = self.hosts.len() > 0;
        if let Some(refresh) = &mut self.refresh {
            refresh.answered(has_hosts, now);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the host to connect to now, if any. The driver replies with [`dialed`](Self::dialed) or
    /// [`connection_lost`](Self::connection_lost).
    pub fn poll_dial(&mut self, now: Duration) -> Option<Host> {
        match self.phase {
            Phase::Waiting { until } if until <= now && self.hosts.len() > 0 => {
                let host = self.hosts.take_next();
                self.phase = Phase::Dialing {
                    host: host.clone(),
                    deadline: now + self.dial_timeout(),
                };
                Some(host)
            }
            _ => None,
        }
    }

    /// Returns when the connection that was asked for must be made; `None` if none was.
    pub const fn dial_deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Dialing { deadline, .. } => Some(deadline),
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

    /// Records that the connection is made: the handshake begins.
    pub fn dialed(&mut self, now: Duration) {
        let Phase::Dialing { host, .. } = &self.phase else {
            return;
        };
        let host = host.clone();
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
            read_only: self.config.read_only && self.hosts.has_failed_a_round(),
        };
        self.outgoing.push_back(Frame::handshake(&connect));
        for credentials in &self.config.auth {
            let auth = Request::Auth(credentials.clone());
            self.outgoing
                .push_back(Frame::new(&auth, Xid::AUTH, Role::Internal));
        }
        let with_persistent = !self.releases.lacks_persistent_watches(&host);
        for lists in self.watches.lists(SET_WATCHES_LIMIT, with_persistent) {
            let set = Request::SetWatches {
                last_zxid_seen: self.last_zxid,
                lists,
            };
            self.outgoing
                .push_back(Frame::new(&set, Xid::SET_WATCHES, Role::Internal));
        }
        let deadline = now + self.dial_timeout();
        self.phase = Phase::Handshake { host, deadline };
    }

    /// Returns what is to be written now, in order. Requests that the server does not know have an outcome instead.
    pub fn transmit(&mut self) -> Vec<IoSlice<'_>> {
        self.admit();
        let mut skipped = self.written;
        let frames = self.outgoing.iter().take(MAX_SLICES);
        frames
            .map(|frame| IoSlice::new(&frame.bytes[std::mem::take(&mut skipped)..]))
            .collect()
    }

    /// Records that this many bytes of [`transmit`](Self::transmit) are written.
    pub fn transmitted(&mut self, bytes: usize, now: Duration) {
        if bytes > 0 {
            self.last_sent = now;
        }
        self.written += bytes;
        while let Some(first) = self.outgoing.front() {
            let len = first.bytes.len();
            if self.written < len {
                break;
            }
            self.written -= len;
            let sent = self.outgoing.pop_front();
            // The handshake's reply has no number, and is not waited for here.
            self.sent.extend(sent.filter(|frame| !frame.is_handshake()));
        }
    }

    /// Returns the buffer to which received bytes are appended, before [`received`](Self::received).
    pub const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    /// Handles what was appended to the [`buffer`](Self::buffer).
    pub fn received(&mut self, now: Duration) {
        self.last_received = now;
        while self.wants_connection() {
            let payload = match take_frame(&mut self.received, self.config.max_reply) {
                Ok(Some(payload)) => payload,
                Ok(None) => return,
                Err(error) => return self.connection_lost(&Loss::Malformed(error), now),
            };
            let handled = match &self.phase {
                Phase::Handshake { host, .. } => self.connected(host.clone(), payload, now),
                Phase::Up { .. } => self.message(payload),
                Phase::Waiting { .. } | Phase::Dialing { .. } | Phase::Over(_) => Ok(()),
            };
            if let Err(loss) = handled {
                return self.connection_lost(&loss, now);
            }
        }
    }

    /// Records that a connection could not be made, or is lost.
    pub fn connection_lost(&mut self, why: &Loss, now: Duration) {
        match &self.phase {
            Phase::Waiting { .. } | Phase::Over(_) => return,
            Phase::Up { .. } => {
                self.events
                    .push_back(Event::Disconnected { why: why.clone() });
            }
            Phase::Dialing { .. } | Phase::Handshake { .. } => {}
        }
        if let Loss::Broken(_) | Loss::OutOfOrder { .. } = why
            && let Some(needs) = self.sent.iter().filter_map(|frame| frame.needs).max()
        {
            self.request_failed(needs);
        }
        let pause = self.hosts.failed();
        // A pause follows each round without success.
        if let Some(refresh) = self.refresh.as_mut().filter(|_| !pause.is_zero()) {
            refresh.hosts_failed(now);
        }
        self.phase = Phase::Waiting { until: now + pause };
        self.releases.disconnected();
        self.probes.clear();
        self.received.clear();
        for frame in std::mem::take(&mut self.sent) {
            if let Some(ticket) = frame.ticket() {
                let (epoch, why) = (self.epoch, why.clone());
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

    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called, or [`poll_dial`](Self::poll_dial) to be
    /// asked again; `None` once the session is over.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let next = match self.phase {
            Phase::Waiting { .. } if self.hosts.len() == 0 => NEVER,
            Phase::Waiting { until } => until,
            Phase::Dialing { deadline, .. } | Phase::Handshake { deadline, .. } => deadline,
            Phase::Up { ref search, .. } => {
                let next = self.dead_at().min(self.ping_at());
                let search = search.as_ref().map(WritableServerSearch::next);
                search.map_or(next, |search| next.min(search))
            }
            Phase::Over(_) => return None,
        };
        let refresh = self.refresh.as_ref().and_then(HostRefresh::next);
        let others = [self.expires_at(), refresh].into_iter().flatten();
        Some(others.fold(next, Duration::min))
    }

    /// Handles that it is `now`.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.search_writable_server(now);
        if self.expires_at().is_some_and(|expiry| expiry <= now) {
            return self.end(self.end_if_gone());
        }
        match self.phase {
            Phase::Dialing { deadline, .. } | Phase::Handshake { deadline, .. }
                if deadline <= now =>
            {
                let timeout = self.dial_timeout();
                self.connection_lost(&Loss::NotConnected(timeout), now);
            }
            Phase::Up { .. } if self.dead_at() <= now => {
                self.connection_lost(&Loss::Silent(self.timeout * 2 / 3), now);
            }
            Phase::Up { .. } if self.ping_at() <= now => {
                // A server that reads nothing may send for long; one ping that waits is enough.
                if !self.outgoing.iter().any(|frame| frame.xid == Xid::PING) {
                    let ping = Frame::new(&Request::Ping, Xid::PING, Role::Internal);
                    self.outgoing.push_back(ping);
                }
                self.last_sent = now;
            }
            _ => {}
        }
    }

    /// Returns the next question to ask a server, on a connection of its own and beside everything else.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    /// Records the answer to a question; `None` if there was none.
    pub fn probed(&mut self, probe: &Probe, answer: Option<&str>, now: Duration) {
        match probe.word {
            FourLetterWord::Srvr => self.releases.answered(&probe.host, answer),
            FourLetterWord::Isro => {
                let is_searching = matches!(
                    self.phase,
                    Phase::Up {
                        search: Some(_),
                        ..
                    }
                );
                if is_searching && answer.is_some_and(|answer| answer.trim() == "rw") {
                    self.connection_lost(&Loss::WritableFound, now);
                    self.hosts.prefer(&probe.host);
                }
            }
        }
    }

    /// Asks all hosts whether they are writable, on a read-only server and when it is time to.
    fn search_writable_server(&mut self, now: Duration) {
        if let Phase::Up { search, .. } = &mut self.phase
            && search.as_mut().is_some_and(|search| search.is_due(now))
        {
            let word = FourLetterWord::Isro;
            let ask = |host: &Host| Probe {
                host: host.clone(),
                word,
            };
            self.probes.extend(self.hosts.iter().map(ask));
        }
    }

    /// Returns a request without a reply.
    fn frame_mut(&mut self, ticket: Ticket) -> Option<&mut Frame> {
        let queues = [&mut self.queue, &mut self.outgoing, &mut self.sent];
        queues
            .into_iter()
            .flatten()
            .find(|frame| frame.is_of(ticket))
    }

    fn enqueue(&mut self, frame: Frame) {
        self.next_xid = self.next_xid.next();
        self.queued_bytes += frame.payload_len();
        self.queue.push_back(frame);
    }

    /// Moves queued requests to the connection, as far as it may have more of them.
    fn admit(&mut self) {
        let Phase::Up { host, .. } = &self.phase else {
            return;
        };
        while self.outgoing.len() + self.sent.len() < self.config.max_in_flight {
            let Some(needs) = self.queue.front().map(|frame| frame.needs) else {
                return;
            };
            let support = self.releases.support(host, needs);
            if support == Support::Asked {
                return;
            }
            let Some(frame) = self.queue.pop_front() else {
                return;
            };
            self.queued_bytes -= frame.payload_len();
            match (support, needs, frame.ticket()) {
                (Support::Missing(release), Some(needs), Some(ticket)) => {
                    let why = NotSent::Unsupported { needs, release };
                    let outcome = Outcome::NotSent { why };
                    self.events.push_back(Event::Answered(ticket, outcome));
                }
                // It would remove a watch, and the server cannot.
                (Support::Missing(_), ..) => {}
                _ => self.outgoing.push_back(frame),
            }
        }
    }

    /// Records that the server did not carry out a request that `needs` a release.
    fn request_failed(&mut self, needs: Release) {
        if let Phase::Up { host, .. } = &self.phase {
            self.releases.failed(host, needs);
        }
    }

    fn connected(&mut self, host: Host, payload: Bytes, now: Duration) -> Result<(), Loss> {
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
        self.password = granted.password;
        self.timeout = granted.timeout;
        self.epoch += 1;
        if self.releases.connected(&host) {
            let (host, word) = (host.clone(), FourLetterWord::Srvr);
            self.probes.push_back(Probe { host, word });
        }
        if self.releases.lacks_persistent_watches(&host) {
            let ended = self.watches.end_persistent().into_iter();
            self.events.extend(ended.map(Event::WatchEnded));
        }
        let search = read_only.then(|| WritableServerSearch::new(now));
        self.phase = Phase::Up { host, search };
        self.report_connected();
        self.settle();
        Ok(())
    }

    /// Reports the connection once the server has accepted all credentials, so that a session with wrong ones is never
    /// connected.
    fn report_connected(&mut self) {
        let mut frames = self.outgoing.iter().chain(&self.sent);
        if frames.any(|frame| frame.xid == Xid::AUTH && frame.ticket().is_none()) {
            return;
        }
        let read_only = matches!(&self.phase, Phase::Up { search, .. } if search.is_some());
        self.events.push_back(Event::Connected {
            epoch: self.epoch,
            timeout: self.timeout,
            read_only,
        });
    }

    fn message(&mut self, payload: Bytes) -> Result<(), Loss> {
        let (xid, zxid, body) = match Incoming::decode(payload).map_err(Loss::Malformed)? {
            Incoming::Notification(event) => {
                self.notify(&event);
                return Ok(());
            }
            Incoming::Reply { xid, zxid, body } => (xid, zxid, body),
        };
        let out_of_order = |wanted: Option<&Frame>| Loss::OutOfOrder {
            got: xid.get(),
            wanted: wanted.map(|frame| frame.xid.get()),
        };
        // Replies come in the order of the requests, but those to pings and credentials may overtake, and so may that to
        // a request which the server does not know.
        let may_overtake = xid.get() < 0 || matches!(body, Err(ErrorCode::UNIMPLEMENTED));
        let at = self
            .sent
            .iter()
            .position(|frame| frame.xid == xid || (!may_overtake && frame.xid.get() > 0));
        let oldest = at.and_then(|at| self.sent.get(at));
        if oldest.is_none_or(|frame| frame.xid != xid) {
            return Err(out_of_order(oldest));
        }
        self.last_zxid = self.last_zxid.max(zxid);
        let reply = match (body, oldest) {
            // A request whose reply makes no sense has none: it is among those that the lost connection leaves.
            (Ok(body), Some(frame)) => {
                let reply = Reply::decode(frame.shape, body);
                let reply = reply.and_then(|reply| self.config.chroot.reply(reply));
                Ok(reply.map_err(Loss::Malformed)?)
            }
            (Ok(_), None) => return Ok(()),
            (Err(code), _) => Err(code),
        };
        let Some(frame) = at.and_then(|at| self.sent.remove(at)) else {
            return Ok(());
        };
        if let (Err(ErrorCode::UNIMPLEMENTED), Some(needs)) = (&reply, frame.needs) {
            self.request_failed(needs);
        }
        match frame.ticket() {
            Some(ticket) => {
                let outcome = self.outcome(ticket, frame, zxid, reply);
                self.events.push_back(Event::Answered(ticket, outcome));
            }
            None if xid == Xid::AUTH => match reply {
                Ok(_) => self.report_connected(),
                Err(ErrorCode::AUTH_FAILED) => self.end(SessionEnd::AuthFailed),
                // It says nothing of the credentials; the next connection sends them again.
                Err(code) => return Err(Loss::CredentialsNotChecked(code)),
            },
            None if frame.is_close() => self.end(SessionEnd::Closed),
            None => match reply {
                // The next connection sets the watches again.
                Err(code) if xid == Xid::SET_WATCHES => return Err(Loss::WatchesRefused(code)),
                _ => self.settle(),
            },
        }
        Ok(())
    }

    /// Records that the host is a good one, once it has granted the session and set its watches.
    fn settle(&mut self) {
        let mut frames = self.outgoing.iter().chain(&self.sent);
        if frames.all(|frame| frame.xid != Xid::SET_WATCHES) {
            self.hosts.succeeded();
        }
    }

    /// Returns the outcome of an answered request, and adds the watch that it has set.
    fn outcome(
        &mut self,
        ticket: Ticket,
        frame: Frame,
        zxid: i64,
        reply: Result<Reply, ErrorCode>,
    ) -> Outcome {
        let epoch = self.epoch;
        let kind = frame.watch_kind(reply.as_ref().err().copied());
        let is_watch_dropped = frame.is_watch_dropped;
        if let (Some(kind), Some(path)) = (kind, frame.into_watched_path()) {
            self.watches.add(ticket, path, kind);
            if is_watch_dropped {
                self.forget_watch(ticket);
            }
        }
        match reply {
            Ok(reply) => Outcome::Done { reply, zxid, epoch },
            Err(code) => Outcome::Refused { code, zxid, epoch },
        }
    }

    fn notify(&mut self, event: &WatchEvent) {
        let Some(kind) = event.kind else { return };
        for ticket in self.watches.fire(&event.path, kind) {
            self.events.push_back(Event::Fired {
                ticket,
                event: self.config.chroot.event(event),
                epoch: self.epoch,
            });
        }
    }

    /// Ends the session, and every request with it.
    fn end(&mut self, end: SessionEnd) {
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
        let unsent = unsent.map(|frame| {
            let why = NotSent::Over(end);
            (frame, Outcome::NotSent { why })
        });
        for (frame, outcome) in sent.chain(unsent) {
            if let Some(ticket) = frame.ticket() {
                self.events.push_back(Event::Answered(ticket, outcome));
            }
        }
        self.events.push_back(Event::Over(end));
    }

    /// Returns how a session ends that the servers do not have any more.
    const fn end_if_gone(&self) -> SessionEnd {
        if self.is_closing {
            SessionEnd::Closed
        } else {
            SessionEnd::Expired
        }
    }

    /// Returns when a connection is given up on which nothing arrives.
    fn dead_at(&self) -> Duration {
        self.last_received + self.timeout * 2 / 3
    }

    /// Returns when a ping is sent if nothing else is.
    fn ping_at(&self) -> Duration {
        self.last_sent + self.timeout / 3
    }

    /// Returns when a session without a connection is taken for expired.
    fn expires_at(&self) -> Option<Duration> {
        let is_up = matches!(self.phase, Phase::Up { .. } | Phase::Over(_));
        // How long a session from elsewhere lives is not known here.
        let is_ours = self.is_established && (self.epoch > 0 || self.is_closing);
        (!is_up && is_ours).then(|| self.last_received + self.timeout * 7 / 5)
    }

    fn dial_timeout(&self) -> Duration {
        let hosts = u32::try_from(self.hosts.len().max(1)).unwrap_or(u32::MAX);
        (self.timeout / (2 * hosts)).max(SHORTEST_DIAL)
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

/// How many bytes of paths one request sets watches on; the Java client has 128 KiB.
const SET_WATCHES_LIMIT: usize = 100 << 10;
/// How many frames one write has at most; the kernel takes no more than 1,024 slices.
const MAX_SLICES: usize = 512;
const SHORTEST_DIAL: Duration = Duration::from_secs(1);
/// Later than any session lives.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);
const NO_PASSWORD: Bytes = Bytes::from_static(&[0; 16]);

#[cfg(test)]
mod tests;
