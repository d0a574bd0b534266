//! Held leases.

use std::time::Instant;

use zk_core::NodePath;
use zk_core::Transaction;

use crate::error::LockLoss;
use crate::fencing_token::FencingToken;
use crate::guard::Guard;
use crate::guard_set::GuardSet;
use crate::guard_set::ReleaseErrors;

/// One or more leases of a [`Semaphore`](crate::Semaphore), held together.
///
/// Like a [`Guard`], it may be moved to other tasks and threads, does not stop time, notifies of a [loss](Self::lost),
/// and knows whether it [is valid](Self::is_valid).
///
/// # Dropping
///
/// Futures of [`lost`](Self::lost) resolve at once.
/// The nodes are deleted in the background, also over connection losses, until they or the session are gone.
/// If the process dies, the ensemble deletes them when it expires the session.
#[derive(Debug)]
#[must_use = "the leases are released when this is dropped"]
pub struct SemaphoreLease {
    guards: GuardSet,
}

impl SemaphoreLease {
    /// Creates a value for the nodes of one acquire.
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        Self {
            guards: GuardSet::new(guards),
        }
    }

    /// Returns the number of leases.
    pub fn count(&self) -> usize {
        self.guards.as_slice().len()
    }

    /// Returns the paths of the nodes, one for each lease.
    pub fn paths(&self) -> impl Iterator<Item = &NodePath> {
        self.guards.as_slice().iter().map(Guard::path)
    }

    /// Returns a number that no other lease has: the highest `czxid` of the nodes.
    ///
    /// Leases that are granted later have higher tokens.
    /// A lower token does not mean that the leases are no longer held, so the token does not fence if the limit is
    /// above one. [`txn`](Self::txn) fences writes to ZooKeeper.
    pub fn token(&self) -> FencingToken {
        let tokens = self.guards.as_slice().iter().map(Guard::fencing_token);
        tokens.max().unwrap_or(FencingToken::new(0))
    }

    /// Splits off `count` leases, to release them separately; `None` unless at least one remains in each part.
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let guards = self.guards.split_off(count)?;
        Some(Self { guards })
    }

    /// Returns a future that resolves when one of the leases is lost, or no longer known to be held.
    ///
    /// Like that of [`Guard::lost`], the future does not borrow the lease and may outlive it; a release resolves it as
    /// well.
    pub fn lost(&self) -> impl Future<Output = LockLoss> + Send + use<> {
        self.guards.lost()
    }

    /// Returns whether all leases are certainly held, as far as this client can prove. Does not send a request.
    ///
    /// See [`Guard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.guards.is_valid()
    }

    /// Returns the instant until which the leases are certainly held, see [`Guard::valid_until`].
    pub fn valid_until(&self) -> Option<Instant> {
        self.guards.valid_until()
    }

    /// Starts a transaction that fails unless the leases are held when the ensemble executes it.
    ///
    /// Its first parts check the nodes of the leases, see [`Guard::txn`].
    pub fn txn(&self) -> Transaction {
        let session = &self.guards.as_slice()[0].held().session;
        self.guards.checked(session.transaction())
    }

    /// Releases the leases and waits until the ensemble has deleted their nodes.
    ///
    /// # Errors
    ///
    /// The errors of [`Guard::release`], for each lease.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The release continues in the background.
    ///
    /// # Cost
    ///
    /// One round trip; it wakes one waiter.
    pub async fn release(self) -> Result<(), ReleaseErrors> {
        self.guards.release().await
    }
}
