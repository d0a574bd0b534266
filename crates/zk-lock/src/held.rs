//! What every guard reports about its lock, whatever the kind: whether and why it is lost.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use futures_util::future;
use tokio::sync::watch;
use zk_core::{NodePath, Transaction};

use crate::error::{AcquireError, LockLoss};
use crate::fencing_token::FencingToken;
use crate::held_node::HeldNode;
use crate::labels::LockKind;
use crate::measure::HoldStart;
use crate::retry::prove_alive;

/// A held lock of any kind: whether it is valid, and why it is lost. Each guard and lease dereferences to this.
///
/// A lock may be held through several nodes, as several leases are. It is lost with the first of them.
///
/// A guard does not stop time.
/// If its process is paused or cut off for longer than the session timeout, the ensemble grants the lock to the next
/// contender, possibly while code under the guard is still running.
/// Three things help, from the weakest to the strongest:
///
/// - [`lost`](Self::lost) notifies of the loss, so that work can be stopped;
/// - [`is_valid`](Self::is_valid) is checked right before an action that needs the lock;
/// - with [`fencing_token`](crate::Guard::fencing_token) the resource itself refuses late writers, and
///   [`txn`](crate::Guard::txn) does so for writes to ZooKeeper. Only these two are safe in every case. Guards have
///   them if their kind of lock can offer them.
pub struct HeldLock {
    /// At least one.
    nodes: Vec<Arc<HeldNode>>,
    /// For a lock that may be handed over in memory: closed before it is.
    ///
    /// [`loss`](Self::loss) and [`is_valid`](Self::is_valid) do not need it. A turn ends only with its guard, so no
    /// caller can ask afterwards.
    turn: Option<watch::Sender<()>>,
    /// `None` if several may hold the lock, or if it takes more than one number to distinguish its holders.
    fencing_token: Option<FencingToken>,
    /// When the holding began; empty if it is not measured.
    hold: OnceLock<HoldStart>,
}

impl HeldLock {
    /// Describes a lock that is held through one node.
    pub(crate) fn new(node: HeldNode) -> Self {
        Self {
            fencing_token: Some(node.token),
            nodes: vec![Arc::new(node)],
            turn: None,
            hold: OnceLock::new(),
        }
    }

    /// Describes several locks that are held together; at least one. They end together when the returned value is
    /// dropped, also those that are then handed over in memory.
    pub(crate) fn of_guards<G: Deref<Target = Self>>(guards: &[G]) -> Self {
        let nodes = guards.iter().flat_map(|guard| guard.nodes.iter().cloned());
        Self {
            nodes: nodes.collect(),
            turn: Some(watch::Sender::new(())),
            fencing_token: None,
            hold: OnceLock::new(),
        }
    }

    /// Describes the same lock for one of several holders in turn: for this one, it ends when the
    /// returned value is dropped.
    pub(crate) fn for_one_turn(&self) -> Self {
        Self {
            nodes: self.nodes.clone(),
            turn: Some(watch::Sender::new(())),
            fencing_token: None,
            hold: OnceLock::new(),
        }
    }

    /// Measures the holding from this start until the value is dropped, unless it is measured already.
    pub(crate) fn measure(&self, start: HoldStart) {
        self.hold.get_or_init(|| start);
    }

    /// Returns as what kind of lock the holding is measured, if it is.
    pub(crate) fn measured_kind(&self) -> Option<LockKind> {
        self.hold.get().map(HoldStart::kind)
    }

    /// Stops measuring, without a record; returns the start if it was measured.
    pub(crate) fn take_hold_start(&mut self) -> Option<HoldStart> {
        self.hold.take()
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
        let (nodes, turn_ended) = (self.nodes.clone(), self.turn_ended());
        async move {
            let losses = nodes.iter().map(|node| Box::pin(node.lost()));
            tokio::select! {
                biased;
                () = turn_ended => LockLoss::Released,
                (loss, ..) = future::select_all(losses) => loss,
            }
        }
    }

    /// Returns why the lock is lost or no longer known to be held; `None` while it [is valid](Self::is_valid).
    ///
    /// Does not send a request.
    pub fn loss(&self) -> Option<LockLoss> {
        self.nodes.iter().find_map(|node| node.loss())
    }

