//! The cohort lock: tasks of one process share a place in the queue.

use std::sync::Arc;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::TimedOut;
use crate::fair::FairLock;
use crate::options::LockOptions;

mod acquirer;
mod guard;
mod handover_limit;
mod local_waiters;

pub use guard::CohortGuard;
pub use guard::CohortToken;
pub use handover_limit::CohortLimits;
use local_waiters::LocalWaiters;
use local_waiters::WaitHandle;

/// An exclusive lock whose clones share one place in the queue and hand the lock over in memory.
///
/// If many tasks of one process use a [`FairLock`], each of them acquires it from the ensemble, at the price of a round
/// trip and a commit.
/// With a cohort lock, one of them acquires it from the ensemble and hands it over to the others in order of arrival,
/// tens of thousands of times faster.
///
/// So that other contenders do not starve, handovers are limited. As soon as the ensemble reports that another process,
/// or another handle of this one, may be waiting, the lock goes back to the ensemble after a number of handovers or a
/// time, whichever comes first ([`CohortLimits`]), and the cohort rejoins the queue at its end.
/// Another contender waits for at most that time, plus the work of one task, for each cohort ahead of it.
/// In exchange, the order of arrival among all processes is not strict: within the limits, a task of this process may
/// get the lock before an earlier task of another process. [`FairLock`] keeps the order strictly.
///
/// To other contenders on the same path this is a lock like any other of the same layout.
/// All clones of a handle belong to one cohort. Handles that are created separately do not.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::CohortLock;
///
/// let lock = CohortLock::new(&session, "/locks/accounts")?;
/// let workers = (0..20).map(|_| {
///     let lock = lock.clone();
///     tokio::spawn(async move {
///         let guard = lock.acquire().await?;
///         println!("ours, with token {}", guard.token());
///         drop(guard.release().await);
///         Ok::<_, zk_lock::AcquireError>(())
///     })
/// });
/// # drop(workers.collect::<Vec<_>>());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct CohortLock {
    waiters: Arc<LocalWaiters>,
}

impl CohortLock {
    /// Creates a handle to the lock at `path`, with default options and limits.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let (options, limits) = (LockOptions::default(), CohortLimits::default());
        Self::with_options(session, path, options, limits)
    }

    /// Creates a handle to the lock at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        options: LockOptions,
        limits: CohortLimits,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let lock = FairLock::with_options(session, path, options)?;
        Ok(Self {
            waiters: Arc::new(LocalWaiters::new(lock, limits)),
        })
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        self.waiters.lock.path()
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        self.waiters.lock.session()
    }

    /// Waits for the lock, without a time limit.
    ///
    /// # Errors
    ///
    /// The errors of [`FairLock::acquire`]. An error affects all tasks of the cohort that wait at that moment.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place among the tasks of this process; a lock that was just handed
    /// over goes to the next task. The last waiting task gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// Nothing if another task of the cohort hands the lock over, otherwise that of [`FairLock::acquire`].
    /// If several tasks of the cohort want the lock, the children of the path are listed and watched, once until
    /// another contender joins the queue.
    pub async fn acquire(&self) -> Result<CohortGuard, AcquireError> {
        self.wait(None).await
    }

    /// Waits for the lock, for at most `limit`.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which counts the tasks of this process that were ahead and the holder; and the
    /// errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// The same as for [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<CohortGuard, AcquireError> {
        self.wait(Some(limit)).await
    }

    /// Takes the lock if there is no holder and no waiter, in this process or elsewhere; returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Nothing is held afterwards.
    ///
    /// # Cost
    ///
    /// Nothing if a task of the cohort holds the lock or waits for it, otherwise that of [`FairLock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<CohortGuard>, AcquireError> {
        match self.join(true) {
            Some(mut handle) => Ok(handle.result().await?.map(CohortGuard::new)),
            None => Ok(None),
        }
    }

    async fn wait(&self, limit: Option<Duration>) -> Result<CohortGuard, AcquireError> {
        let joined = self.join(false);
        let mut handle = joined.expect("only a `try_acquire` is refused");
        let answer = match limit {
            None => handle.result().await,
            Some(limit) => match tokio::time::timeout(limit, handle.result()).await {
                Ok(answer) => answer,
                Err(_) => Err(AcquireError::TimedOut(TimedOut {
                    path: self.path().clone(),
                    limit,
                    ahead: Some(Ahead::new(handle.ahead())),
                })),
            },
        };
        let hold = answer?.expect("only a `try_acquire` gets `None`");
        Ok(CohortGuard::new(hold))
    }

    /// Joins the waiters of this process; `None` if it only tries, and the lock is taken in this process.
    fn join(&self, is_trying: bool) -> Option<WaitHandle> {
        let (handle, starts_acquirer) = self.waiters.join(is_trying)?;
        if starts_acquirer {
            acquirer::spawn(&self.waiters);
        }
        Some(handle)
    }
}
