//! Defines the error of four-letter words.

use std::net::SocketAddr;

/// The error of a four-letter word without a valid answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// No server listens at the address, the connection broke, or the deadline passed.
    #[error("no answer to {word} from {addr}: {problem}")]
    #[non_exhaustive]
    NoAnswer {
        /// The address.
        addr: SocketAddr,
        /// The word.
        word: String,
        /// The problem, and the step that was not completed.
        problem: String,
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
    #[error("the answer to {word} has no valid {expected}: {line:?}")]
    #[non_exhaustive]
    Unexpected {
        /// The word.
        word: &'static str,
        /// The line that could not be parsed, shortened if it is long; empty if it is missing.
        line: String,
        /// The expected content.
        expected: &'static str,
    },
}
