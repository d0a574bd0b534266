//! A lock that is held for reading.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::RwLock;
use super::UpgradeError;
use super::WriteGuard;
use crate::error::AcquireError;
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::guard::Guard;
use crate::queue::Progress;
use crate::queue::Upgraded;

/// A lock that is held for reading: others may read, nobody writes.
///
/// It is a [`Guard`] and has all that one has, most of it by reference.
/// The [fencing tokens](Guard::fencing_token) of readers rise from writer to writer: each reader's is higher than that of
/// every writer before it, and lower than that of every writer behind it. One that was a writer keeps its token.
///
/// # Dropping
///
/// As with a [`Guard`].
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
    /// One round trip. The last one of the readers before a writer wakes it.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }

    /// Becomes a writer, once all other readers have ended; nobody writes in between.
    ///
    /// It joins the queue at the end and goes on reading meanwhile.
    /// That must not go on for ever: a writer that is already in the queue waits for this reader, and if this one
    /// waited for it in turn, neither would ever be granted anything.
    /// So it fails at once when a writer is in the queue, be it another reader that upgrades: of several readers that
    /// want to write one at most goes on, and the others are told to release.
    ///
    /// It waits for all other readers, those of this process included.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::Contended`] when a writer waits already, [`UpgradeError::Failed`] as
    /// [`acquire_write`](RwLock::acquire_write) may fail; both give the guard back, which reads as before.
    /// [`UpgradeError::Lost`] when the lock has been lost.
    ///
    /// # Cancel safety
    ///
    /// Safe, but the lock is released in the background, since the guard is dropped as well.
    /// [`upgrade_timeout`](Self::upgrade_timeout) gives up without that.
    ///
    /// # Session loss
    ///
    /// [`UpgradeError::Lost`], also while waiting.
    ///
    /// # Cost
    ///
    /// Two round trips when nobody else reads: to join the queue, and to end reading.
    pub async fn upgrade(self) -> Result<WriteGuard, UpgradeError> {
        let upgraded = match self.guard.loss() {
            None => self.become_writer(&Progress::default()).await,
            Some(loss) => return Err(self.lost(loss)),
        };
        self.upgraded(upgraded).await
    }

    /// Becomes a writer, if all other readers end within `limit`.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::TimedOut`], which gives the guard back and says who was ahead, and those of
    /// [`upgrade`](Self::upgrade).
    ///
    /// # Cancel safety
    ///
    /// Safe, but the lock is released in the background, since the guard is dropped as well.
    ///
    /// # Session loss
    ///
    /// [`UpgradeError::Lost`], also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`upgrade`](Self::upgrade), and one write when the time is up.
    pub async fn upgrade_timeout(self, limit: Duration) -> Result<WriteGuard, UpgradeError> {
        if let Some(loss) = self.guard.loss() {
            return Err(self.lost(loss));
        }
        let progress = Progress::default();
        let writing = self.become_writer(&progress);
        let upgraded = self.lock.writers.within(limit, writing, &progress).await;
        self.upgraded(upgraded).await
    }

    async fn become_writer(&self, progress: &Progress) -> Result<Upgraded, AcquireError> {
        let reader = self.guard.path().name().unwrap_or_default();
        self.lock.writers.upgrade(reader, progress).await
    }

    async fn upgraded(
        self,
        upgraded: Result<Upgraded, AcquireError>,
    ) -> Result<WriteGuard, UpgradeError> {
        let granted = match upgraded {
            Ok(Upgraded::Granted(granted)) => granted,
            Ok(Upgraded::Contended(writer)) => {
                let guard = Box::new(self);
                return Err(UpgradeError::Contended { guard, writer });
            }
            Err(AcquireError::TimedOut(timed_out)) => {
                let guard = Box::new(self);
                return Err(UpgradeError::TimedOut { guard, timed_out });
            }
            Err(AcquireError::SessionLost { .. }) => return Err(self.lost(Loss::SessionLost)),
            Err(source) => {
                let guard = Box::new(self);
                return Err(UpgradeError::Failed { guard, source });
            }
        };
        let writer = Guard::granted(self.lock.session(), granted);
        match self.guard.release().await {
            // Somebody deleted the reader's node, maybe before the writer's was there: others may have written.
            Err(ReleaseError::Lost { path, loss }) => Err(UpgradeError::Lost { path, loss }),
            Err(error) => {
                // What is left of the reader harms nobody while we write.
                tracing::debug!(%error, "a writer's node as a reader goes later");
                Ok(WriteGuard::new(&self.lock, writer))
            }
            Ok(()) => Ok(WriteGuard::new(&self.lock, writer)),
        }
    }

    fn lost(&self, loss: Loss) -> UpgradeError {
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
