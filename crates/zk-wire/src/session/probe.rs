//! Questions to servers on connections of their own, in the four-letter words of ZooKeeper.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::{Loss, Phase, Server, Session};

/// A question to a server.
///
/// The driver connects to the server, sends the word, reads until the server closes the connection, and calls
/// [`probed`](super::Session::probed). It gives up after [`TIMEOUT`](Self::TIMEOUT).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The server.
    pub(super) server: Server,
    /// What it is asked.
    pub(super) word: FourLetterWord,
    /// The number of the connection during which it is asked.
    pub(super) epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FourLetterWord {
    /// Whether the server is read-only.
    Isro,
    /// What the server is; names its release.
    Srvr,
}

impl Probe {
    /// How long the driver waits for an answer, connecting included.
    pub const TIMEOUT: Duration = Duration::from_secs(1);

    /// Returns the server to ask.
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the bytes to send.
    pub const fn word(&self) -> &'static str {
        match self.word {
            FourLetterWord::Isro => "isro",
            FourLetterWord::Srvr => "srvr",
        }
    }
}

impl Session {
    /// Returns the next question to ask a server, on a connection of its own and beside everything else.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    /// Records the answer to a question; `None` if there was none.
    pub fn probed(&mut self, probe: &Probe, answer: Option<&str>, now: Duration) {
        match probe.word {
            FourLetterWord::Srvr => {
                // That there is none to a question of an earlier connection says nothing of this one's.
                if answer.is_some() || probe.epoch == self.epoch {
                    self.releases.answered(&probe.server, answer);
                }
            }
            FourLetterWord::Isro => {
                if self.is_read_only() && answer.is_some_and(|answer| answer.trim() == "rw") {
                    self.connection_lost(&Loss::WritableFound, now);
                    self.hosts.prefer(&probe.server);
                }
            }
        }
    }

    /// Asks all servers whether they are writable, on a read-only server and when it is time to.
    pub(super) fn search_writable_server(&mut self, now: Duration) {
        if self.is_read_only() && self.search.is_due(now) {
            let (word, epoch) = (FourLetterWord::Isro, self.epoch);
            let ask = |server: &Server| Probe {
                server: server.clone(),
                word,
                epoch,
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
