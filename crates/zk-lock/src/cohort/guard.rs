//! The guard of a task of a cohort.

use std::fmt;
use std::ops::Deref;

use zk_core::{NodePath, Transaction};

use super::local_waiters::LocalHold;
use crate::error::ReleaseError;
use crate::fencing_token::FencingToken;
use crate::guard::{Guard, impl_lock_guard};
use crate::held::HeldLock;

/// A [`CohortLock`](crate::CohortLock) held by one task.
///
/// It dereferences to [`HeldLock`], which is over for this task when it releases or hands over the lock.
/// The node in the queue belongs to the whole cohort: a task to which the lock is handed over takes over the node and
/// its [`place_token`](CohortToken::place_token). The [fencing token](Self::fencing_token) is new for each holder.
///
/// # Dropping
///
/// Releases the lock, also when a panic drops it: to the next task that waits in this process, or back to the ensemble
/// in the background. Futures of [`lost`](HeldLock::lost) resolve at once.
#[must_use = "the lock is released when the guard is dropped"]
pub struct CohortGuard {
    /// Dropped before the lock is handed over, which dropping the hold does.
    held: HeldLock,
    hold: LocalHold,
}

impl_lock_guard!(CohortGuard, CohortToken, fencing_token);

impl CohortGuard {
    pub(super) fn new(hold: LocalHold) -> Self {
        Self {
            held: hold.guard().for_one_turn(),
            hold,
        }
    }

    fn guard(&self) -> &Guard {
        self.hold.guard()
    }

    /// Returns the fencing token: a pair that is higher for every later holder of the lock, in this process and others.
    pub fn fencing_token(&self) -> CohortToken {
        CohortToken {
            place: self.guard().fencing_token(),
            turn: self.hold.turn(),
        }
    }

    /// Returns the path of the lock's node.
    pub fn path(&self) -> &NodePath {
        self.guard().path()
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
    /// # Cost
    ///
    /// Nothing for a handover, otherwise one round trip.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let Self { held, mut hold } = self;
        drop(held);
        match hold.hand_over() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl Deref for CohortGuard {
    type Target = HeldLock;

    fn deref(&self) -> &HeldLock {
        &self.held
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

    /// Returns the first part, the [`Guard::fencing_token`] of the node in the queue.
    ///
    /// It is not a fencing token: all tasks that share a place in the queue have it in common. It distinguishes this
    /// cohort from other contenders.
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
