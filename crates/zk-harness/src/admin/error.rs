//! Defines the error of four-letter words.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// The error of a four-letter word without a valid answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No server listens at the address.
    #[error("connection to {addr} refused: no server listens there")]
    #[non_exhaustive]
    Refused {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The deadline passed.
    #[error("no answer to {word} from {addr} within {within:?}: still waiting for {waiting_for}")]
    #[non_exhaustive]
    TimedOut {
        /// The address.
        addr: SocketAddr,
        /// The word.
        word: String,
        /// The unfinished step.
        waiting_for: &'static str,
        /// The timeout.
        within: Duration,
    },
    /// The connection broke, or could not be established for another reason than a refusal.
    #[error("sending {word} to {addr} failed while waiting for {waiting_for}")]
    #[non_exhaustive]
    Io {
        /// The address.
        addr: SocketAddr,
        /// The word.
        word: String,
        /// The failed step.
        waiting_for: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The server closed the connection without an answer.
    #[error(
        "{addr} closed the connection without an answer to {word}: the server does not know the word, \
         is shutting down, or has reached maxClientCnxns"
    )]
    #[non_exhaustive]
    NoAnswer {
        /// The address.
        addr: SocketAddr,
        /// The word.
        word: String,
    },
    /// The word is not four ASCII letters.
    #[error("{word:?} is not a four-letter word: use four ASCII letters, such as srvr")]
    #[non_exhaustive]
    InvalidWord {
        /// The invalid word.
        word: String,
    },
    /// The server runs but is not part of a quorum.
    #[error("the server runs but does not serve requests: it is not part of a quorum")]
    NotServing,
    /// The server's configuration does not allow the word.
    #[error(
        "the server does not execute {word}: add it to 4lw.commands.whitelist in the server's configuration"
    )]
    #[non_exhaustive]
    NotWhitelisted {
        /// The refused word.
        word: String,
    },
    /// The text is not an answer to this word.
    #[error("unexpected line in the answer to {word}: {line:?} instead of {expected}")]
    #[non_exhaustive]
    Unexpected {
        /// The word.
        word: &'static str,
        /// The first line that could not be parsed, shortened if it is long; empty if a line is missing.
        line: String,
        /// The expected content.
        expected: &'static str,
    },
}
