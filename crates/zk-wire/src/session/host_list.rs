//! The list of servers: the addresses of the hosts that the caller gives, or looks up.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::{Event, Host, Loss, Phase, Server, Session};

impl Session {
    /// Replaces the hosts. Servers of other hosts leave the list, with the connection to one of them, and the servers are
    /// [looked up](Self::poll_lookup) at once. An empty list is ignored.
    pub fn update_hosts(&mut self, hosts: &[Host], now: Duration) {
        if hosts.is_empty() {
            return;
        }
        let is_gone = match &self.phase {
            Phase::Dialing { server, .. }
            | Phase::Handshake { server, .. }
            | Phase::Up { server, .. } => !hosts.contains(&server.host),
            Phase::Waiting { .. } | Phase::Over(_) => false,
        };
        let kept = self.hosts.iter();
        let kept = kept.filter(|server| hosts.contains(&server.host));
        let kept = kept.cloned().collect();
        self.hosts.replace(kept);
        if let Some(refresh) = &mut self.refresh {
            refresh.ask_anew(now);
        }
        if is_gone {
            let why = Loss::Broken("its host is not in the list any more".to_owned());
            self.connection_lost(&why, now);
        }
    }

    /// Returns whether the servers are to be looked up now: the hosts, and the addresses of each. The number is that of the
    /// question. The driver replies with [`servers_found`](Self::servers_found) or
    /// [`servers_not_found`](Self::servers_not_found), and connects meanwhile to those that the session knows.
    pub fn poll_lookup(&mut self, now: Duration) -> Option<u64> {
        let is_over = matches!(self.phase, Phase::Over(_));
        let refresh = self.refresh.as_mut().filter(|_| !is_over)?;
        refresh.poll(now)
    }

    /// Records the servers that were looked up; those that are not among them leave the list. The connection stays also
    /// if it is to one of those.
    pub fn servers_found(&mut self, question: u64, servers: Vec<Server>, now: Duration) {
        if servers.is_empty() {
            return self.servers_not_found(question, "the list is empty", now);
        }
        if self.is_asked(question) {
            let is_known = |server: &Server| self.hosts.iter().any(|known| known == server);
            if servers.len() != self.hosts.len() || !servers.iter().all(is_known) {
                self.hosts.replace(servers);
            }
            self.lookup_answered(now);
        }
    }

    /// Records that the servers could not be looked up: those that are known stay.
    pub fn servers_not_found(&mut self, question: u64, why: &str, now: Duration) {
        if self.is_asked(question) {
            if self.hosts.len() == 0 && !matches!(self.phase, Phase::Over(_)) {
                let why = Loss::NoHosts(why.to_owned());
                self.events.push_back(Event::Disconnected { why });
            }
            self.lookup_answered(now);
        }
    }

    /// Chooses one of the servers at random, and moves there unless it is the present one: once all requests in flight
    /// have their replies, the connection is given up. Requests wait meanwhile, and watches stay.
    pub fn rebalance(&mut self) {
        if let Phase::Up { server, .. } = &self.phase {
            let other = self.hosts.choose().filter(|other| *other != server);
            self.moves_to = other.cloned();
        }
    }

    /// Gives up the connection of a session that moves, once no reply is missing.
    pub(super) fn move_if_idle(&mut self, now: Duration) {
        let is_idle = self.outgoing.is_empty() && self.sent.is_empty();
        if let Some(server) = self.moves_to.take_if(|_| is_idle) {
            self.connection_lost(&Loss::Rebalanced, now);
            self.hosts.prefer(&server);
        }
    }

    fn is_asked(&self, question: u64) -> bool {
        let refresh = self.refresh.as_ref();
        refresh.is_some_and(|refresh| refresh.is_asked(question))
    }

    fn lookup_answered(&mut self, now: Duration) {
        let has_servers = self.hosts.len() > 0;
        if let Some(refresh) = &mut self.refresh {
            refresh.answered(has_servers, now);
        }
    }
}
