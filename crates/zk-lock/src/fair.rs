//! The fair lock: exclusive, granted in order of arrival.

use std::sync::Arc;

use zk_core::{IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::AcquireError;
use crate::events::LockEvents;
use crate::fencing_token::FencingToken;
use crate::guard::Guard;
use crate::inspect::Inspector;
use crate::labels::LockKind;
use crate::lock::{Lock, inherent_lock_functions};
use crate::measure::Wait;
use crate::options::LockOptions;
use crate::progress::AcquireProgress;
use crate::queue::Queue;
use crate::waiter::Waiter;

/// An exclusive lock among all processes that use the same path, granted in order of arrival.
///
/// Each acquire takes a place of its own in the queue, also when several tasks use one `FairLock`.
/// A task that acquires a lock it already holds waits for itself.
///
/// # Cost
///
/// A free lock costs one round trip: a write, and a read directly behind it. After three turns in a row by clones of one
/// handle, each ended by [`Guard::release`] and none contended, it costs a write and no read, and the handle keeps a
/// watch on the lock's path.
/// If the session has relied on nothing for more than a minute, it takes two fifths of the session timeout, which a
/// limit must allow for; see [`Session::stand_by`] and [what a lock guarantees](crate::guarantees).
///
/// A waiter sets two watches, as long as the session has room for them, and a third one on its own node once it may be next
/// in line. A release wakes two waiters: the next in line, and the one behind it, which lists to find out whether it
/// is next. The next in line takes over without another request, unless the session was idle, the connection broke
/// since, or its predecessor belongs to the same session or may be a writer of a read/write lock. Every other
/// wake-up costs one round trip.
/// The next in line must have its own node watched before it takes over. If it became the next less than a round
/// trip ago, it waits for the rest of that round trip.
///
/// The holder and the next in line keep a [`SessionLease`](zk_core::SessionLease), with its cost.
///
/// A try for a lock that is taken costs one round trip to the leader and no write, and one for a free lock costs that round
/// trip more than an acquire.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::FairLock;
///
/// let lock = FairLock::new(&session, "/locks/nightly")?;
/// let guard = lock.acquire().await?;
/// println!("ours, with token {}", guard.fencing_token());
/// guard.release().await?;
///
/// // The same, shorter:
/// # async fn rebuild_index(token: zk_lock::FencingToken) -> u64 { token.as_u64() }
/// let rows = lock.run(async |token| rebuild_index(token).await).await?;
/// // And with a report while it waits:
/// lock.acquire_with_progress(|ahead| println!("{}: {ahead}", lock.path())).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FairLock {
    queue: Arc<Queue>,
}

impl FairLock {
    /// Creates a handle to the lock at `path`, with default options.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Self::with_options(session, path, LockOptions::default())
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
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        let queue = Queue::new(session, path, options.layout().mutex(), Arc::new(options))?;
        Ok(Self {
            queue: Arc::new(queue.of_mutex()),
        })
    }

    inherent_lock_functions!(Guard, FencingToken);

    /// Joins the queue and returns the place in it; [`Waiter::granted`] waits for the lock.
    ///
    /// [`acquire`](Self::acquire) does both. Use this to learn the place, or that it was lost.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Failed`] and [`AcquireError::NodeDeleted`], as for [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// One round trip: a write, and a read directly behind it.
    pub async fn enlist(&self) -> Result<Waiter, AcquireError> {
        let enlisted = self.queue.enlist().await?;
        Ok(Waiter::new(Arc::clone(&self.queue), enlisted))
    }

    /// Returns a handle to inspect the lock: read its contenders, revoke it, break it, or clean up.
    pub fn inspector(&self) -> Inspector {
        Inspector::of(&self.queue)
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }
}

impl Lock for FairLock {
    type Guard = Guard;

    fn path(&self) -> &NodePath {
        &self.queue.path
    }

    fn session(&self) -> &Session {
        &self.queue.session
    }

    fn events(&self) -> LockEvents {
        self.queue.events()
    }

    async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<Guard, AcquireError> {
        let wait = Wait::start(LockKind::Fair);
        wait.ended(self.queue.acquire(progress).await)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        let wait = Wait::start(LockKind::Fair);
        wait.tried(self.queue.try_acquire().await)
    }
}
