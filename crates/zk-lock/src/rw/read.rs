//! The guard of a reader.

use std::fmt;
use std::ops::Deref;

use super::RwLock;
use crate::error::ReleaseError;
use crate::guard::Guard;

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
    pub(super) lock: RwLock,
    pub(super) guard: Guard,
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
