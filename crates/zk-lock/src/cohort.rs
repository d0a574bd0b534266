//! The cohort lock: tasks of one process share a place in the queue.

use std::sync::Arc;

use zk_core::{IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::AcquireError;
use crate::events::LockEvents;
use crate::fair::FairLock;
use crate::inspect::Inspector;
use crate::labels::LockKind;
use crate::lock::{Lock, inherent_lock_functions};
use crate::measure::Wait;
use crate::options::LockOptions;
use crate::progress::AcquireProgress;

mod acquirer;
mod guard;
mod handover_limit;
mod local_waiters;

pub use guard::{CohortGuard, CohortToken};
pub use handover_limit::CohortLimits;
use local_waiters::{LocalWaiters, WaitHandle};

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
/// An error of an acquire affects all tasks of the cohort that wait at that moment. A timeout counts the tasks of this
/// process that were ahead, and the holder. The [events](Self::events) are those of the grants by the ensemble, not of
/// handovers.
///
/// To other contenders on the same path this is a lock like any other of the same layout.
/// All clones of a handle belong to one cohort. Handles that are created separately do not.
///
/// # Cancel safety
///
/// A dropped acquire gives up its place among the tasks of this process; a lock that was just handed over to it goes to
/// the next task. The last waiting task gives up the place in the queue.
///
/// # Cost
///
/// Nothing if another task of the cohort hands the lock over, otherwise that of a [`FairLock`].
/// If several tasks of the cohort want the lock, the children of the path are listed and watched, once until
/// another contender joins the queue.
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
///         println!("ours, with token {}", guard.fencing_token());
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
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        let (options, limits) = (LockOptions::default(), CohortLimits::default());
        Self::with_options(session, path, options, limits)
    }

    /// Creates a handle to the lock at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        options: LockOptions,
        limits: CohortLimits,
    ) -> Result<Self, ParsePathError> {
        let lock = FairLock::with_options(session, path, options)?;
        Ok(Self {
            waiters: Arc::new(LocalWaiters::new(lock, limits)),
        })
    }

    inherent_lock_functions!(CohortGuard, CohortToken);

    /// Returns a handle to inspect the lock. A cohort is listed once.
    pub fn inspector(&self) -> Inspector {
        self.waiters.lock.inspector()
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

impl Lock for CohortLock {
    type Guard = CohortGuard;

    fn path(&self) -> &NodePath {
        self.waiters.lock.path()
    }

    fn session(&self) -> &Session {
        self.waiters.lock.session()
    }

    fn events(&self) -> LockEvents {
        self.waiters.lock.events()
    }

    async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<CohortGuard, AcquireError> {
        let wait = Wait::start(LockKind::Cohort);
        let acquiring = async {
            let joined = self.join(false);
            let mut handle = joined.expect("only a `try_acquire` is refused");
            handle.report_to(progress);
            let hold = handle.result().await?;
            Ok(CohortGuard::new(
                hold.expect("only a `try_acquire` gets `None`"),
            ))
        };
        wait.ended(acquiring.await)
    }

    async fn try_acquire(&self) -> Result<Option<CohortGuard>, AcquireError> {
        let wait = Wait::start(LockKind::Cohort);
        let acquiring = async {
            match self.join(true) {
                Some(mut handle) => Ok(handle.result().await?.map(CohortGuard::new)),
                None => Ok(None),
            }
        };
        wait.tried(acquiring.await)
    }
}
