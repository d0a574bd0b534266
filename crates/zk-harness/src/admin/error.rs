//! What can go wrong when a server is asked a four-letter word.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a four-letter word got no usable answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Nothing listens on the address: the server is not up, or not yet.
    #[error("connection to {addr} refused: no server listens there")]
    #[non_exhaustive]
    Refused {
        /// The address that was tried.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The deadline passed.
    #[error("no answer to {word} from {addr} within {within:?}: still waiting for {waiting_for}")]
    #[non_exhaustive]
    TimedOut {
        /// The address that was asked.
        addr: SocketAddr,
        /// The word that was asked.
        word: String,
        /// What the call was waiting for when the deadline passed.
        waiting_for: &'static str,
        /// The deadline.
        within: Duration,
    },
    /// The connection broke, or could not be made for another reason than a refusal.
    #[error("asking {addr} for {word} failed while waiting for {waiting_for}")]
    #[non_exhaustive]
    Io {
        /// The address that was asked.
        addr: SocketAddr,
        /// The word that was asked.
        word: String,
        /// What the call was waiting for when it failed.
        waiting_for: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The server closed the connection without a byte: it does not know the word, or has too many clients.
    #[error(
        "{addr} closed the connection without an answer to {word}: the server does not know the word, \
         is shutting down, or has reached maxClientCnxns"
    )]
    #[non_exhaustive]
    NoAnswer {
        /// The address that was asked.
        addr: SocketAddr,
        /// The word that was asked.
        word: String,
    },
    /// The word to be sent is not one a server could know.
    #[error("{word:?} is not a four-letter word: four ASCII letters are needed, as in srvr")]
    #[non_exhaustive]
    InvalidWord {
        /// What was given.
        word: String,
    },
    /// The server is up but part of no quorum: it has not found enough others yet, or has lost them.
    #[error("the server is up but not currently serving requests: it is not part of a quorum")]
    NotServing,
    /// The server's configuration does not allow the word.
    #[error(
        "the server does not execute {word}: add it to 4lw.commands.whitelist in the server's configuration"
    )]
    #[non_exhaustive]
    NotWhitelisted {
        /// The word that was refused.
        word: String,
    },
    /// The answer is not what a server says to this word.
    #[error("unexpected line in the answer to {word}: {line:?}, where {wanted} should be")]
    #[non_exhaustive]
    Unexpected {
        /// The word that was asked.
        word: &'static str,
        /// The first line that could not be read (shortened if very long), or empty if the text ended too early.
        line: String,
        /// What should have been there.
        wanted: &'static str,
    },
}
