//! The errors of acquiring, holding and releasing a lock.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use zk_core::{Error, ErrorClass, NodePath, Sequence};

use crate::contender::Contender;
use crate::limit_error::LimitError;

/// A lock was not acquired. Leftovers of the attempt are removed in the background.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// The session is over.
    #[error("the session is over")]
    SessionLost {
        /// The error of the operation that found out, if there was one.
        source: Option<Error>,
    },
    /// Another client deleted our node while we waited, which removes us from the queue.
    ///
    /// This is how an operator removes a waiter. Another acquire joins at the end of the queue.
    #[error("waiter node {path} was deleted by another client; acquire again to rejoin the queue")]
    NodeDeleted {
        /// The node.
        path: NodePath,
    },
    /// One lock of a [`MultiLock`](crate::MultiLock) was acquired, and lost while later ones were waited for.
    #[error("lock node {path} was lost while other locks were waited for: {loss}")]
    Lost {
        /// The node.
        path: NodePath,
        /// Why it was lost.
        loss: LockLoss,
    },
    /// The sequence numbers of the contenders no longer determine an order.
    #[error(transparent)]
    SequenceExhausted(SequenceExhausted),
    /// The limit of a [`Semaphore`](crate::Semaphore) does not allow the acquire.
    #[error(transparent)]
    Limit(LimitError),
    /// The time limit elapsed.
    #[error(transparent)]
    TimedOut(TimedOut),
    /// An operation failed.
    #[error(transparent)]
    Failed(Error),
}

impl AcquireError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::SessionLost { .. } => ErrorClass::Fatal,
            Self::NodeDeleted { .. } | Self::TimedOut(_) => ErrorClass::Recoverable,
            Self::Lost { loss, .. } => loss.class(),
            Self::SequenceExhausted(_) | Self::Limit(_) => ErrorClass::Outcome,
            Self::Failed(error) => error.class(),
        }
    }

    /// Returns whether the time limit elapsed.
    pub const fn is_timed_out(&self) -> bool {
        matches!(self, Self::TimedOut(_))
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

/// The sequence numbers of the contenders no longer determine an order.
///
/// A server numbers the children of a node from a 32-bit counter.
/// Since ZooKeeper 3.6 the counter stays at 2147483647 once it is there, and several contenders get the same number.
/// Any other order could grant the lock twice, so no contender near the end of the counter is granted the lock.
///
/// The counter belongs to the node, and a new node counts from zero.
/// Delete the path of the lock once it has no contenders, and the next acquire creates it again.
/// The server refuses to delete a path that has children.
/// A container node, as this crate creates it, is deleted by the servers when it is idle.
/// Fencing tokens keep growing.
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

    /// Returns the number of our node, if it still fits in 32 bits.
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
            None => write!(f, "{name} is too close to the end of the counter of {path}")?,
        }
        write!(
            f,
            ", so the lock cannot be granted; delete {path} once it is empty: a new node counts from zero"
        )
    }
}

impl std::error::Error for SequenceExhausted {}

/// A lock of any kind was not acquired within the time limit.
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

    /// Returns the time limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns who was ahead at the last wake-up, or at the start if there was none.
    ///
    /// `None` if the ensemble had not replied by then.
    pub fn ahead(&self) -> Option<&Ahead> {
        self.ahead.as_ref()
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} not acquired within {:?}: ", self.path, self.limit)?;
        match &self.ahead {
            Some(ahead) => write!(f, "{ahead}"),
            None => write!(f, "the ensemble did not reply in time"),
        }
    }
}

impl std::error::Error for TimedOut {}

/// The contenders ahead of a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ahead {
    count: usize,
    predecessor: Option<Box<Contender>>,
    /// What the predecessor waits for; `None` if it holds the lock.
    predecessor_waits_for: Option<&'static str>,
    leases: Option<(usize, u32)>,
    /// How many of the leases belong to no session, and the name of the first.
    lasting_leases: Option<Box<(usize, String)>>,
}

impl Ahead {
    pub(crate) const fn new(count: usize) -> Self {
        Self {
            count,
            predecessor: None,
            predecessor_waits_for: None,
            leases: None,
            lasting_leases: None,
        }
    }

