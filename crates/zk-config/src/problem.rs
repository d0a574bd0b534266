//! Decides which problem a value has, when several sessions follow it.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::codec::DecodeError;
use zk_core::{Error, NodePath};

/// The reason why the current value may differ from the published one.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// No session has read the key yet.
    #[error("{path} has not been read yet")]
    NotRead {
        /// The key.
        path: NodePath,
    },
    /// The connection is broken: the value is the last known one, and may be old.
    #[error("the connection is broken, and the value of {path} may be old")]
    Stale {
        /// The key.
        path: NodePath,
    },
    /// The subtree changes faster than it can be read as of one moment: the value is the last one that could be read,
    /// and is old. The session keeps reading.
    #[error("the nodes below {path} change faster than they can be read, and the value is old")]
    Contended {
        /// The root of the subtree.
        path: NodePath,
    },
    /// The node does not exist.
    #[error("there is no node {path}")]
    Absent {
        /// The key.
        path: NodePath,
    },
    /// The published data does not match the format or the type.
    #[error(transparent)]
    Invalid(DecodeError),
    /// The validation refused the published value.
    #[error("the value published at {path} was rejected: {reason}")]
    Rejected {
        /// The key.
        path: NodePath,
        /// The reason that the validation returned.
        reason: String,
    },
    /// The function that makes the value, or the validation, panicked.
    #[error("making or validating the value published at {path} panicked: {message}")]
    Panicked {
        /// The key.
        path: NodePath,
        /// The message of the panic.
        message: String,
    },
    /// The node cannot be read, for example without the permission. The session retries every ten seconds.
    #[error(transparent)]
    Unreadable(Error),
    /// The session that followed the value is over. If the application's [`Sessions`](zk_core::Sessions) follow it, the
    /// next one goes on.
    #[error("the session that followed {path} is over")]
    SessionLost {
        /// The key.
        path: NodePath,
    },
}

/// The reports of all sessions that follow one value.
///
/// A problem with the data counts whichever session found it. A problem with a session does not count while another
/// session is healthy.
#[derive(Debug)]
pub(crate) struct ValueHealth {
    path: NodePath,
    /// The problem with the data that was read last.
    content: Option<Arc<Problem>>,
    /// The sessions that have reported and still follow.
    sessions: BTreeMap<FollowId, SessionHealth>,
    /// The problem that the last session to leave has left.
    last_problem: Option<Arc<Problem>>,
    /// Grows with each failure and each id.
    clock: u64,
}

/// Identifies one session's following of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FollowId(u64);

#[derive(Debug)]
enum SessionHealth {
    /// It has read the current data.
    Healthy,
    /// It cannot, since this time.
    Failing(u64, Arc<Problem>),
}

impl ValueHealth {
    pub(crate) fn new(path: NodePath) -> Self {
        let not_read = Problem::NotRead { path: path.clone() };
        Self {
            path,
            content: None,
            sessions: BTreeMap::new(),
            last_problem: Some(Arc::new(not_read)),
            clock: 0,
        }
    }

    /// Returns the id of another session that begins to follow.
    pub(crate) fn add(&mut self) -> FollowId {
        FollowId(self.tick())
    }

    /// Takes a read, and the problem with its data.
    pub(crate) fn on_read(&mut self, id: FollowId, content: Option<Problem>) {
        self.content = content.map(Arc::new);
        self.sessions.insert(id, SessionHealth::Healthy);
    }

    /// Takes that a session cannot read the current data.
    pub(crate) fn mark_failing(&mut self, id: FollowId, problem: Problem) {
        let since = self.tick();
        self.sessions
            .insert(id, SessionHealth::Failing(since, Arc::new(problem)));
    }

    /// Takes that a session no longer follows, and why if that is a problem.
    pub(crate) fn remove(&mut self, id: FollowId, reason: Option<Problem>) {
        let health = self.sessions.remove(&id);
        let problem = match (reason, health) {
            (Some(reason), _) => Arc::new(reason),
            (None, Some(SessionHealth::Failing(_, problem))) => problem,
            (None, Some(SessionHealth::Healthy)) => self.content.clone().unwrap_or_else(|| {
                let path = self.path.clone();
                Arc::new(Problem::Stale { path })
            }),
            // It has reported nothing.
            (None, None) => return,
        };
        self.last_problem = Some(problem);
    }

    /// Returns why the current value may differ from the published one.
    pub(crate) fn problem(&self) -> Option<Arc<Problem>> {
        let mut newest: Option<(u64, &Arc<Problem>)> = None;
        for health in self.sessions.values() {
            match health {
                SessionHealth::Healthy => return self.content.clone(),
                SessionHealth::Failing(since, problem) => {
                    newest = newest
                        .filter(|(at, _)| at > since)
                        .or(Some((*since, problem)));
                }
            }
        }
        newest.map_or_else(
            || self.last_problem.clone(),
            |(_, problem)| Some(Arc::clone(problem)),
        )
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests;
