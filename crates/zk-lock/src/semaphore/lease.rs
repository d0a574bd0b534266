//! Leases that are held.

use std::time::Instant;

use zk_core::NodePath;
use zk_core::Transaction;

use crate::error::Loss;
use crate::guard::FencingToken;
use crate::guard::Guard;
use crate::guard_set::Guards;
use crate::guard_set::ReleaseErrors;

/// One or more leases of a semaphore, held together.
///
/// It is to leases what a [`Guard`] is to a lock, and like it a value that may be moved anywhere: it does not stop time,
/// tells when it is [lost](Self::lost), and knows whether it [is trusted](Self::is_trusted).
///
/// # Dropping
///
/// At once, [`lost`](Self::lost) resolves for whoever holds such a future.
/// The nodes are deleted in the background, over connection losses if need be, until they or the session are gone.
/// If the process dies, the ensemble deletes them when it expires the session.
#[derive(Debug)]
#[must_use = "the leases are given back when this is dropped"]
pub struct Lease {
    guards: Guards,
}

impl Lease {
    /// Makes one of the nodes of one acquire.
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        Self {
            guards: Guards::new(guards),
        }
    }

    /// Returns how many leases these are.
    pub fn count(&self) -> usize {
        self.guards.as_slice().len()
    }

    /// Returns the paths of the nodes, one for each lease.
    pub fn paths(&self) -> impl Iterator<Item = &NodePath> {
        self.guards.as_slice().iter().map(Guard::path)
    }

    /// Returns a number that no other lease has: the highest `czxid` of its nodes.
    ///
    /// It is higher for who was granted leases later.
    /// Where several may hold leases at a time, it cannot fence: who has the lower number may hold its leases rightly.
    /// [`txn`](Self::txn) fences writes to ZooKeeper.
    pub fn token(&self) -> FencingToken {
        let tokens = self.guards.as_slice().iter().map(Guard::fencing_token);
        tokens.max().unwrap_or(FencingToken::new(0))
    }

    /// Splits `count` leases off, to give them back earlier or elsewhere; `None` unless at least one remains in each.
    pub fn split(&mut self, count: usize) -> Option<Self> {
        let guards = self.guards.split_off(count)?;
        Some(Self { guards })
    }

    /// Returns a future that resolves when one of the leases is lost, or no longer known to be held.
    ///
    /// As [`Guard::lost`]: it owns what it needs and may outlive the lease, whose release resolves it, too.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.guards.lost()
    }

    /// Tells whether all leases are certainly held, as far as this client has proof. Asks nobody.
    ///
    /// See [`Guard::is_trusted`].
    pub fn is_trusted(&self) -> bool {
        self.guards.is_trusted()
    }

    /// Returns the instant until which the leases are certainly held, see [`Guard::trusted_until`].
    pub fn trusted_until(&self) -> Option<Instant> {
        self.guards.trusted_until()
    }

    /// Starts a transaction that is refused unless the leases are held at the moment the ensemble carries it out.
    ///
    /// Its first parts check the nodes of the leases, see [`Guard::txn`].
    pub fn txn(&self) -> Transaction {
        let session = &self.guards.as_slice()[0].held().session;
        self.guards.checked(session.transaction())
    }

    /// Gives the leases back and waits until the ensemble has carried that out.
    ///
    /// # Errors
    ///
    /// For each lease what [`Guard::release`] answers.
    ///
    /// # Cancel safety
    ///
    /// Safe, the release continues in the background.
    ///
    /// # Session loss
    ///
    /// [`ReleaseError::Lost`](crate::ReleaseError::Lost), since the leases went with the session.
    ///
    /// # Cost
    ///
    /// One round trip; it wakes one waiter.
    pub async fn release(self) -> Result<(), ReleaseErrors> {
        self.guards.release().await
    }
}
