//! What can go wrong with an ensemble.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_provision::FindError;

use crate::admin::AdminError;
use crate::fault::Unavailable;
use crate::spec::SpecError;

/// What went wrong with an ensemble or one of its servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting breaks a rule.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No ZooKeeper, or no Java to run it with, could be found or downloaded.
    #[error(transparent)]
    Find(#[from] Box<FindError>),
    /// The operating system refused something.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file, directory or program.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A server's process ended while the ensemble was starting.
    #[error("server {id} exited while starting; the end of its log ({log}):\n{tail}")]
    ServerExited {
        /// The server.
        id: u32,
        /// Its whole log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The ensemble does not serve, or not yet.
    #[error(
        "the ensemble did not serve within {within:?}: {seen}; the end of the log of server {id} ({log}):\n{tail}"
    )]
    NotServing {
        /// How long it was waited for.
        within: Duration,
        /// What each server answered last.
        seen: String,
        /// The server that is most to blame.
        id: u32,
        /// Its whole log.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// No server leads.
    #[error("no quorum serves: {seen}")]
    NoQuorum {
        /// What each server answered last.
        seen: String,
    },
    /// No server follows.
    #[error("no server follows: {seen}")]
    NoFollower {
        /// What each server answered last.
        seen: String,
    },
    /// There is no session with this id.
    #[error("there is no session {session:#x}; it has ended, or is one of another ensemble")]
    NoSuchSession {
        /// The id asked for.
        session: i64,
    },
    /// Whether a session ended is not known.
    #[error("the end of session {session:#x} got no answer")]
    Expire {
        /// The session.
        session: i64,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The container engine did not do what was asked.
    #[error("cannot {action} the container of server {id}")]
    Container {
        /// What was asked.
        action: &'static str,
        /// The server.
        id: u32,
        /// What the engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The network of the containers could not be removed.
    #[error("cannot remove the network {name} of the containers")]
    Network {
        /// Its name.
        name: String,
        /// What the engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no image to run servers from.
    #[error("there is no container image to run servers from")]
    Image {
        /// What the engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A fault cannot be made on this machine.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// There is no server with this id.
    #[error("there is no server {id}; this ensemble has {}", list(.known))]
    NoSuchServer {
        /// The id asked for.
        id: u32,
        /// The ids there are.
        known: Vec<u32>,
    },
    /// The server's process is in a state in which this cannot be done.
    #[error("cannot {action} server {id}: {reason}")]
    WrongState {
        /// What was asked.
        action: &'static str,
        /// The server.
        id: u32,
        /// Why it cannot be done, and what can.
        reason: String,
    },
    /// A port of an ensemble that was down is reserved for another one by now.
    #[error(
        "port {port} is by now that of the ensemble in {by}; take one of the two down, files included"
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// The directory of the ensemble that has it.
        by: PathBuf,
    },
    /// A process did not end in time after a signal.
    #[error("server {id} (process {pid}) was still there {within:?} after {signal}")]
    StillRunning {
        /// The server.
        id: u32,
        /// Its process id.
        pid: i32,
        /// The signal it was sent.
        signal: &'static str,
        /// How long it was waited for.
        within: Duration,
    },
    /// A four-letter command failed.
    #[error("server {id} gave no proper answer")]
    Admin {
        /// The server.
        id: u32,
        /// What happened.
        source: AdminError,
    },
    /// The ensemble was started without something that is asked for now.
    #[error("the ensemble has no {what}: start it with `Ensemble::builder().{setting}(true)`")]
    NotPresent {
        /// What it has not.
        what: &'static str,
        /// The method of [`EnsembleBuilder`](crate::EnsembleBuilder) that provides it.
        setting: &'static str,
    },
    /// A fault proxy or the links between the servers reported an error.
    #[error(transparent)]
    Proxy(#[from] zk_fault_proxy::Error),
    /// The directory holds no ensemble, or one that this version cannot read.
    #[error("{path} is not the state of an ensemble: {reason}")]
    BadState {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}

fn list(ids: &[u32]) -> String {
    match ids {
        [one] => format!("server {one} only"),
        [first, .., last] if *last as usize - *first as usize + 1 == ids.len() => {
            format!("servers {first} to {last}")
        }
        ids => format!(
            "servers {}",
            ids.iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}
