//! Why a lock could not be acquired, released or kept.

use std::fmt;
use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Sequence;

use crate::contender::Contender;

/// A lock was not acquired. Nothing of the attempt is left, or its removal goes on in the background.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The session is over.
    #[error("the session is over")]
    SessionLost {
        /// What said so, if an operation did.
        source: Option<Error>,
    },
    /// Somebody deleted our node while we waited, which takes us out of the queue.
    ///
    /// Whoever did it, an operator perhaps, did not want us to get the lock; acquiring again gets in line at the end.
    #[error("somebody else deleted the node {path} of a waiter, which takes it out of the queue")]
    NodeLost {
        /// The node.
        path: NodePath,
    },
    /// The numbers that the server gives to contenders no longer tell an order.
    #[error(transparent)]
    SequenceExhausted(SequenceExhausted),
    /// The time was up.
    #[error(transparent)]
    TimedOut(TimedOut),
    /// An operation failed.
    #[error(transparent)]
    Failed(Error),
}

impl AcquireError {
    /// That of a contender whose node is gone for this reason.
    pub(crate) fn gone(loss: Loss, path: &NodePath) -> Self {
        match loss {
            Loss::SessionLost => Self::SessionLost { source: None },
            _ => Self::NodeLost { path: path.clone() },
        }
    }

    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SessionLost { .. } => ErrorClass::Fatal,
            Self::NodeLost { .. } | Self::TimedOut(_) => ErrorClass::Recoverable,
            Self::SequenceExhausted(_) => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }
}

impl From<Error> for AcquireError {
    fn from(error: Error) -> Self {
        if error.is_fatal() {
            Self::SessionLost {
                source: Some(error),
            }
        } else {
            Self::Failed(error)
        }
    }
}

/// The numbers that the server gives to contenders no longer tell an order.
///
/// A server numbers the children of a node from a 32-bit counter.
/// Since ZooKeeper 3.6 the counter stays at 2147483647 once it is there, and then several contenders have one number.
/// A lock that went on by some other rule would be granted twice, so near the end of the counter none is granted.
///
/// The counter belongs to the node, so a fresh node counts from zero:
/// once nobody holds the lock or waits for it, delete the path of the lock, and the next acquire makes it anew.
/// The server refuses to delete it while somebody is there.
/// A path that is a container node, as this crate makes them, goes away by itself when it is idle.
/// Fencing tokens go on growing through that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequenceExhausted {
    pub(crate) path: NodePath,
    pub(crate) name: String,
    pub(crate) sequence: Option<Sequence>,
    pub(crate) tied_with: Option<String>,
}

impl SequenceExhausted {
    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the number we were given, if it still was one of 32 bits.
    pub fn sequence(&self) -> Option<Sequence> {
        self.sequence
    }

    /// Returns the name of a contender with the same number, if there was one.
    pub fn tied_with(&self) -> Option<&str> {
        self.tied_with.as_deref()
    }
}

impl fmt::Display for SequenceExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, name, .. } = self;
        match &self.tied_with {
            Some(other) => write!(f, "{name} and {other} have the same number below {path}")?,
            None => write!(f, "{name} is too near the end of the counter of {path}")?,
        }
        write!(
            f,
            ", so nobody is granted the lock; delete {path} once it is empty, a fresh node counts from zero"
        )
    }
}

impl std::error::Error for SequenceExhausted {}

/// The time to acquire a lock was up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedOut {
    pub(crate) path: NodePath,
    pub(crate) limit: Duration,
    pub(crate) ahead: Option<Ahead>,
}

impl TimedOut {
    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns who was ahead when last looked, which is at the start and at each wake-up.
    ///
    /// `None` when the ensemble had not answered by then.
    pub fn ahead(&self) -> Option<&Ahead> {
        self.ahead.as_ref()
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lock {} not acquired within {:?}: ",
            self.path, self.limit
        )?;
        match &self.ahead {
            Some(ahead) => write!(f, "{ahead}"),
            None => write!(f, "the ensemble had not answered by then"),
        }
    }
}