    /// Returns whether the lock is certainly held, as far as this client can prove. Does not send a request.
    ///
    /// The lock is certainly held while the ensemble cannot have expired the session (see
    /// [`SessionLease`](zk_core::SessionLease) for the assumptions) and no deletion of the node was noticed.
    /// The result may be false for a while when the connection is broken, and true again if the session has survived;
    /// then the lock was held all the time.
    ///
    /// The result holds for the moment of the call. The process may be paused before its next instruction.
    pub fn is_valid(&self) -> bool {
        self.nodes.iter().all(|node| node.is_valid())
    }

    /// Returns the instant until which the lock is certainly held, unless its node is deleted.
    ///
    /// `None` if the lock is lost. The instant advances while the session is connected.
    pub fn valid_until(&self) -> Option<Instant> {
        let instants = self.nodes.iter().map(|node| node.valid_until());
        instants.collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    /// Returns the paths of the nodes that the lock is held through: one for each lease or lock.
    pub fn paths(&self) -> impl Iterator<Item = &NodePath> {
        self.nodes.iter().map(|node| &node.path)
    }

    /// Returns the fencing token, if the kind of the lock has one that is a single number.
    pub(crate) fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
    }

    /// Returns the nodes of the lock.
    pub(crate) fn nodes(&self) -> &[Arc<HeldNode>] {
        &self.nodes
    }

    /// Returns the reason of a final loss; `None` while the lock may be held.
    pub(crate) fn final_loss(&self) -> Option<LockLoss> {
        self.nodes.iter().find_map(|node| node.final_loss())
    }

    /// Adds a check of each node.
    pub(crate) fn with_checks(&self, transaction: Transaction) -> Transaction {
        self.paths().fold(transaction, Transaction::check)
    }

    /// Waits until the lock is handed over in memory; pending forever if it never is.
    pub(crate) fn turn_ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let turn = self.turn.as_ref().map(watch::Sender::subscribe);
        async move {
            match turn {
                // Nothing is sent: this is an error, once the sender is dropped.
                Some(mut turn) => drop(turn.changed().await),
                None => future::pending().await,
            }
        }
    }

    /// Waits for a final loss of one of the nodes, and returns which.
    pub(crate) async fn lost_for_good(&self) -> LostNode {
        let losses = self
            .nodes
            .iter()
            .map(|node| Box::pin(async move { LostNode::of(node, node.lost_for_good().await) }));
        future::select_all(losses).await.0
    }

    /// Waits until the lock is valid; fails if one of its nodes is lost for good.
    pub(crate) async fn prove_all_alive(&self) -> Result<(), AcquireError> {
        while let Some(node) = self.nodes.iter().find(|node| !node.is_valid()) {
            if node.has_ended() {
                return Err(LostNode::of(node, node.lost_for_good().await).into());
            }
            let proved = tokio::select! {
                biased;
                loss = node.lost_for_good() => return Err(LostNode::of(node, loss).into()),
                proved = prove_alive(&node.session, &node.session_lease) => proved,
            };
            match proved {
                Err(AcquireError::SessionLost { .. }) => {
                    return Err(LostNode::of(node, LockLoss::SessionLost).into());
                }
                proved => proved?,
            }
        }
        Ok(())
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            let is_lost = self
                .final_loss()
                .is_some_and(|loss| loss != LockLoss::Released);
            hold.ended(is_lost);
        }
    }
}

impl fmt::Debug for HeldLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.paths().collect();
        f.debug_struct("HeldLock")
            .field("nodes", &paths)
            .field("loss", &self.loss())
            .finish_non_exhaustive()
    }
}

/// The node that was lost, of several that hold a lock.
#[derive(Debug, Clone)]
pub(crate) struct LostNode {
    pub(crate) path: NodePath,
    pub(crate) loss: LockLoss,
}

impl LostNode {
    fn of(node: &HeldNode, loss: LockLoss) -> Self {
        Self {
            path: node.path.clone(),
            loss,
        }
    }
}

impl From<LostNode> for AcquireError {
    fn from(LostNode { path, loss }: LostNode) -> Self {
        Self::Lost { path, loss }
    }
}
