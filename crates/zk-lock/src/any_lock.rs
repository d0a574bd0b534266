//! A lock of any kind, and its guard, with the kind erased.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use zk_core::{NodePath, Session};

use crate::error::{AcquireError, ReleaseError};
use crate::fencing_token::FencingToken;
use crate::guard::{LockGuard, impl_lock_guard};
use crate::held::HeldLock;
use crate::lock::Lock;
use crate::progress::AcquireProgress;

/// A lock of any kind, for a [`MultiLock`](crate::MultiLock). Every [`Lock`] converts into this.
#[derive(Clone)]
pub struct AnyLock(Arc<dyn DynLock>);

/// The guard of a lock of any kind, as a [`MultiGuard`](crate::MultiGuard) has it.
///
/// It dereferences to [`HeldLock`]. What else only some kinds of guards have is reached by
/// [`downcast_ref`](Self::downcast_ref).
///
/// # Dropping
///
/// The same as for the guard of the kind.
#[must_use = "the lock is released when the guard is dropped"]
pub struct AnyGuard(Box<dyn DynGuard>);

impl AnyLock {
    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        self.0.path()
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        self.0.session()
    }

    pub(crate) async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<AnyGuard, AcquireError> {
        self.0.acquire(progress).await
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<AnyGuard>, AcquireError> {
        self.0.try_acquire().await
    }
}

impl<L: Lock + 'static> From<L> for AnyLock {
    fn from(lock: L) -> Self {
        Self(Arc::new(lock))
    }
}

impl AnyGuard {
    /// Returns the guard if it is of this kind, such as [`Guard`](crate::Guard) for a fair lock.
    pub fn downcast_ref<G: LockGuard>(&self) -> Option<&G> {
        self.0.as_any().downcast_ref()
    }

    /// Returns the fencing token; `None` for a semaphore's lease, which has none, and for a
    /// [`CohortGuard`](crate::CohortGuard), whose token is a pair.
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.0.held().fencing_token()
    }

    /// Releases the lock and waits until the ensemble has deleted its node, see
    /// [`Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// The errors of [`Guard::release`](crate::Guard::release).
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }
}

impl_lock_guard!(AnyGuard, Option<FencingToken>, fencing_token);

impl Deref for AnyGuard {
    type Target = HeldLock;

    fn deref(&self) -> &HeldLock {
        self.0.held()
    }
}

impl fmt::Debug for AnyLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyLock").field(self.path()).finish()
    }
}

impl fmt::Debug for AnyGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnyGuard").field(self.0.held()).finish()
    }
}

/// [`Lock`] with boxed futures and guards.
trait DynLock: Send + Sync {
    fn path(&self) -> &NodePath;

    fn session(&self) -> &Session;

    fn acquire<'a>(
        &'a self,
        progress: &'a AcquireProgress,
    ) -> BoxFuture<'a, Result<AnyGuard, AcquireError>>;

    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<AnyGuard>, AcquireError>>;
}

impl<L: Lock> DynLock for L {
    fn path(&self) -> &NodePath {
        Lock::path(self)
    }

    fn session(&self) -> &Session {
        Lock::session(self)
    }

    fn acquire<'a>(
        &'a self,
        progress: &'a AcquireProgress,
    ) -> BoxFuture<'a, Result<AnyGuard, AcquireError>> {
        let acquiring = self.acquire_reporting_to(progress);
        async { Ok(AnyGuard(Box::new(acquiring.await?))) }.boxed()
    }

    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<AnyGuard>, AcquireError>> {
        let trying = Lock::try_acquire(self);
        async { Ok(trying.await?.map(|guard| AnyGuard(Box::new(guard)))) }.boxed()
    }
}

/// [`LockGuard`] with boxed futures.
trait DynGuard: Send + Sync {
    fn as_any(&self) -> &dyn Any;

    fn held(&self) -> &HeldLock;

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), ReleaseError>>;
}

impl<G: LockGuard> DynGuard for G {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn held(&self) -> &HeldLock {
        LockGuard::held(self)
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), ReleaseError>> {
        LockGuard::release(*self).boxed()
    }
}
