//! The guard of a writer.

use std::fmt;
use std::ops::Deref;

use super::RwLock;
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
    pub(super) lock: RwLock,
    pub(super) guard: Guard,
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
