//! The list of hosts: replaced by the caller, or looked up.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::{Event, Host, Loss, Phase, Session};

impl Session {
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
}
