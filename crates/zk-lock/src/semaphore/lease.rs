//! Held leases.

use std::ops::Deref;

use zk_core::Transaction;

use crate::error::ReleaseError;
use crate::fencing_token::FencingToken;
use crate::guard::{Guard, impl_lock_guard, release_all};
use crate::held::HeldLock;

/// One or more leases of a [`Semaphore`](crate::Semaphore), held together.
///
/// Like a [`Guard`], it may be moved to other tasks and threads. It dereferences to [`HeldLock`], and is lost with the
/// first of its leases.
///
/// # Dropping
///
/// Futures of [`lost`](HeldLock::lost) resolve at once.
/// The nodes are deleted in the background, also over connection losses, until they or the session are gone.
/// If the process dies, the ensemble deletes them when it expires the session.
#[derive(Debug)]
#[must_use = "the leases are released when this is dropped"]
pub struct SemaphoreLease {
    /// At least one.
    guards: Vec<Guard>,
    held: HeldLock,
}

impl_lock_guard!(SemaphoreLease, FencingToken, token);

impl SemaphoreLease {
    /// Creates a value for the nodes of one acquire; at least one.
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        Self {
            held: HeldLock::of_guards(&guards),
            guards,
        }
    }

    /// Returns the number of leases.
    pub fn count(&self) -> usize {
        self.guards.len()
    }

    /// Returns a number that no other lease has: the highest `czxid` of the nodes.
    ///
    /// Leases that are granted later have higher tokens.
    /// A lower token does not mean that the leases are no longer held, so the token does not fence if the limit is
    /// above one. [`txn`](Self::txn) fences writes to ZooKeeper.
    pub fn token(&self) -> FencingToken {
        let tokens = self.guards.iter().map(Guard::fencing_token);
        tokens.max().unwrap_or(FencingToken::new(0))
    }

    /// Splits off `count` leases, to release them separately; `None` unless at least one remains in each part.
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let stay = self.count().checked_sub(count)?;
        if stay == 0 || count == 0 {
            return None;
        }
        let split = Self::new(self.guards.split_off(stay));
        let hold = self.held.take_hold_start();
        self.held = HeldLock::of_guards(&self.guards);
        if let Some(hold) = hold {
            self.held.measure(hold);
            split.held.measure(hold);
        }
        Some(split)
    }

    /// Starts a transaction that fails unless the leases are held when the ensemble executes it.
    ///
    /// Its first parts check the nodes of the leases, see [`Guard::txn`].
    pub fn txn(&self) -> Transaction {
        self.with_checks(self.nodes()[0].session.transaction())
    }

    /// Releases the leases and waits until the ensemble has deleted their nodes.
    ///
    /// # Errors
    ///
    /// The errors of [`Guard::release`]; [`ReleaseError::Several`] if several leases have one. All are released
    /// regardless.
    ///
    /// # Cost
    ///
    /// One round trip; it wakes one waiter.
    pub async fn release(self) -> Result<(), ReleaseError> {
        release_all(self.guards).await
    }
}

impl Deref for SemaphoreLease {
    type Target = HeldLock;

    fn deref(&self) -> &HeldLock {
        &self.held
    }
}