    /// Describes leases of others that leave no room, once no waiter is ahead.
    pub(crate) const fn of_leases(taken: usize, limit: u32) -> Self {
        let mut ahead = Self::new(0);
        ahead.leases = Some((taken, limit));
        ahead
    }

    /// Adds the leases that belong to no session.
    pub(crate) fn with_lasting_leases(mut self, lasting: &BTreeSet<String>) -> Self {
        let first = lasting.first();
        self.lasting_leases = first.map(|first| Box::new((lasting.len(), first.clone())));
        self
    }

    pub(crate) fn with_predecessor(
        mut self,
        predecessor: Contender,
        waits_for: Option<&'static str>,
    ) -> Self {
        self.predecessor = Some(Box::new(predecessor));
        self.predecessor_waits_for = waits_for;
        self
    }

    /// Returns the number of contenders that the waiter waited for, including the holder; zero if none was left.
    ///
    /// A reader waits for writers only.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns how many leases of a semaphore others held, and its limit; `None` while other waiters are ahead, and for
    /// locks of other kinds.
    pub fn leases(&self) -> Option<(usize, u32)> {
        self.leases
    }

    /// Returns the name of a lease that belongs to no session, if the waiter waits for one.
    ///
    /// Such a lease is the work of another client. No session's end deletes it, so it takes its place until its node is
    /// deleted, for example by [`Inspector::remove`](crate::Inspector::remove).
    pub fn lasting_lease(&self) -> Option<&str> {
        self.lasting_leases.as_ref().map(|it| it.1.as_str())
    }

    /// Returns whether there is anything to wait for.
    pub(crate) fn is_waiting(&self) -> bool {
        self.count > 0 || self.leases.is_some()
    }

    /// Returns the predecessor, the last contender that the waiter waited for.
    ///
    /// If only one is ahead of a lock that is not shared, it is the holder. For a reader it is the writer directly
    /// ahead, which may hold the lock or wait for readers itself.
    ///
    /// `None` if no contender was ahead, if the predecessor had just left, or if this session may not read its node.
    pub fn predecessor(&self) -> Option<&Contender> {
        self.predecessor.as_deref()
    }
}

impl fmt::Display for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((taken, limit)) = self.leases {
            write!(f, "others hold {taken} leases of {limit}")?;
            return match self.lasting_leases.as_deref() {
                None => Ok(()),
                Some((1, name)) => {
                    write!(f, ", {name:?} of no session: it stays until it is deleted")
                }
                Some((count, first)) => write!(
                    f,
                    ", {count} of no session, such as {first:?}: they stay until they are deleted"
                ),
            };
        }
        match (self.count, &self.predecessor) {
            (0, _) => write!(
                f,
                "no contender was ahead, but the session could not be proved alive"
            ),
            (count, None) => write!(f, "{count} ahead"),
            (1, Some(one)) => match self.predecessor_waits_for {
                None => write!(f, "held by {one}"),
                Some(others) => write!(f, "behind {one}, which waits for {others}"),
            },
            (count, Some(last)) => write!(f, "{count} ahead, the last of them {last}"),
        }
    }
}

/// Why a lock is no longer held, or no longer known to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockLoss {
    /// The session is over, and its nodes are deleted.
    SessionLost,
    /// Another client deleted the lock's node.
    NodeDeleted,
    /// The ensemble did not reply for too long: it may have granted the lock to another contender.
    ///
    /// This is the only loss that is not final: the session may turn out to have survived.
    SessionLeaseExpired,
    /// The guard was released or dropped.
    Released,
}

impl LockLoss {
    /// Returns whether the lock is lost for good: always, except for
    /// [`SessionLeaseExpired`](Self::SessionLeaseExpired).
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::SessionLeaseExpired)
    }

    /// Returns the class of the error: what a caller can do about it.
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::SessionLost => ErrorClass::Fatal,
            Self::NodeDeleted | Self::SessionLeaseExpired => ErrorClass::Recoverable,
            Self::Released => ErrorClass::Outcome,
        }
    }
}

impl fmt::Display for LockLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SessionLost => "the session is over",
            Self::NodeDeleted => "another client deleted the lock's node",
            Self::SessionLeaseExpired => "the ensemble did not reply for too long",
            Self::Released => "the lock was released",
        })
    }
}

