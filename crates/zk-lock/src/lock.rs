//! What all kinds of locks have in common: acquiring within a time limit, with progress, and for the time of a body.

use std::time::Duration;

use zk_core::{NodePath, Session};

use crate::error::{AcquireError, Ahead, LockLoss, RunError};
use crate::events::LockEvents;
use crate::guard::LockGuard;
use crate::progress::AcquireProgress;

/// A lock of any kind, for code that is generic over kinds and for [`MultiLock`](crate::MultiLock).
///
/// Each kind has these functions itself, except [`acquire_reporting_to`](Self::acquire_reporting_to), so that this
/// trait need not be imported to use it; [`FairLock`](crate::FairLock) documents them.
/// Of a read/write lock, the halves [`ReadLock`](crate::ReadLock) and [`WriteLock`](crate::WriteLock) implement it.
/// A `MultiLock` does not implement it.
///
/// # Examples
///
/// ```
/// use zk_lock::AcquireError;
/// use zk_lock::Lock;
/// use zk_lock::LockGuard;
///
/// async fn with_it<L: Lock>(lock: &L) -> Result<(), AcquireError> {
///     let guard = lock.acquire().await?;
///     println!("{} is valid until {:?}", lock.path(), guard.held().valid_until());
///     drop(guard);
///     Ok(())
/// }
/// ```
pub trait Lock: Send + Sync {
    /// The held lock.
    type Guard: LockGuard;

    /// Returns the path of the lock.
    fn path(&self) -> &NodePath;

    /// Returns the session whose ensemble keeps the lock.
    fn session(&self) -> &Session;

    /// Subscribes to the events of the guards that this handle and its clones acquire from now on.
    fn events(&self) -> LockEvents;

    /// Waits for the lock, without a time limit, and reports to `progress` who is ahead.
    ///
    /// All functions that wait for the lock call this one.
    fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> impl Future<Output = Result<Self::Guard, AcquireError>> + Send;

    /// Takes the lock if that needs no wait for others; returns `None` otherwise.
    fn try_acquire(&self)
    -> impl Future<Output = Result<Option<Self::Guard>, AcquireError>> + Send;

    /// Waits for the lock, without a time limit.
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard, AcquireError>> + Send {
        async {
            let progress = AcquireProgress::new(self.path());
            self.acquire_reporting_to(&progress).await
        }
    }

