//! A connection from the dial to its loss: the handshake, and what is sent with it.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use bytes::Bytes;

use super::pending::{Frame, Role};
use super::probe::FourLetterWord;
use super::writable_server::WritableServerSearch;
use super::{Event, Host, Loss, NO_PASSWORD, Outcome, Phase, Probe, Session, SessionEnd};
use crate::proto::{ConnectRequest, ConnectResponse, Request, Xid};

impl Session {
    /// Returns the host to connect to now, if any. The driver replies with [`dialed`](Self::dialed) or
    /// [`connection_lost`](Self::connection_lost).
    pub fn poll_dial(&mut self, now: Duration) -> Option<Host> {
        match self.phase {
            Phase::Waiting { until } if until <= now && self.hosts.len() > 0 => {
                let host = self.hosts.take_next();
                self.dial_began = now;
                self.phase = Phase::Dialing {
                    host: host.clone(),
                    deadline: now + self.dial_timeout(&host),
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
        let deadline = now + self.dial_timeout(&host);
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
        let started = self.start_sasl(&host);
        self.phase = Phase::Handshake { host, deadline };
        if let Err(loss) = started {
            self.connection_lost(&loss, now);
        }
    }

    pub(super) fn send_credentials_and_watches(&mut self, host: &Host) {
        self.send_credentials();
        let with_persistent = !self.releases.lacks_persistent_watches(host);
        for lists in self.watches.lists(SET_WATCHES_LIMIT, with_persistent) {
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
                now
            }
            Phase::Dialing { host, .. } | Phase::Handshake { host, .. } => {
                // Other failures pass when a server is back; these need another configuration.
                if matches!(why, Loss::Tls { .. } | Loss::Sasl(_)) {
                    self.events
                        .push_back(Event::Disconnected { why: why.clone() });
                }
                let took = now.saturating_sub(self.dial_began);
                // A name with several addresses may fail at the last one just before the deadline.
                if took >= self.dial_timeout(host) / 2 {
                    self.hosts.was_late(host);
                } else {
                    self.hosts.was_in_time(host);
                }
                self.dial_began
            }
        };
        let sent = std::mem::take(&mut self.sent);
        if let Loss::Broken(_) | Loss::OutOfOrder { .. } = why {
            self.requests_failed(&sent.iter().collect::<Vec<_>>());
        }
        let pause = self.hosts.failed();
        // A pause follows each round without success.
        if let Some(refresh) = self.refresh.as_mut().filter(|_| !pause.is_zero()) {
            refresh.hosts_failed(now);
        }
        let until = now.max(began + pause);
        self.phase = Phase::Waiting { until };
        self.releases.disconnected();
        self.authentication.disconnected();
        self.probes.clear();
        self.received.clear();
        for frame in sent {
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

    pub(super) fn connected(
        &mut self,
        host: Host,
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
        self.hosts.was_in_time(&host);
        if self.releases.connected(&host) {
            let (host, word, epoch) = (host.clone(), FourLetterWord::Srvr, self.epoch);
            self.probes.push_back(Probe { host, word, epoch });
        }
        if self.releases.lacks_persistent_watches(&host) {
            let ended = self.watches.end_persistent().into_iter();
            self.events.extend(ended.map(Event::WatchEnded));
        }
        if read_only {
            self.search.begin(now);
        } else {
            self.search = WritableServerSearch::new();
        }
        self.authenticate(&host);
        self.phase = Phase::Up {
            host,
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

    /// Returns how long a dial may take, and then the handshake.
    pub(super) fn dial_timeout(&self, host: &Host) -> Duration {
        let hosts = u32::try_from(self.hosts.len().max(1)).unwrap_or(u32::MAX);
        let longest = (self.timeout / (2 * hosts)).max(MIN_LONGEST_DIAL);
        self.hosts.dial_time(host, longest)
    }
}

/// How many bytes of paths one request sets watches on; the Java client has 128 KiB.
const SET_WATCHES_LIMIT: usize = 100 << 10;
/// What the longest time of a dial is at least, however short the session timeout.
const MIN_LONGEST_DIAL: Duration = Duration::from_secs(1);
