//! The guard of a held lock, and what all kinds of guards have in common.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future;
use zk_core::{ErrorClass, NodePath, OwnedNode, Session, SessionLease, Transaction, Watch};

use crate::error::{LockLoss, ReleaseError};
use crate::fencing_token::FencingToken;
use crate::held::HeldLock;
use crate::held_node::HeldNode;
use crate::node_monitor::{MonitoredNode, NodeMonitor};
use crate::queue::{Queue, Turn};

mod yield_now;

/// The guard or lease of a lock of any kind, for code that is generic over kinds.
///
/// The methods are the same as those of the guards themselves, which dereference to [`HeldLock`].
pub trait LockGuard: Send + Sync + 'static {
    /// What distinguishes one holder from the next, see [`token`](Self::token).
    type Token;

    /// Returns what distinguishes this holder from others.
    ///
    /// - For a [`Guard`] and those of readers, writers, races and reentrant locks it is the [`FencingToken`].
    /// - A [`CohortGuard`](crate::CohortGuard) has a [`CohortToken`](crate::CohortToken), which fences as a pair.
    /// - The token of a [`SemaphoreLease`](crate::SemaphoreLease) does not fence, since there are several holders.
    /// - A [`MultiGuard`](crate::MultiGuard) has the tokens of its locks.
    fn token(&self) -> Self::Token;

    /// Returns whether the lock is valid, and why it is lost.
    fn held(&self) -> &HeldLock;

    /// Releases the lock and waits until the ensemble has deleted its nodes, see [`Guard::release`].
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send;
}

/// Implements [`LockGuard`] by the methods that a guard has itself.
macro_rules! impl_lock_guard {
    ($guard:ty, $token:ty, $method:ident) => {
        impl $crate::guard::LockGuard for $guard {
            type Token = $token;

            fn token(&self) -> $token {
                self.$method()
            }

            fn held(&self) -> &$crate::held::HeldLock {
                self
            }

            async fn release(self) -> Result<(), $crate::error::ReleaseError> {
                <$guard>::release(self).await
            }
        }
    };
}

pub(crate) use impl_lock_guard;

impl_lock_guard!(Guard, FencingToken, fencing_token);

/// A held lock.
///
/// The owner of the guard holds the lock. A guard may be moved to other tasks and threads.
/// It dereferences to [`HeldLock`]: whether the lock is valid, and why it is lost.
///
/// # Dropping
///
/// Futures of [`lost`](HeldLock::lost) resolve at once.
/// If there is a connection, the request to delete the node leaves at once, before any later request of this session: a
/// `try_acquire` right after the drop finds the lock free.
/// The deletion is repeated in the background until the node or the session is gone.
/// [`Session::settled`] and [`Session::close`] wait for it; [`release`](Self::release) also returns its result.
/// If the process dies, the ensemble deletes the node when it expires the session.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    /// `None` once the release has begun.
    node: Option<OwnedNode>,
    held: HeldLock,
    turn: Option<Box<Turn>>,
    /// Whether others were behind it when it last listed the queue, before it was granted the lock.
    saw_waiters: bool,
    /// The queue that the node is in; `None` for a lock without a queue.
    queue: Option<Arc<Queue>>,
    _monitored: Arc<MonitoredNode>,
}

/// A node that was granted a lock.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) node: OwnedNode,
    pub(crate) session_lease: SessionLease,
    /// The watch of the node, if it was set while it waited.
    pub(crate) watch: Option<Watch>,
    pub(crate) token: FencingToken,
    /// Set if the lock was free and its queue empty.
    pub(crate) turn: Option<Box<Turn>>,
    /// Whether others were behind it when it last listed the queue.
    pub(crate) saw_waiters: bool,
}

impl Granted {
    /// Describes a node that is not watched yet.
    pub(crate) fn new(node: OwnedNode, session_lease: SessionLease) -> Self {
        Self {
            token: FencingToken::of(node.stat()),
            node,
            session_lease,
            watch: None,
            turn: None,
            saw_waiters: false,
        }
    }
}

