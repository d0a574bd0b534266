//! The guard of a held lock.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Session;
use zk_core::SessionLease;
use zk_core::Transaction;
use zk_core::Watch;

use crate::error::LockLoss;
use crate::error::ReleaseError;
use crate::fencing_token::FencingToken;
use crate::held::Held;
use crate::node_monitor::NodeMonitor;
use crate::queue::Granted;

/// A held lock.
///
/// The owner of the guard holds the lock. A guard may be moved to other tasks and threads.
///
/// A guard does not stop time.
/// If its process is paused or cut off for longer than the session timeout, the ensemble grants the lock to the next
/// contender, possibly while code under the guard is still running.
/// Three things help, from the weakest to the strongest:
///
/// - [`lost`](Self::lost) notifies of the loss, so that work can be stopped;
/// - [`is_valid`](Self::is_valid) is checked right before an action that needs the lock;
/// - with [`fencing_token`](Self::fencing_token) the resource itself refuses late writers, and [`txn`](Self::txn) does
///   so for writes to ZooKeeper. Only these two are safe in every case.
///
/// # Dropping
///
/// Futures of [`lost`](Self::lost) resolve at once.
/// If there is a connection, the request to delete the node leaves at once, before any later request of this session: a
/// `try_acquire` right after the drop finds the lock free.
/// The deletion is repeated in the background until the node or the session is gone.
/// [`Session::settled`] and [`Session::close`] wait for it; [`release`](Self::release) also returns its result.
/// If the process dies, the ensemble deletes the node when it expires the session.
#[must_use = "the lock is released when the guard is dropped"]
pub struct Guard {
    /// `None` once the release has begun.
    node: Option<OwnedNode>,
    held: Arc<Held>,
    _monitor: NodeMonitor,
}

impl Guard {
    /// Creates the guard of a contender that was granted the lock.
    pub(crate) fn granted(session: &Session, granted: Granted) -> Self {
        let Granted {
            node,
            session_lease,
            watch,
        } = granted;
        let token = FencingToken::of(node.stat());
        let guard = Self::with_watch(session.clone(), node, session_lease, token, watch);
        tracing::debug!(path = %guard.path(), token = %guard.fencing_token(), "lock acquired");
        guard
    }

    /// Creates the guard of a node that holds the lock.
    pub(crate) fn new(session: Session, node: OwnedNode, session_lease: SessionLease) -> Self {
        let token = FencingToken::of(node.stat());
        Self::with_watch(session, node, session_lease, token, None)
    }

    /// Creates the guard of a node that continues the holding of another node, with its token.
    pub(crate) fn with_token(
        session: Session,
        node: OwnedNode,
        session_lease: SessionLease,
        token: FencingToken,
    ) -> Self {
        Self::with_watch(session, node, session_lease, token, None)
    }

    /// Creates the guard of a node that holds the lock; `watch` may already watch the node.
    fn with_watch(
        session: Session,
        node: OwnedNode,
        session_lease: SessionLease,
        token: FencingToken,
        watch: Option<Watch>,
    ) -> Self {
        let held = Arc::new(Held::new(session, &node, session_lease, token));
        Self {
            _monitor: NodeMonitor::spawn(&held, watch),
            node: Some(node),
            held,
        }
    }

    /// Returns a number that is higher for every later holder of the lock.
    ///
    /// Pass it along with every write under the lock. A resource that remembers the highest token it has seen and
    /// refuses lower ones is safe from late writes of earlier holders.
    ///
    /// The token is the `czxid` of the lock's node, a 64-bit number that grows with every write to the ensemble.
    /// (The number in the node's name is not a token: it restarts when an idle parent is removed.)
    pub fn fencing_token(&self) -> FencingToken {
        self.held.token
    }

    /// Returns the path of the lock's node.
    pub fn path(&self) -> &NodePath {
        &self.held.path
    }

    /// Returns a future that resolves when the lock is lost, or no longer known to be held.
    ///
    /// The future does not borrow the guard: it may be moved to another task and outlive the guard, whose release
    /// resolves it as well.
    /// After [`LockLoss::SessionLeaseExpired`] the lock may still turn out to be held, see
    /// [`is_valid`](Self::is_valid); the other losses are final.
    ///
    /// A deletion of the node by another client is noticed about a round trip after it happens. Monitoring starts about
    /// ten milliseconds after the acquire; an earlier deletion is noticed then.
    ///
    /// Each poll checks the clock. Polled first, as in a `biased` `select!`, the future resolves before other code
    /// resumes after the process was stopped.
    /// It is cancel safe.
    pub fn lost(&self) -> impl Future<Output = LockLoss> + Send + use<> {
        let held = Arc::clone(&self.held);
        async move { held.lost().await }
    }

    /// Returns whether the lock is certainly held, as far as this client can prove. Does not send a request.
    ///
    /// The lock is certainly held while the ensemble cannot have expired the session (see [`SessionLease`] for the
    /// assumptions) and no deletion of the node was noticed.
    /// The result may be false for a while when the connection is broken, and true again if the session has survived;
    /// then the lock was held all the time.
    ///
    /// The result holds for the moment of the call. The process may be paused before its next instruction; only
    /// [`fencing_token`](Self::fencing_token) and [`txn`](Self::txn) protect against that.
    pub fn is_valid(&self) -> bool {
        !self.held.is_over() && self.held.session_lease.is_valid()
    }

    /// Returns the instant until which the lock is certainly held, unless its node is deleted.
    ///
    /// `None` if the lock is lost. The instant advances while the session is connected.
    pub fn valid_until(&self) -> Option<Instant> {
        if self.held.is_over() {
            return None;
        }
        self.held.session_lease.valid_until()
    }

    /// Starts a transaction that fails unless the lock is held when the ensemble executes it.
    ///
    /// Its first part checks the lock's node.
    /// If the lock is lost, the transaction changes nothing. Its error is [`NoNode`](zk_core::ErrorKind::NoNode) with a
    /// [`failed_part`](zk_core::Error::failed_part) of zero, or a fatal error.
    pub fn txn(&self) -> Transaction {
        self.held.session.transaction().check(&self.held.path)
    }

    /// Returns what is known about the lock.
    pub(crate) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    /// Returns the reason of a final loss; `None` while the lock may be held.
    pub(crate) fn loss(&self) -> Option<LockLoss> {
        self.held.loss()
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
    /// # Cancel safety
    ///
    /// Cancel safe. The release continues in the background.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        let path = self.held.path.clone();
        let Some(node) = self.node.take() else {
            return Ok(());
        };
        if let Some(loss) = self.held.end(LockLoss::Released) {
            return Err(ReleaseError::Lost { path, loss });
        }
        // `OwnedNode::delete` treats a missing node as success; here it is a loss.
        let mut delete = self.held.session.delete(&path);
        if !node.is_unique() {
            delete = delete.created_by(node.stat().czxid);
        }
        let deleted = delete.await;
        // The node monitor is dropped after the reply, so that its watch fires instead of being removed by a request.
        match deleted {
            Ok(()) => {
                node.keep();
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
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Dropping the node deletes it.
        self.held.end(LockLoss::Released);
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("path", &self.held.path)
            .field("fencing_token", &self.held.token)
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}
