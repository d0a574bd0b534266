//! The reentrant lock: its owner may acquire it again.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use zk_core::{IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::{AcquireError, Ahead, ReleaseError};
use crate::events::LockEvents;
use crate::fair::FairLock;
use crate::fencing_token::FencingToken;
use crate::guard::{Guard, impl_lock_guard};
use crate::inspect::Inspector;
use crate::labels::LockKind;
use crate::lock::{Lock, inherent_lock_functions};
use crate::measure::Wait;
use crate::options::LockOptions;
use crate::progress::AcquireProgress;

/// A [`FairLock`] that its owner may acquire again while holding it.
///
/// The owner is this value with all its clones, in whichever tasks and threads. To other values for the same path it is
/// like any other contender.
/// Create a value for each owner with [`new`](Self::new): clones do not exclude each other.
///
/// While the owner holds the lock, an acquire is granted at once, without a request, and returns another guard of the
/// same holding, with the same node and the same token.
/// The last guard releases the lock.
/// Clones that acquire concurrently share one place in the queue. It is kept until the last of them gives up.
/// A [`try_acquire`](Self::try_acquire) returns `None` while another clone is in the queue, even if that one is about
/// to be granted the lock.
///
/// A holding that is [lost](crate::HeldLock::lost) for good does not count. If the holding is temporarily not
/// [valid](crate::HeldLock::is_valid), neither is another guard of it.
///
/// # Cost
///
/// Nothing if the owner holds the lock, otherwise that of a [`FairLock`] once for all clones that wait.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::ReentrantLock;
///
/// let lock = ReentrantLock::new(&session, "/locks/tree")?;
/// let outer = lock.acquire().await?;
/// // In some function that cannot know whether its caller has the lock:
/// let inner = lock.clone().acquire().await?;
/// assert_eq!(inner.fencing_token(), outer.fencing_token());
/// inner.release().await?;
/// assert!(outer.is_valid());
/// outer.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReentrantLock {
    lock: FairLock,
    owner: Arc<Mutex<OwnerState>>,
}

/// A guard of a held [`ReentrantLock`].
///
/// It dereferences to [`Guard`]. All guards of one holding share that guard, so a future of
/// [`lost`](crate::HeldLock::lost) resolves when the lock is lost or the last guard is released, not when its own guard
/// is.
///
/// # Dropping
///
/// The last guard of a holding releases the lock like a [`Guard`], unless a concurrent acquire is about to get another
/// guard. Dropping any other guard has no effect.
#[must_use = "the lock is released when its last guard is dropped"]
pub struct ReentrantGuard {
    holding: Arc<Guard>,
}

/// What an owner holds, and what it is acquiring.
#[derive(Default)]
struct OwnerState {
    holding: Weak<Guard>,
    attempt: Option<AcquireAttempt>,
}

/// An acquire in progress, shared by all clones that joined it. It is dropped with the last of them.
struct AcquireAttempt {
    acquiring: WeakShared<AcquireFuture>,
    is_try: bool,
    progress: AcquireProgress,
}

/// Resolves to `None` if a `try_acquire` found the lock taken.
type AcquireFuture = BoxFuture<'static, Result<Option<Arc<Guard>>, AcquireError>>;

/// What an owner finds when it acquires.
enum OwnerStatus {
    Held(Arc<Guard>),
    Acquiring(Shared<AcquireFuture>, AcquireProgress),
    /// For a `try_acquire`: another clone is in the queue.
    InQueue,
}

