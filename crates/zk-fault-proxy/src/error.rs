//! What can go wrong with a proxy or with links.

use std::io;
use std::time::Duration;

/// An error of a fault proxy or of the links between servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A port or a thread could not be had.
    #[error("cannot start {what}")]
    Start {
        /// What was to be started.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// There is no server with this id.
    #[error("there is no server {id}; there are servers {known:?}")]
    NoSuchServer {
        /// The id asked for.
        id: u32,
        /// The ids there are.
        known: Vec<u32>,
    },
    /// Something that was waited for has not happened in time.
    #[error("waited {within:?} in vain for {what}; the last events:\n  {seen}")]
    NotSeen {
        /// What was waited for.
        what: String,
        /// For how long.
        within: Duration,
        /// What the proxy has seen last.
        seen: String,
    },
}

impl Error {
    pub(crate) fn start(what: &'static str, source: io::Error) -> Self {
        Self::Start { what, source }
    }
}