/// A release failed, or was not confirmed in time.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// The lock had been lost before: work under it may have overlapped with another holder.
    #[error("lock node {path} had been lost before its release: {loss}")]
    Lost {
        /// The lock's node.
        path: NodePath,
        /// Why it was lost.
        loss: LockLoss,
    },
    /// The lock was held until now, but the deletion of its node is not confirmed.
    ///
    /// The deletion continues in the background until the node or the session is gone.
    #[error("the release of lock node {path} is not confirmed yet; it continues in the background")]
    Pending {
        /// The lock's node.
        path: NodePath,
        /// Why the deletion is not confirmed.
        source: Error,
    },
    /// The server refuses to delete the node. The lock stays held until the session ends.
    #[error(
        "lock node {path} may not be deleted and stays until its session ends; grant DELETE on its parent"
    )]
    Refused {
        /// The lock's node.
        path: NodePath,
        /// Why.
        source: Error,
    },
    /// Several nodes that were held together have an error each. The other nodes are deleted.
    #[error("{}", joined(errors))]
    Several {
        /// The errors, at least two.
        errors: Vec<Self>,
    },
}

impl ReleaseError {
    /// Returns the class of the error: what a caller can do about it. Of several errors it is that of the first loss,
    /// or of the first one.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { loss, .. } => loss.class(),
            Self::Pending { source, .. } | Self::Refused { source, .. } => source.class(),
            Self::Several { errors } => match (self.loss(), errors.first()) {
                (Some(loss), _) => loss.class(),
                (None, first) => first.map_or(ErrorClass::Outcome, Self::class),
            },
        }
    }

    /// Returns whether the release is not confirmed and continues in the background.
    pub fn is_pending(&self) -> bool {
        match self {
            Self::Pending { .. } => true,
            Self::Lost { .. } | Self::Refused { .. } => false,
            Self::Several { errors } => errors.iter().any(Self::is_pending),
        }
    }

    /// Returns why the lock had been lost before the release; `None` if it was held until then.
    ///
    /// After a loss, work under the lock may have overlapped with another holder.
    pub fn loss(&self) -> Option<LockLoss> {
        match self {
            Self::Lost { loss, .. } => Some(*loss),
            Self::Pending { .. } | Self::Refused { .. } => None,
            Self::Several { errors } => errors.iter().find_map(Self::loss),
        }
    }
}

fn joined(errors: &[ReleaseError]) -> String {
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

/// A guard was yielded, and its lock is not held any more.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum YieldError {
    /// The lock had been lost before: work under it may have overlapped with another holder.
    #[error("lock node {path} had been lost before it was yielded: {loss}")]
    Lost {
        /// The lock's node.
        path: NodePath,
        /// Why it was lost.
        loss: LockLoss,
    },
    /// The lock was held until now, but the ensemble did not confirm that our node was replaced.
    ///
    /// The lock is released in the background, and the place in the queue is given up. Acquire again.
    #[error(
        "lock node {path} was not replaced by a waiter's; the lock is released in the background"
    )]
    GivenUp {
        /// The lock's node.
        path: NodePath,
        /// Why.
        source: Error,
    },
    /// The lock was held until it was handed over, and was not acquired again.
    #[error("the lock was handed over and not acquired again")]
    NotReacquired {
        /// The error of the wait.
        source: AcquireError,
    },
}

impl YieldError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Lost { loss, .. } => loss.class(),
            Self::GivenUp { source, .. } => source.class(),
            Self::NotReacquired { source } => source.class(),
        }
    }

    /// Returns why the lock had been lost before it was yielded; `None` if it was held until then.
    ///
    /// After a loss, work under the lock may have overlapped with another holder.
    pub const fn loss(&self) -> Option<LockLoss> {
        match self {
            Self::Lost { loss, .. } => Some(*loss),
            Self::GivenUp { .. } | Self::NotReacquired { .. } => None,
        }
    }
}

/// A body was not run under a lock, or not to its end.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lock was not acquired, and the body was not run.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost. The body was dropped, or it had just finished and its result was dropped, since the lock may
    /// not have been held all the time.
    #[error("the lock was lost while the body ran: {0}")]
    Lost(LockLoss),
}

impl RunError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Acquire(error) => error.class(),
            Self::Lost(loss) => loss.class(),
        }
    }
}