impl ReentrantLock {
    /// Creates a new owner of the lock at `path`, with default options.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Self::with_options(session, path, LockOptions::default())
    }

    /// Creates a new owner of the lock at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        options: LockOptions,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            lock: FairLock::with_options(session, path, options)?,
            owner: Arc::default(),
        })
    }

    inherent_lock_functions!(ReentrantGuard, FencingToken);

    /// Returns a handle to inspect the lock. An owner is listed once.
    pub fn inspector(&self) -> Inspector {
        self.lock.inspector()
    }

    /// Returns the status of this owner; starts an acquire if it neither holds nor acquires the lock.
    fn status_or_begin(&self, is_try: bool) -> OwnerStatus {
        let mut owner = lock(&self.owner);
        if let Some(holding) = owner.holding.upgrade()
            && holding.final_loss().is_none()
        {
            return OwnerStatus::Held(holding);
        }
        if let Some(attempt) = &owner.attempt
            && let Some(acquiring) = attempt.acquiring.upgrade()
        {
            return if is_try && !attempt.is_try {
                OwnerStatus::InQueue
            } else {
                OwnerStatus::Acquiring(acquiring, attempt.progress.clone())
            };
        }
        let progress = AcquireProgress::new(self.lock.path());
        let acquiring = self.begin(is_try, progress.clone()).shared();
        owner.attempt = acquiring.downgrade().map(|acquiring| AcquireAttempt {
            acquiring,
            is_try,
            progress: progress.clone(),
        });
        OwnerStatus::Acquiring(acquiring, progress)
    }

    fn begin(&self, is_try: bool, progress: AcquireProgress) -> AcquireFuture {
        let queue = Arc::clone(self.lock.queue());
        let owner = Arc::clone(&self.owner);
        let acquiring = async move {
            let acquired = if is_try {
                // Not by the functions of the fair lock, which measure.
                queue.try_acquire().await
            } else {
                queue.acquire(&progress).await.map(Some)
            };
            let mut owner = lock(&owner);
            // Later callers do not join this attempt: they find the holding or start a new attempt.
            owner.attempt = None;
            acquired.map(|guard| {
                guard.map(|guard| {
                    let holding = Arc::new(guard);
                    owner.holding = Arc::downgrade(&holding);
                    holding
                })
            })
        };
        acquiring.boxed()
    }

    /// Waits until this owner holds the lock.
    async fn hold(&self, progress: &AcquireProgress) -> Result<ReentrantGuard, AcquireError> {
        loop {
            match self.status_or_begin(false) {
                OwnerStatus::Held(holding) => return Ok(ReentrantGuard { holding }),
                OwnerStatus::Acquiring(acquiring, shared) => {
                    if let Some(ahead) = shared.ahead() {
                        progress.set_ahead(ahead);
                    }
                    let report = |ahead: &Ahead| progress.set_ahead(ahead.clone());
                    if let Some(holding) = shared.observe(acquiring, report).await? {
                        return Ok(ReentrantGuard { holding });
                    }
                    // It was a `try_acquire` of another clone, which found the lock taken.
                }
                OwnerStatus::InQueue => unreachable!("only a `try_acquire` gets this status"),
            }
        }
    }

    /// Takes the lock for this owner if it is free.
    async fn try_hold(&self) -> Result<Option<ReentrantGuard>, AcquireError> {
        let holding = match self.status_or_begin(true) {
            OwnerStatus::Held(holding) => Some(holding),
            OwnerStatus::Acquiring(acquiring, _) => acquiring.await?,
            OwnerStatus::InQueue => None,
        };
        Ok(holding.map(|holding| ReentrantGuard { holding }))
    }
}

impl Lock for ReentrantLock {
    type Guard = ReentrantGuard;

    fn path(&self) -> &NodePath {
        self.lock.path()
    }

    fn session(&self) -> &Session {
        self.lock.session()
    }

    fn events(&self) -> LockEvents {
        self.lock.events()
    }

    async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<ReentrantGuard, AcquireError> {
        let wait = Wait::start(LockKind::Reentrant);
        wait.ended(self.hold(progress).await)
    }

    async fn try_acquire(&self) -> Result<Option<ReentrantGuard>, AcquireError> {
        let wait = Wait::start(LockKind::Reentrant);
        wait.tried(self.try_hold().await)
    }
}

impl_lock_guard!(ReentrantGuard, FencingToken, fencing_token);

impl ReentrantGuard {
    /// Drops this guard. The last guard releases the lock and waits until the ensemble has deleted its node.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if the lock had been lost before, also if this is not the last guard.
    /// The last guard also has the other errors of [`Guard::release`].
    ///
    /// # Cost
    ///
    /// One round trip for the last guard, nothing for the others.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let path = self.path().clone();
        let loss = self.holding.final_loss();
        match (Arc::into_inner(self.holding), loss) {
            (Some(guard), _) => guard.release().await,
            (None, Some(loss)) => Err(ReleaseError::Lost { path, loss }),
            (None, None) => Ok(()),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.holding
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard")
            .field("holding", &self.holding)
            .field("guards", &Arc::strong_count(&self.holding))
            .finish()
    }
}

impl fmt::Debug for ReentrantLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLock")
            .field("lock", &self.lock)
            .field("guards", &lock(&self.owner).holding.strong_count())
            .finish()
    }
}

fn lock(owner: &Mutex<OwnerState>) -> MutexGuard<'_, OwnerState> {
    owner.lock().unwrap_or_else(PoisonError::into_inner)
}