impl std::error::Error for TimedOut {}

/// Who was before a waiter in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    count: usize,
    predecessor: Option<Box<Contender>>,
    /// Whether the predecessor holds the lock, rather than waits for it.
    holds: bool,
}

impl Ahead {
    pub(crate) const fn new(count: usize) -> Self {
        Self {
            count,
            predecessor: None,
            holds: false,
        }
    }

    pub(crate) fn behind(mut self, predecessor: Option<Contender>, holds: bool) -> Self {
        self.predecessor = predecessor.map(Box::new);
        self.holds = holds;
        self
    }

    /// Returns how many contenders were ahead that we had to wait for, the holder included; zero when our turn had come.
    ///
    /// For a reader these are the writers alone.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the last one of them: the holder, if only one was ahead of a lock that is not shared.
    ///
    /// Of a reader it is the writer right before it, which may hold the lock or wait for readers itself.
    ///
    /// `None` when our turn had come, when that one had just gone, and when this session may not read its node.
    pub fn predecessor(&self) -> Option<&Contender> {
        self.predecessor.as_deref()
    }
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.count, &self.predecessor) {
            (0, _) => write!(
                f,
                "nobody was ahead, but the session could not be proved alive"
            ),
            (count, None) => write!(f, "{count} ahead"),
            (1, Some(holder)) if self.holds => write!(f, "held by {holder}"),
            (1, Some(writer)) => write!(f, "behind {writer}, which waits for readers"),
            (count, Some(last)) => write!(f, "{count} ahead, the last of them {last}"),
        }
    }
}

/// Why a lock is not held, or not known to be held, any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The session is over, and its nodes with it.
    SessionLost,
    /// Somebody else deleted the lock's node.
    NodeDeleted,
    /// For too long nothing was heard of the ensemble: it may have expired the session and granted the lock to another.
    ///
    /// The one loss that may turn out to be none, if the session has survived after all.
    TrustLapsed,
    /// The guard was released or dropped.
    Released,
}

impl Loss {
    /// Returns what can be done about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted | Self::TrustLapsed => ErrorClass::Recoverable,
            Self::Released => ErrorClass::Outcome,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session is over",
            Self::NodeDeleted => "somebody else deleted the lock's node",
            Self::TrustLapsed => "the ensemble was not heard of for too long",
            Self::Released => "the lock was released",
        })
    }
}

/// A release did not go as it should.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock had been lost before: what was done under it may have overlapped with another holder.
    #[error("lock node {path} had been lost before its release: {loss}")]
    Lost {
        /// The lock's node.
        path: NodePath,
        /// Why it was lost.
        loss: Loss,
    },
    /// The lock was held until now, but it is not known yet whether its node is gone.
    ///
    /// The removal goes on in the background until the node or the session is gone.
    #[error("the release of lock node {path} goes on in the background")]
    Pending {
        /// The lock's node.
        path: NodePath,
        /// What kept it from being removed at once.
        source: Error,
    },
    /// The server refuses to delete the node: the lock stays held until the session ends.
    #[error("lock node {path} stays until its session ends")]
    Refused {
        /// The lock's node.
        path: NodePath,
        /// Why.
        source: Error,
    },
}

impl ReleaseError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { loss, .. } => loss.class(),
            Self::Pending { source, .. } | Self::Refused { source, .. } => source.class(),
        }
    }
}

/// A body was not run, or not to its end, under a lock.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, and the body not run.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost: the body was dropped where it stood, or had just ended and its result was dropped, since the
    /// lock may not have been held all the time.
    #[error("the lock was lost while it was used: {0}")]
    Lost(Loss),
}

impl RunError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Acquire(error) => error.class(),
            Self::Lost(loss) => loss.class(),
        }
    }
}
