//! What happens at which moment: pings, lost connections, and the expiry of the session.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::host_refresh::HostRefresh;
use super::pending::{Frame, Role};
use super::{Loss, Phase, Session};
use crate::proto::{Request, Xid};

impl Session {
    /// Returns when [`handle_timeout`](Self::handle_timeout) is to be called, or [`poll_dial`](Self::poll_dial) to be
    /// asked again; `None` once the session is over.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let next = match self.phase {
            Phase::Waiting { .. } if self.hosts.len() == 0 => NEVER,
            Phase::Waiting { until } => until,
            Phase::Handshake {
                began, deadline, ..
            } if self.is_handshake_sent() => self.set_aside_at(began, deadline),
            Phase::Dialing { deadline, .. } | Phase::Handshake { deadline, .. } => deadline,
            Phase::Up { read_only, .. } => {
                let next = self.dead_at().min(self.ping_at());
                let search = read_only.then(|| self.search.next());
                search.map_or(next, |search| next.min(search))
            }
            Phase::Over(_) => return None,
        };
        let refresh = self.refresh.as_ref().and_then(HostRefresh::next);
        let others = [self.expires_at(), refresh].into_iter().flatten();
        Some(others.fold(next, Duration::min))
    }

    /// Advances the session to `now`: pings, gives up slow dials and silent connections, and expires the session.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.search_writable_server(now);
        self.move_if_idle(now);
        if self.expires_at().is_some_and(|expiry| expiry <= now) {
            return self.end(self.end_if_gone());
        }
        match &self.phase {
            Phase::Dialing { server, deadline } if *deadline <= now => {
                let time = self.connect_limit(server);
                let server = Box::new(server.clone());
                self.connection_lost(&Loss::NotConnected { server, time }, now);
            }
            Phase::Handshake {
                began, deadline, ..
            } if self.is_handshake_sent() && self.set_aside_at(*began, *deadline) <= now => {
                self.set_aside(now);
            }
            Phase::Handshake {
                server,
                began,
                deadline,
            } if *deadline <= now => {
                let (server, began) = (server.clone(), *began);
                self.handshake_late(server, began, now);
            }
            Phase::Up { .. } if self.dead_at() <= now => {
                self.connection_lost(&Loss::Silent(self.timeout * 2 / 3), now);
            }
            Phase::Up { .. } if self.ping_at() <= now => {
                // A server that reads nothing may send for long; one ping that waits is enough. During a SASL exchange
                // even a ping is refused.
                let is_waiting = self.outgoing.iter().any(|frame| frame.xid == Xid::PING);
                if !is_waiting && !self.authentication.is_exchanging() {
                    let ping = Frame::new(&Request::Ping, Xid::PING, Role::Internal);
                    self.outgoing.push_back(ping);
                }
                self.last_sent = now;
            }
            _ => {}
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
    pub(super) fn expires_at(&self) -> Option<Duration> {
        let is_up = matches!(self.phase, Phase::Up { .. } | Phase::Over(_));
        // How long a session from elsewhere lives is not known here.
        let is_ours = self.is_established && (self.epoch > 0 || self.is_closing);
        (!is_up && is_ours).then(|| self.last_message + self.timeout * 7 / 5)
    }
}

/// Later than any session lives.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);
