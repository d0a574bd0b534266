//! The lock whose tasks of one process share a place in the queue.

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
use local_waiters::Members;

/// An exclusive lock whose clones share one place in the queue, and hand the lock over in memory.
///
/// Where many tasks of one process want the same lock, a [`FairLock`] sends each of them through the ensemble, at a
/// round trip and a commit for each turn.
/// Here one of them gets the lock from the ensemble, and the others get it from each other, tens of thousands of times
/// faster: first come first among them.
///
/// So that nobody else starves, this is bounded: as soon as the ensemble tells that another process, or another handle
/// of this one, may be waiting, the lock goes back to the ensemble after so many hand-overs or so much time, whichever
/// comes first ([`CohortLimits`]), and the cohort gets in line behind the others.
/// An other one waits for at most that time, and for the work of one task of each cohort before it.
/// The price is the order of arrival over all processes: a task of this process may get the lock before one of another
/// that came earlier, within the bound. [`FairLock`] keeps that order strictly.
///
/// To others on the same path this is a lock like any other of the same layout.
/// All clones of one handle are of one cohort; handles made separately are strangers to each other.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::CohortLock;
///
/// let lock = CohortLock::new(&session, "/locks/ledger")?;
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
    members: Arc<Members>,
}

impl CohortLock {
    /// Makes a handle to the lock at `path`, with default options and limits.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let (options, limits) = (LockOptions::default(), CohortLimits::default());
        Self::with_options(session, path, options, limits)
    }

    /// Makes a handle to the lock at `path`.
    ///
    /// # Errors
    ///
    /// When `path` is none.
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
            members: Arc::new(Members::new(lock, limits)),
        })
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        self.members.lock.path()
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        self.members.lock.session()
    }

    /// Waits for the lock, for as long as it takes.
    ///
    /// # Errors
    ///
    /// Those of [`FairLock::acquire`]. What fails for the cohort fails for all of its tasks that wait at that moment.
    ///
    /// # Cancel safety
    ///
    /// Safe: the place among the tasks of this process is lost, and a lock that was just handed over goes to the next
    /// one. The place in the queue is given up with the last task that waits.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// Nothing when another task of the cohort hands it over; otherwise that of [`FairLock::acquire`].
    /// While several tasks of the cohort want it, the children of the path are listed and watched, once until somebody
    /// else joins the queue.
    pub async fn acquire(&self) -> Result<CohortGuard, AcquireError> {
        self.wait(None).await
    }

    /// Waits for the lock, for at most `limit` over all.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which counts the tasks of this process that were ahead, and whoever held the lock;
    /// and those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As of [`acquire`](Self::acquire).
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<CohortGuard, AcquireError> {
        self.wait(Some(limit)).await
    }

    /// Takes the lock if nobody holds it or waits for it, in this process or elsewhere, and answers `None` otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is held.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`].
    ///
    /// # Cost
    ///
    /// Nothing when somebody of the cohort is there, otherwise that of [`FairLock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<Option<CohortGuard>, AcquireError> {
        let Some((mut ticket, is_first)) = self.members.join(true) else {
            return Ok(None);
        };
        if is_first {
            acquirer::spawn(&self.members);
        }
        ticket.answered().await
    }

    async fn wait(&self, limit: Option<Duration>) -> Result<CohortGuard, AcquireError> {
        let joined = self.members.join(false);
        let (mut ticket, is_first) = joined.expect("only who tries is turned away");
        if is_first {
            acquirer::spawn(&self.members);
        }
        let answer = match limit {
            None => ticket.answered().await,
            Some(limit) => match tokio::time::timeout(limit, ticket.answered()).await {
                Ok(answer) => answer,
                Err(_) => Err(AcquireError::TimedOut(TimedOut {
                    path: self.path().clone(),
                    limit,
                    ahead: Some(Ahead::new(ticket.ahead())),
                })),
            },
        };
        answer.map(|guard| guard.expect("only who tries is told that it is taken"))
    }
}
