//! Questions to servers on connections of their own, in the four-letter words of ZooKeeper.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use super::Host;

/// A question to a server.
///
/// The driver connects to the host, sends the word, reads until the server closes the connection, and calls
/// [`probed`](super::Session::probed). It gives up after [`TIMEOUT`](Self::TIMEOUT).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The server.
    pub(super) host: Host,
    /// What it is asked.
    pub(super) word: FourLetterWord,
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
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the bytes to send.
    pub const fn word(&self) -> &'static str {
        match self.word {
            FourLetterWord::Isro => "isro",
            FourLetterWord::Srvr => "srvr",
        }
    }
}