    /// Waits for the lock, for at most `limit`.
    fn acquire_timeout(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Guard, AcquireError>> + Send {
        async move {
            let progress = AcquireProgress::new(self.path());
            let acquiring = self.acquire_reporting_to(&progress);
            progress.within(limit, acquiring).await
        }
    }

    /// Waits for the lock, without a time limit, and calls `on_progress` with who is ahead.
    fn acquire_with_progress(
        &self,
        on_progress: impl FnMut(&Ahead) + Send,
    ) -> impl Future<Output = Result<Self::Guard, AcquireError>> + Send {
        async move {
            let progress = AcquireProgress::new(self.path());
            let acquiring = self.acquire_reporting_to(&progress);
            progress.observe(acquiring, on_progress).await
        }
    }

    /// Waits for the lock, runs `body` under it and releases it.
    fn run<T, F, B>(&self, body: B) -> impl Future<Output = Result<T, RunError>>
    where
        B: FnOnce(<Self::Guard as LockGuard>::Token) -> F,
        F: Future<Output = T>,
    {
        async { run_under(self.acquire().await?, body).await }
    }

    /// Waits for the lock, for at most `limit`, runs `body` under it and releases it.
    fn run_timeout<T, F, B>(
        &self,
        limit: Duration,
        body: B,
    ) -> impl Future<Output = Result<T, RunError>>
    where
        B: FnOnce(<Self::Guard as LockGuard>::Token) -> F,
        F: Future<Output = T>,
    {
        async move { run_under(self.acquire_timeout(limit).await?, body).await }
    }
}

/// Runs `body` under a lock until it ends or the lock is lost, and releases the lock.
pub(crate) async fn run_under<G, T, F, B>(guard: G, body: B) -> Result<T, RunError>
where
    G: LockGuard,
    B: FnOnce(G::Token) -> F,
    F: Future<Output = T>,
{
    let lost = guard.held().lost();
    let output = tokio::select! {
        biased;
        loss = lost => Err(loss),
        output = body(guard.token()) => Ok(output),
    };
    // By now the body has finished or is dropped; only then may another contender get the lock.
    let was_valid = guard.held().is_valid();
    let released = guard.release().await;
    match (output, released) {
        (Err(loss), _) => Err(RunError::Lost(loss)),
        // The body ran under the lock.
        (Ok(output), Ok(())) => Ok(output),
        (Ok(output), Err(error)) => match error.loss() {
            Some(loss) => Err(RunError::Lost(loss)),
            // The process may have been stopped in the last steps of the body; that can no longer be ruled out.
            None if error.is_pending() && !was_valid => {
                Err(RunError::Lost(LockLoss::SessionLeaseExpired))
            }
            // An unfinished release does not concern the body.
            None => Ok(output),
        },
    }
}

/// Implements the functions of [`Lock`] as functions of a kind of lock, so that its users need not import the trait.
macro_rules! inherent_lock_functions {
    ($guard:ty, $token:ty) => {
        /// Returns the path of the lock.
        pub fn path(&self) -> &zk_core::NodePath {
            $crate::lock::Lock::path(self)
        }

        /// Returns the session whose ensemble keeps the lock.
        pub fn session(&self) -> &zk_core::Session {
            $crate::lock::Lock::session(self)
        }

        /// Waits for the lock, without a time limit.
        ///
        /// Once it waits, a contender waits until the session is over, also while the connection is broken.
        ///
        /// # Errors
        ///
        /// - [`Failed`](crate::AcquireError::Failed) if the queue could not be joined, or the node of a
        ///   [`RaceLock`](crate::RaceLock) not be created or read: no connection within the session's operation
        ///   timeout, or no permission.
        /// - [`NodeDeleted`](crate::AcquireError::NodeDeleted) if another client deleted our node. In a queue, the next
        ///   in line notices that within about a round trip, other waiters at their next wake-up.
        /// - [`SequenceExhausted`](crate::AcquireError::SequenceExhausted) if the numbers of the contenders in a queue
        ///   no longer determine an order.
        /// - [`Limit`](crate::AcquireError::Limit) for a semaphore, whose limit does not allow it.
        pub async fn acquire(&self) -> Result<$guard, $crate::AcquireError> {
            $crate::lock::Lock::acquire(self).await
        }

        /// Takes the lock if that needs no wait for others; returns `None` otherwise.
        ///
        /// It waits for the ensemble, but never for another contender.
        ///
        /// # Errors
        ///
        /// The errors of [`acquire`](Self::acquire).
        ///
        /// # Cost
        ///
        /// One round trip if the lock is taken, and nothing is written. Otherwise that of [`acquire`](Self::acquire)
        /// follows, and up to one more to leave the queue if another contender was faster.
        /// A [`RaceLock`](crate::RaceLock) does not read first, and takes one round trip.
        /// If this session has an unfinished deletion at the path, it waits for that and checks once more.
        pub async fn try_acquire(&self) -> Result<Option<$guard>, $crate::AcquireError> {
            $crate::lock::Lock::try_acquire(self).await
        }

        /// Waits for the lock, for at most `limit`.
        ///
        /// With a limit of zero, the attempt begins and is given up; use [`try_acquire`](Self::try_acquire) instead.
        ///
        /// # Errors
        ///
        /// [`TimedOut`](crate::AcquireError::TimedOut), which says who was ahead; and the errors of
        /// [`acquire`](Self::acquire).
        ///
        /// # Cost
        ///
        /// That of [`acquire`](Self::acquire), and one write for each of our nodes on a timeout.
        pub async fn acquire_timeout(
            &self,
            limit: std::time::Duration,
        ) -> Result<$guard, $crate::AcquireError> {
            $crate::lock::Lock::acquire_timeout(self, limit).await
        }

        /// Waits for the lock, without a time limit, and reports who is ahead.
        ///
        /// `on_progress` runs in the task that polls this future and delays nothing but this acquire. In a queue, it is
        /// called when the place is known, when the predecessor is known, and after each wake-up.
        /// A waiter in a queue wakes only when a contender directly ahead of it leaves, so the number may be too high,
        /// but not too low.
        /// A [`CohortLock`](crate::CohortLock) calls it once, if a task of this process is ahead, and counts only the
        /// tasks of this process and the holder.
        /// A [`RaceLock`](crate::RaceLock) calls it after each lost race, and counts only the holder.
        /// For a time limit, wrap the call into a timeout.
        ///
        /// # Errors
        ///
        /// The errors of [`acquire`](Self::acquire).
        pub async fn acquire_with_progress(
            &self,
            on_progress: impl FnMut(&$crate::Ahead) + Send,
        ) -> Result<$guard, $crate::AcquireError> {
            $crate::lock::Lock::acquire_with_progress(self, on_progress).await
        }

        /// Waits for the lock, runs `body` under it and releases it.
        ///
        /// As soon as the lock is lost, or no longer known to be held, `body` is dropped at the await where it is. Code
        /// between two awaits is not interrupted.
        /// `body` gets the token of the guard, see [`LockGuard::token`](crate::LockGuard::token). Pass a fencing token
        /// to the resources that `body` uses; the token of a semaphore's leases is not one.
        ///
        /// # Errors
        ///
        /// - [`RunError::Acquire`](crate::RunError::Acquire) if `body` was not run.
        /// - [`RunError::Lost`](crate::RunError::Lost) if `body` was dropped because the lock was lost, or if it had
        ///   just finished when the loss was noticed.
        pub async fn run<T, F, B>(&self, body: B) -> Result<T, $crate::RunError>
        where
            B: FnOnce($token) -> F,
            F: Future<Output = T>,
        {
            $crate::lock::Lock::run(self, body).await
        }

        /// Waits for the lock, for at most `limit`, runs `body` under it and releases it.
        ///
        /// `limit` bounds the wait for the lock only: neither `body`, which is run as by [`run`](Self::run), nor the
        /// release. Wrap `body` into a timeout to bound it as well; a timeout around the whole call drops `body` at
        /// any await.
        /// With a limit of zero, the attempt begins and is given up.
        ///
        /// # Errors
        ///
        /// - [`RunError::Acquire`](crate::RunError::Acquire) if `body` was not run: with
        ///   [`TimedOut`](crate::AcquireError::TimedOut), which says who was ahead, if the lock was not acquired in
        ///   time, or with another error of [`acquire`](Self::acquire).
        /// - [`RunError::Lost`](crate::RunError::Lost), as for [`run`](Self::run).
        pub async fn run_timeout<T, F, B>(
            &self,
            limit: std::time::Duration,
            body: B,
        ) -> Result<T, $crate::RunError>
        where
            B: FnOnce($token) -> F,
            F: Future<Output = T>,
        {
            $crate::lock::Lock::run_timeout(self, limit, body).await
        }

        /// Subscribes to the events of the guards that this handle and its clones acquire from now on.
        ///
        /// Costs nothing without a subscription, and one task per node with one.
        pub fn events(&self) -> $crate::LockEvents {
            $crate::lock::Lock::events(self)
        }
    };
}

pub(crate) use inherent_lock_functions;
