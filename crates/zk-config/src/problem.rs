//! Why a value in force may not be the one wanted, when several sessions follow it: a pure decision.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_core::Error;
use zk_core::NodePath;
use zk_core::codec::DecodeError;

/// Why the current value may not be what is wanted.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nobody has looked yet.
    #[error("{path} was not read yet")]
    NotRead {
        /// The key.
        path: NodePath,
    },
    /// The connection is broken: the value is the last one known, and may be old.
    #[error("the connection is broken, so that what was read of {path} may be old")]
    Stale {
        /// The key.
        path: NodePath,
    },
    /// The subtree changes faster than it can be read as it is at one moment: the value is the last one that could be, and
    /// is old. It is read again until it can be.
    #[error(
        "what is below {path} changes faster than it can be read, so that what was read last is old"
    )]
    Moving {
        /// The root of the subtree.
        path: NodePath,
    },
    /// There is no node.
    #[error("there is no node {path}")]
    Absent {
        /// The key.
        path: NodePath,
    },
    /// What is published is not of the format or the type.
    #[error(transparent)]
    Invalid(DecodeError),
    /// What is published was refused by the validation.
    #[error("what is published at {path} is refused: {reason}")]
    Rejected {
        /// The key.
        path: NodePath,
        /// What the validation said.
        reason: String,
    },
    /// What makes a value of what is published, or its validation, panicked.
    #[error("what makes or validates the value published at {path} panicked: {message}")]
    Panicked {
        /// The key.
        path: NodePath,
        /// What the panic said.
        message: String,
    },
    /// It cannot be read, for want of a permission perhaps. It is tried again every ten seconds.
    #[error(transparent)]
    Unreadable(Error),
    /// The session that followed it is over; let the next one [follow](crate::Typed::follow) it.
    #[error("the session that followed {path} is over")]
    SessionLost {
        /// The key.
        path: NodePath,
    },
}

/// What the sessions that follow a value know of it.
///
/// What is wrong with the data concerns everybody; what is wrong with a session concerns nobody as long as another one is
/// well.
#[derive(Debug)]
pub(crate) struct Health {
    path: NodePath,
    /// What is wrong with what was read last.
    content: Option<Arc<Problem>>,
    /// How each of those that have reported is, but for those that have left.
    followers: BTreeMap<Follower, Condition>,
    /// What the last one that left has left behind.
    legacy: Option<Arc<Problem>>,
    /// Grows with each trouble and each follower.
    clock: u64,
}

/// One session that follows, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Follower(u64);

#[derive(Debug)]
enum Condition {
    /// It has read what there is.
    Well,
    /// It has not, since this moment.
    Troubled(u64, Arc<Problem>),
}

impl Health {
    pub(crate) fn new(path: NodePath) -> Self {
        let not_read = Problem::NotRead { path: path.clone() };
        Self {
            path,
            content: None,
            followers: BTreeMap::new(),
            legacy: Some(Arc::new(not_read)),
            clock: 0,
        }
    }

    /// Returns the name of another session that begins to follow.
    pub(crate) fn join(&mut self) -> Follower {
        Follower(self.tick())
    }

    /// Takes what was read, and what is wrong with it.
    pub(crate) fn read(&mut self, follower: Follower, content: Option<Problem>) {
        self.content = content.map(Arc::new);
        self.well(follower);
    }

    /// Takes that a session has seen nothing newer than what was read before.
    pub(crate) fn well(&mut self, follower: Follower) {
        self.followers.insert(follower, Condition::Well);
    }

    /// Takes that a session cannot see what there is.
    pub(crate) fn trouble(&mut self, follower: Follower, problem: Problem) {
        let since = self.tick();
        self.followers
            .insert(follower, Condition::Troubled(since, Arc::new(problem)));
    }

    /// Takes that a session follows no more, for this reason if it is a trouble.
    pub(crate) fn leave(&mut self, follower: Follower, reason: Option<Problem>) {
        let condition = self.followers.remove(&follower);
        let legacy = match (reason, condition) {
            (Some(reason), _) => Arc::new(reason),
            (None, Some(Condition::Troubled(_, trouble))) => trouble,
            (None, Some(Condition::Well)) => self.content.clone().unwrap_or_else(|| {
                let path = self.path.clone();
                Arc::new(Problem::Stale { path })
            }),
            // It has seen nothing.
            (None, None) => return,
        };
        self.legacy = Some(legacy);
    }

    /// Returns why the value in force may not be what is published.
    pub(crate) fn problem(&self) -> Option<Arc<Problem>> {
        let mut newest: Option<(u64, &Arc<Problem>)> = None;
        for condition in self.followers.values() {
            match condition {
                Condition::Well => return self.content.clone(),
                Condition::Troubled(since, trouble) => {
                    newest = newest
                        .filter(|(at, _)| at > since)
                        .or(Some((*since, trouble)));
                }
            }
        }
        newest.map_or_else(
            || self.legacy.clone(),
            |(_, trouble)| Some(Arc::clone(trouble)),
        )
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests;