impl Guard {
    /// Creates the guard of a node that was granted the lock.
    pub(crate) fn new(session: &Session, granted: Granted, monitor: &NodeMonitor) -> Self {
        let Granted {
            node,
            session_lease,
            watch,
            token,
            turn,
            saw_waiters,
        } = granted;
        let held = HeldLock::new(HeldNode::new(session.clone(), &node, session_lease, token));
        tracing::debug!(path = %node.path(), %token, "lock acquired");
        Self {
            _monitored: monitor.begin(&held.nodes()[0], watch),
            node: Some(node),
            held,
            turn,
            saw_waiters,
            queue: None,
        }
    }

    /// Makes this the guard of a contender in `queue`.
    pub(crate) fn in_queue(mut self, queue: &Arc<Queue>) -> Self {
        self.queue = Some(Arc::clone(queue));
        self
    }

    /// Returns a number that is higher for every later holder of the lock.
    ///
    /// Pass it along with every write under the lock. A resource that remembers the highest token it has seen and
    /// refuses lower ones is safe from late writes of earlier holders.
    ///
    /// The token is the `czxid` of the lock's node, a 64-bit number that grows with every write to the ensemble.
    /// (The number in the node's name is not a token: it restarts when an idle parent is removed.)
    pub fn fencing_token(&self) -> FencingToken {
        self.node().token
    }

    /// Returns the path of the lock's node.
    pub fn path(&self) -> &NodePath {
        &self.node().path
    }

    /// Starts a transaction that fails unless the lock is held when the ensemble executes it.
    ///
    /// Its first part checks the lock's node.
    /// If the lock is lost, the transaction changes nothing. Its error is [`NoNode`](zk_core::ErrorKind::NoNode) with a
    /// [`failed_part`](zk_core::Error::failed_part) of zero, or a fatal error.
    pub fn txn(&self) -> Transaction {
        self.held.with_checks(self.node().session.transaction())
    }

    /// Releases the lock and waits until the ensemble has deleted its node.
    ///
    /// The deletion is retried over connection losses, up to the session's operation timeout.
    ///
    /// # Errors
    ///
    /// - [`ReleaseError::Lost`] if the lock had been lost before.
    /// - [`ReleaseError::Pending`] if there was no reply in time. The release continues in the background.
    /// - [`ReleaseError::Refused`] if the session may create the lock's node but not delete it.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let path = self.path().clone();
        let Some(node) = self.node.take() else {
            return Ok(());
        };
        if let Some(loss) = self.node().end(LockLoss::Released) {
            return Err(ReleaseError::Lost { path, loss });
        }
        // `OwnedNode::delete` treats a missing node as success; here it is a loss.
        let mut delete = self.node().session.delete(&path);
        if !self.node().has_unique_name {
            delete = delete.created_by(node.stat().czxid);
        }
        let deleted = delete.await;
        // The node is monitored until the reply, so that its watch fires instead of being removed by a request.
        match deleted {
            Ok(()) => {
                node.keep();
                if let Some(turn) = self.turn.take() {
                    turn.ended();
                }
                Ok(())
            }
            Err(error) if error.is_no_node() => {
                node.keep();
                let loss = LockLoss::NodeDeleted;
                Err(ReleaseError::Lost { path, loss })
            }
            // In all other cases dropping the node continues the deletion.
            Err(source) => Err(match source.class() {
                ErrorClass::Fatal => ReleaseError::Lost {
                    path,
                    loss: LockLoss::SessionLost,
                },
                ErrorClass::Outcome => ReleaseError::Refused { path, source },
                ErrorClass::Recoverable => ReleaseError::Pending { path, source },
            }),
        }
    }

    /// Returns when the lock's node was created, by the leader's clock.
    pub(crate) fn created_at(&self) -> SystemTime {
        let node = self.node.as_ref().expect("only a release takes it");
        node.stat().ctime
    }

    fn node(&self) -> &HeldNode {
        &self.held.nodes()[0]
    }
}

impl Deref for Guard {
    type Target = HeldLock;

    fn deref(&self) -> &HeldLock {
        &self.held
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Dropping the node deletes it.
        self.node().end(LockLoss::Released);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("path", self.path())
            .field("fencing_token", &self.fencing_token())
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// Releases several guards concurrently, all of them regardless of errors, and waits for the replies.
pub(crate) async fn release_all<G: LockGuard>(guards: Vec<G>) -> Result<(), ReleaseError> {
    let released = future::join_all(guards.into_iter().map(G::release)).await;
    let mut errors: Vec<_> = released.into_iter().filter_map(Result::err).collect();
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => Err(ReleaseError::Several { errors }),
    }
}
