//! A lock that is held for writing.

use std::fmt;
use std::ops::Deref;

use super::DowngradeError;
use super::ReadGuard;
use super::RwLock;
use crate::error::AcquireError;
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::guard::Guard;

/// A lock that is held for writing: by nobody else.
///
/// It is a [`Guard`] and has all that one has, most of it by reference.
///
/// # Dropping
///
/// As with a [`Guard`].
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

    /// Releases the lock and waits until the ensemble has carried that out.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// Safe, the release continues in the background.
    ///
    /// # Session loss
    ///
    /// [`ReleaseError::Lost`], since the lock went with the session.
    ///
    /// # Cost
    ///
    /// One round trip. It wakes the readers up to the next writer, or that writer if none is before it.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }

    /// Becomes a reader; no writer gets the lock in between.
    ///
    /// A node for the reader is created with the number of the writer's, and then that one is deleted.
    /// Whoever is in the queue waits for both of them, also with Curator, which does the same since 5.5.0
    /// (CURATOR-621).
    ///
    /// The token stays that of the writer: those who wait already have higher ones, and a new one would be higher than
    /// theirs.
    /// Futures of [`lost`](Guard::lost) of the writer resolve with [`Loss::Released`].
    ///
    /// # Errors
    ///
    /// [`DowngradeError::Failed`] when the reader's node could not be created, which gives the guard back.
    /// [`DowngradeError::Refused`] when the session may create the lock's nodes but not delete them.
    /// [`DowngradeError::Lost`] when the lock has been lost.
    ///
    /// If there is no answer in time to the deletion of the writer's node, that is no error: it goes on in the
    /// background, and other readers get the lock once it is done.
    ///
    /// # Cancel safety
    ///
    /// Safe, but the lock is released in the background, since the guard is dropped as well.
    ///
    /// # Session loss
    ///
    /// [`DowngradeError::Lost`], since the lock went with the session.
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
        let node = match readers.enlist_as(number).await {
            Ok(node) => node,
            Err(AcquireError::SessionLost { .. }) => {
                let loss = Loss::SessionLost;
                return Err(DowngradeError::Lost { path, loss });
            }
            Err(source) => {
                let guard = Box::new(self);
                return Err(DowngradeError::Failed { guard, source });
            }
        };
        let session = readers.session.clone();
        let trusted = session.keep_trusted();
        let reader = Guard::with_token(session, node, trusted, self.guard.fencing_token());
        // That the writer's node was there until now shows that nobody else had the lock when the reader's came.
        match self.guard.release().await {
            Err(ReleaseError::Lost { path, loss }) => Err(DowngradeError::Lost { path, loss }),
            Err(ReleaseError::Refused { source, .. }) => {
                let guard = Box::new(ReadGuard::new(&self.lock, reader));
                Err(DowngradeError::Refused { guard, source })
            }
            Err(error @ ReleaseError::Pending { .. }) => {
                tracing::debug!(%error, "a reader's node as a writer goes later");
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
