//! The guard of a task of a cohort.

use std::fmt;
use std::pin::pin;
use std::time::Instant;

use tokio::sync::watch;
use zk_core::NodePath;
use zk_core::Transaction;

use super::local_waiters::LocalHold;
use crate::error::LockLoss;
use crate::error::ReleaseError;
use crate::fencing_token::FencingToken;
use crate::guard::Guard;

/// A [`CohortLock`](crate::CohortLock) held by one task.
///
/// The documentation of [`Guard`] applies.
/// The node in the queue belongs to the whole cohort: a task to which the lock is handed over takes over the node and
/// its [`place_token`](Self::place_token). The fencing token, [`token`](Self::token), is new for each holder.
///
/// # Dropping
///
/// Releases the lock, also when a panic drops it: to the next task that waits in this process, or back to the ensemble
/// in the background. Futures of [`lost`](Self::lost) resolve at once.
#[must_use = "the lock is released when the guard is dropped"]
pub struct CohortGuard {
    hold: LocalHold,
    /// Set to true when the lock is handed over or released.
    ended: watch::Sender<bool>,
}

impl CohortGuard {
    pub(super) fn new(hold: LocalHold) -> Self {
        Self {
            hold,
            ended: watch::Sender::new(false),
        }
    }

    fn guard(&self) -> &Guard {
        self.hold.guard()
    }

    /// Returns a number that is higher for every later place in the queue: that of the node, see
    /// [`Guard::fencing_token`].
    ///
    /// It is not a fencing token: all tasks that share a place in the queue have the same one. It distinguishes this
    /// cohort from other contenders; [`token`](Self::token) distinguishes all holders.
    pub fn place_token(&self) -> FencingToken {
        self.guard().fencing_token()
    }

    /// Returns the fencing token: a pair that is higher for every later holder of the lock, in this process and others.
    pub fn token(&self) -> CohortToken {
        CohortToken {
            place: self.place_token(),
            turn: self.hold.turn(),
        }
    }

    /// Returns the path of the lock's node.
    pub fn path(&self) -> &NodePath {
        self.guard().path()
    }

    /// Returns a future that resolves when the lock is lost, no longer known to be held, or released; see
    /// [`Guard::lost`].
    pub fn lost(&self) -> impl Future<Output = LockLoss> + Send + use<> {
        let mut ended = self.ended.subscribe();
        let lost = self.guard().lost();
        async move {
            let lost = pin!(lost);
            tokio::select! {
                biased;
                // The sender is dropped with the guard.
                _ = ended.wait_for(|ended| *ended) => LockLoss::Released,
                loss = lost => loss,
            }
        }
    }

    /// Returns whether the lock is certainly held, as far as this client can prove; see [`Guard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.guard().is_valid()
    }

    /// Returns the instant until which the lock is certainly held; see [`Guard::valid_until`].
    pub fn valid_until(&self) -> Option<Instant> {
        self.guard().valid_until()
    }

    /// Starts a transaction that fails unless the cohort holds the lock when the ensemble executes it; see
    /// [`Guard::txn`].
    ///
    /// The ensemble does not know which task of the cohort holds the lock: commit before you release.
    pub fn txn(&self) -> Transaction {
        self.guard().txn()
    }

    /// Releases the lock: hands it over to the next task that waits in this process, or releases it to the ensemble and
    /// waits until its node is deleted.
    ///
    /// # Errors
    ///
    /// The errors of [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The release continues in the background.
    ///
    /// # Cost
    ///
    /// Nothing for a handover, otherwise one round trip.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        self.ended.send_replace(true);
        match self.hold.hand_over() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Drop for CohortGuard {
    fn drop(&mut self) {
        // Before the lock is handed over, which dropping the hold does.
        self.ended.send_replace(true);
    }
}

impl fmt::Debug for CohortGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CohortGuard")
            .field("guard", self.guard())
            .field("turn", &self.hold.turn())
            .finish_non_exhaustive()
    }
}

/// The fencing token of a [`CohortLock`](crate::CohortLock): a pair that grows with each grant, also with a handover
/// between tasks of one process.
///
/// The token of the place in the queue comes first, so that the pairs of all processes have one order.
/// A resource that stores a single number and is used by a cohort must encode both parts in it, or each task must be
/// certain that none of its writes is in flight when it releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CohortToken {
    place: FencingToken,
    turn: u64,
}

impl CohortToken {
    /// Creates a token from its parts, such as a resource has stored.
    pub const fn new(place: FencingToken, turn: u64) -> Self {
        Self { place, turn }
    }

    /// Returns the first part, which all tasks that share a place in the queue have in common.
    pub const fn place_token(&self) -> FencingToken {
        self.place
    }

    /// Returns the second part: how many tasks got the lock by this place before.
    pub const fn turn(&self) -> u64 {
        self.turn
    }
}

impl fmt::Display for CohortToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.place, self.turn)
    }
}
