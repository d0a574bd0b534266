//! Changes the guard of a reader into that of a writer, and back.

use std::time::Duration;

use super::{DowngradeError, ReadGuard, UpgradeError, WriteGuard};
use crate::error::{AcquireError, LockLoss, ReleaseError};
use crate::guard::Granted;
use crate::labels::{LockKind, WaitOutcome};
use crate::measure::Wait;
use crate::progress::AcquireProgress;
use crate::queue::UpgradeOutcome;

impl ReadGuard {
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
    /// - [`UpgradeError::Failed`] for the errors of [`acquire`](super::WriteLock::acquire). The error has the
    ///   guard, which is still held.
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
        self.upgrade_within(None).await
    }

    /// Upgrades to a writer, if all other readers release within `limit`.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::TimedOut`], which has the guard and says who was ahead; and the errors of
    /// [`upgrade`](Self::upgrade). A dropped future also drops the guard.
    ///
    /// # Cost
    ///
    /// That of [`upgrade`](Self::upgrade), and one write on a timeout.
    pub async fn upgrade_timeout(self, limit: Duration) -> Result<WriteGuard, UpgradeError> {
        self.upgrade_within(Some(limit)).await
    }

    async fn upgrade_within(self, limit: Option<Duration>) -> Result<WriteGuard, UpgradeError> {
        let wait = Wait::start(LockKind::Write);
        let upgraded = Box::pin(self.upgrade_unmeasured(limit)).await;
        wait.ended_as(match &upgraded {
            Ok(_) => WaitOutcome::Acquired,
            Err(UpgradeError::Contended { .. }) => WaitOutcome::Taken,
            Err(UpgradeError::TimedOut { .. }) => WaitOutcome::GivenUp,
            Err(UpgradeError::Failed { .. } | UpgradeError::Lost { .. }) => WaitOutcome::Failed,
        });
        upgraded
    }

    async fn upgrade_unmeasured(self, limit: Option<Duration>) -> Result<WriteGuard, UpgradeError> {
        if let Some(loss) = self.guard.final_loss() {
            return Err(self.loss_error(loss));
        }
        let writers = &self.queues.writers;
        let progress = AcquireProgress::new(&writers.path);
        let writing = writers.upgrade(self.guard.path().name().unwrap_or_default(), &progress);
        let upgraded = match limit {
            Some(limit) => progress.within(limit, writing).await,
            None => writing.await,
        };
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
            Err(AcquireError::SessionLost { .. }) => {
                return Err(self.loss_error(LockLoss::SessionLost));
            }
            Err(source) => {
                let guard = Box::new(self);
                return Err(UpgradeError::Failed { guard, source });
            }
        };
        let writer = self.queues.writers.guard(granted);
        match self.guard.release().await {
            // The reader's node was deleted, possibly before the writer's was created: another writer may have had the
            // lock.
            Err(ReleaseError::Lost { path, loss }) => Err(UpgradeError::Lost { path, loss }),
            Err(error) => {
                // The reader's node does not affect others while we write.
                tracing::debug!(%error, "the reader's node of an upgraded guard is deleted in the background");
                Ok(WriteGuard::new(&self.queues, writer))
            }
            Ok(()) => Ok(WriteGuard::new(&self.queues, writer)),
        }
    }

    fn loss_error(&self, loss: LockLoss) -> UpgradeError {
        let path = self.guard.path().clone();
        UpgradeError::Lost { path, loss }
    }
}

impl WriteGuard {
    /// Downgrades to a reader. No other writer gets the lock in between.
    ///
    /// It creates a node for the reader with the number of the writer's node, and then deletes the writer's node.
    /// All contenders behind wait for both nodes. Curator has done the same since 5.5.0 (CURATOR-621).
    ///
    /// The guard keeps the writer's token: the waiters already have higher tokens, and a new token would be higher than
    /// theirs.
    /// Futures of [`lost`](crate::HeldLock::lost) of the writer resolve with [`LockLoss::Released`].
    ///
    /// # Errors
    ///
    /// - [`DowngradeError::Failed`] if the reader's node could not be created. The error has the guard.
    /// - [`DowngradeError::Refused`] if the session may create the lock's nodes but not delete them.
    /// - [`DowngradeError::Lost`] if the lock is lost, for example with the session.
    ///
    /// A deletion of the writer's node that is not confirmed in time is no error. It continues in the background, and
    /// other readers get the lock once it is done.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but it drops the guard, which releases the lock in the background.
    ///
    /// # Cost
    ///
    /// Two round trips. It wakes the readers up to the next writer.
    pub async fn downgrade(self) -> Result<ReadGuard, DowngradeError> {
        let path = self.guard.path().clone();
        if let Some(loss) = self.guard.final_loss() {
            return Err(DowngradeError::Lost { path, loss });
        }
        let readers = &self.queues.readers;
        let node = match readers
            .create_with_number_of(path.name().unwrap_or_default())
            .await
        {
            Ok(node) => node,
            Err(AcquireError::SessionLost { .. }) => {
                let loss = LockLoss::SessionLost;
                return Err(DowngradeError::Lost { path, loss });
            }
            Err(source) => {
                let guard = Box::new(self);
                return Err(DowngradeError::Failed { guard, source });
            }
        };
        let mut granted = Granted::new(node, readers.session.keep_lease());
        granted.token = self.guard.fencing_token();
        let reader = readers.guard(granted);
        // If the writer's node existed until now, no other contender had the lock when the reader's node was created.
        match self.guard.release().await {
            Err(ReleaseError::Lost { path, loss }) => Err(DowngradeError::Lost { path, loss }),
            Err(ReleaseError::Refused { source, .. }) => {
                let guard = Box::new(ReadGuard::new(&self.queues, reader));
                Err(DowngradeError::Refused { guard, source })
            }
            Err(error) => {
                tracing::debug!(%error, "the writer's node of a downgraded guard is deleted in the background");
                Ok(ReadGuard::new(&self.queues, reader))
            }
            Ok(()) => Ok(ReadGuard::new(&self.queues, reader)),
        }
    }
}
