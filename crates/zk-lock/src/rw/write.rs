//! The guard of a writer, and its downgrade.

use std::fmt;
use std::ops::Deref;

use super::DowngradeError;
use super::ReadGuard;
use super::RwLock;
use crate::error::AcquireError;
use crate::error::LockLoss;
use crate::error::ReleaseError;
use crate::guard::Guard;

/// A read/write lock held for writing, exclusively.
///
/// It dereferences to [`Guard`].
///
/// # Dropping
///
/// The same as for a [`Guard`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct WriteGuard {
    lock: RwLock,
    guard: Guard,
}

impl WriteGuard {
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
    /// One round trip. It wakes the readers up to the next writer, or that writer if it is next.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }

    /// Downgrades to a reader. No other writer gets the lock in between.
    ///
    /// It creates a node for the reader with the number of the writer's node, and then deletes the writer's node.
    /// All contenders behind wait for both nodes. Curator has done the same since 5.5.0 (CURATOR-621).
    ///
    /// The guard keeps the writer's token: the waiters already have higher tokens, and a new token would be higher than
    /// theirs.
    /// Futures of [`lost`](Guard::lost) of the writer resolve with [`LockLoss::Released`].
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
        if let Some(loss) = self.guard.loss() {
            return Err(DowngradeError::Lost { path, loss });
        }
        let readers = &self.lock.readers;
        let number = readers.sequence_of(path.name().unwrap_or_default());
        let node = match readers.create_numbered(number).await {
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
        let session = readers.session.clone();
        let session_lease = session.keep_lease();
        let reader = Guard::with_token(session, node, session_lease, self.guard.fencing_token());
        // If the writer's node existed until now, no other contender had the lock when the reader's node was created.
        match self.guard.release().await {
            Err(ReleaseError::Lost { path, loss }) => Err(DowngradeError::Lost { path, loss }),
            Err(ReleaseError::Refused { source, .. }) => {
                let guard = Box::new(ReadGuard::new(&self.lock, reader));
                Err(DowngradeError::Refused { guard, source })
            }
            Err(error @ ReleaseError::Pending { .. }) => {
                tracing::debug!(%error, "the writer's node of a downgraded guard is deleted in the background");
                Ok(ReadGuard::new(&self.lock, reader))
            }
            Ok(()) => Ok(ReadGuard::new(&self.lock, reader)),
        }
    }
}

impl Deref for WriteGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&self.guard).finish()
    }
}
