//! Questions to servers on connections of their own: whether they are writable.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::{Loss, Phase, Server, Session};

/// The question to a server whether it is writable.
///
/// The driver connects to the server, sends the [word](Self::WORD), reads until the server closes the connection, and calls
/// [`probed`](super::Session::probed). It gives up after [`TIMEOUT`](Self::TIMEOUT).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The server.
    server: Server,
}

impl Probe {
    /// How long the driver waits for an answer, connecting included.
    pub const TIMEOUT: Duration = Duration::from_secs(1);
    /// The bytes to send: a four-letter word of ZooKeeper.
    pub const WORD: &str = "isro";

    /// Returns the server to ask.
    pub const fn server(&self) -> &Server {
        &self.server
    }
}

impl Session {
    /// Returns the next question to ask a server, on a connection of its own and beside everything else.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    /// Records the answer to a question; `None` if there was none.
    pub fn probed(&mut self, probe: &Probe, answer: Option<&str>, now: Duration) {
        if self.is_read_only() && answer.is_some_and(|answer| answer.trim() == "rw") {
            self.connection_lost(&Loss::WritableFound, now);
            self.hosts.prefer(&probe.server);
        }
    }

    /// Asks all servers whether they are writable, on a read-only server and when it is time to.
    pub(super) fn search_writable_server(&mut self, now: Duration) {
        if self.is_read_only() && self.search.is_due(now) {
            let ask = |server: &Server| Probe {
                server: server.clone(),
            };
            self.probes.extend(self.hosts.iter().map(ask));
        }
    }

    pub(super) const fn is_read_only(&self) -> bool {
        matches!(
            self.phase,
            Phase::Up {
                read_only: true,
                ..
            }
        )
    }
}
