//! The guard of a reader, and its upgrade.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::RwLock;
use super::UpgradeError;
use super::WriteGuard;
use crate::error::AcquireError;
use crate::error::LockLoss;
use crate::error::ReleaseError;
use crate::guard::Guard;
use crate::queue::QueueProgress;
use crate::queue::UpgradeOutcome;

/// A read/write lock held for reading: other readers may hold it too, but no writer.
///
/// It dereferences to [`Guard`].
/// The [fencing token](Guard::fencing_token) of a reader is higher than that of every writer ahead of it and lower than
/// that of every writer behind it. A downgraded writer keeps its token.
///
/// # Dropping
///
/// The same as for a [`Guard`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadGuard {
    lock: RwLock,
    guard: Guard,
}

impl ReadGuard {
    pub(super) fn new(lock: &RwLock, guard: Guard) -> Self {
        Self {
            lock: lock.clone(),
            guard,
        }
    }

    /// Releases the lock and waits until the ensemble has deleted its node.
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
    /// One round trip. The last reader before a writer wakes that writer.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }

    /// Upgrades to a writer, once all other readers have released. No other writer gets the lock in between.
    ///
    /// The reader joins the end of the queue as a writer and keeps reading meanwhile.
    /// If another writer is already in the queue, possibly another reader that upgrades, the call fails at once: that
    /// writer waits for this reader, so waiting for it would deadlock. Of several readers that upgrade, at most one
    /// succeeds, and the others must release.
    ///
    /// It waits for all other readers, including those of this process.
    ///
    /// # Errors
    ///
    /// - [`UpgradeError::Contended`] if a writer waits already. The error has the guard, which is still held.
    /// - [`UpgradeError::Failed`] for the errors of [`acquire_write`](RwLock::acquire_write). The error has the guard,
    ///   which is still held.
    /// - [`UpgradeError::Lost`] if the lock is lost, also while waiting, for example with the session.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but it drops the guard, which releases the lock in the background.
    /// Use [`upgrade_timeout`](Self::upgrade_timeout) to give up and keep the guard.
    ///
    /// # Cost
    ///
    /// Two round trips if there is no other reader: one to join the queue, and one to delete the reader's node.
    pub async fn upgrade(self) -> Result<WriteGuard, UpgradeError> {
        let upgraded = match self.guard.loss() {
            None => self.become_writer(&QueueProgress::default()).await,
            Some(loss) => return Err(self.lost(loss)),
        };
        self.upgraded(upgraded).await
    }

    /// Upgrades to a writer, if all other readers release within `limit`.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::TimedOut`], which has the guard and says who was ahead; and the errors of
    /// [`upgrade`](Self::upgrade).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but it drops the guard, which releases the lock in the background.
    ///
    /// # Cost
    ///
    /// That of [`upgrade`](Self::upgrade), and one write on a timeout.
    pub async fn upgrade_timeout(self, limit: Duration) -> Result<WriteGuard, UpgradeError> {
        if let Some(loss) = self.guard.loss() {
            return Err(self.lost(loss));
        }
        let progress = QueueProgress::default();
        let writing = self.become_writer(&progress);
        let upgraded = self.lock.writers.within(limit, writing, &progress).await;
        self.upgraded(upgraded).await
    }

    async fn become_writer(
        &self,
        progress: &QueueProgress,
    ) -> Result<UpgradeOutcome, AcquireError> {
        let reader = self.guard.path().name().unwrap_or_default();
        self.lock.writers.upgrade(reader, progress).await
    }

    async fn upgraded(
        self,
        upgraded: Result<UpgradeOutcome, AcquireError>,
    ) -> Result<WriteGuard, UpgradeError> {
        let granted = match upgraded {
            Ok(UpgradeOutcome::Granted(granted)) => granted,
            Ok(UpgradeOutcome::Contended(writer)) => {
                let guard = Box::new(self);
                return Err(UpgradeError::Contended { guard, writer });
            }
            Err(AcquireError::TimedOut(timed_out)) => {
                let guard = Box::new(self);
                return Err(UpgradeError::TimedOut { guard, timed_out });
            }
            Err(AcquireError::SessionLost { .. }) => return Err(self.lost(LockLoss::SessionLost)),
            Err(source) => {
                let guard = Box::new(self);
                return Err(UpgradeError::Failed { guard, source });
            }
        };
        let writer = Guard::granted(self.lock.session(), granted);
        match self.guard.release().await {
            // The reader's node was deleted, possibly before the writer's was created: another writer may have had the
            // lock.
            Err(ReleaseError::Lost { path, loss }) => Err(UpgradeError::Lost { path, loss }),
            Err(error) => {
                // The reader's node does not affect others while we write.
                tracing::debug!(%error, "the reader's node of an upgraded guard is deleted in the background");
                Ok(WriteGuard::new(&self.lock, writer))
            }
            Ok(()) => Ok(WriteGuard::new(&self.lock, writer)),
        }
    }

    fn lost(&self, loss: LockLoss) -> UpgradeError {
        let path = self.guard.path().clone();
        UpgradeError::Lost { path, loss }
    }
}

impl Deref for ReadGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.guard).finish()
    }
}
