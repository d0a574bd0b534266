//! Defines the error of operations on an ensemble and its servers.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_provision::FindError;

use crate::admin::AdminError;
use crate::spec::SpecError;
use crate::unavailable::Unavailable;

/// An error of an operation on an ensemble or one of its servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// ZooKeeper or Java could be neither found nor downloaded.
    #[error(transparent)]
    Find(#[from] Box<FindError>),
    /// The operating system refused something.
    #[error("cannot {action} {path}")]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file, directory or program.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A server's process ended while the ensemble was starting.
    #[error("server {id} exited while starting; the end of its log ({log}):\n{tail}")]
    ServerExited {
        /// The server.
        id: u32,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The ensemble did not serve in time.
    #[error(
        "the ensemble did not serve within {within:?}: {seen}; the end of the log of server {id} ({log}):\n{tail}"
    )]
    NotServing {
        /// The timeout.
        within: Duration,
        /// Each server's last answer.
        seen: String,
        /// The first server with a problem.
        id: u32,
        /// Its log file.
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// There is no leader.
    #[error("no quorum serves: {seen}")]
    NoQuorum {
        /// Each server's last answer.
        seen: String,
    },
    /// There is no follower.
    #[error("there is no follower: {seen}")]
    NoFollower {
        /// Each server's last answer.
        seen: String,
    },
    /// There is no session with this id.
    #[error("there is no session {session:#x}; it has ended, or belongs to another ensemble")]
    NoSuchSession {
        /// The session id.
        session: i64,
    },
    /// It is unknown whether a session ended.
    #[error("no reply to the request to end session {session:#x}; it may have ended")]
    Expire {
        /// The session id.
        session: i64,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An operation of the container engine failed.
    #[error("cannot {action} the container of server {id}")]
    Container {
        /// The failed action, as a verb.
        action: &'static str,
        /// The server.
        id: u32,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The network of the containers could not be removed.
    #[error("cannot remove the network {name} of the containers")]
    Network {
        /// Its name.
        name: String,
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The container image could not be pulled or built.
    #[error("cannot pull or build the container image")]
    Image {
        /// The engine's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A fault cannot be injected on this machine.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// There is no server with this id.
    #[error("there is no server {id}; this ensemble has {}", list(.known))]
    NoSuchServer {
        /// The id.
        id: u32,
        /// The ids of the ensemble.
        known: Vec<u32>,
    },
    /// The state of the server's process does not allow the operation.
    #[error("cannot {action} server {id}: {reason}")]
    WrongState {
        /// The operation, as a verb.
        action: &'static str,
        /// The server.
        id: u32,
        /// The reason and the remedy.
        reason: String,
    },
    /// Another ensemble has reserved a port of an ensemble that was down.
    #[error("port {port} is already reserved by the ensemble in {by}; take one of the two down")]
    PortTaken {
        /// The port.
        port: u16,
        /// The directory of the other ensemble.
        by: PathBuf,
    },
    /// A process did not end in time.
    #[error("cannot {action} server {id}: its process {pid} still runs after {within:?}")]
    StillRunning {
        /// The operation, as a verb.
        action: &'static str,
        /// The server.
        id: u32,
        /// Its process id.
        pid: i32,
        /// The timeout.
        within: Duration,
    },
    /// A four-letter word failed.
    #[error("server {id} gave no valid answer")]
    Admin {
        /// The server.
        id: u32,
        /// The cause.
        source: AdminError,
    },
    /// The ensemble was started without a feature that is used now.
    #[error("the ensemble has no {what}: start it with `Ensemble::builder().{setting}(true)`")]
    NotPresent {
        /// The missing feature.
        what: &'static str,
        /// The method of [`EnsembleBuilder`](crate::EnsembleBuilder) that enables it.
        setting: &'static str,
    },
    /// A fault proxy or the links between the servers reported an error.
    #[error(transparent)]
    Proxy(#[from] zk_fault_proxy::Error),
    /// The directory contains no ensemble, or one that this version cannot read.
    #[error("{path} is not the state of an ensemble: {reason}")]
    BadState {
        /// The state file.
        path: PathBuf,
        /// Its defect.
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
