//! The lock that its owner may acquire again.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use futures_util::future::Shared;
use futures_util::future::WeakShared;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::contender::Contender;
use crate::error::AcquireError;
use crate::error::ReleaseError;
use crate::error::TimedOut;
use crate::fair::FairLock;
use crate::guard::Guard;
use crate::options::LockOptions;
use crate::queue::Progress;

/// A [`FairLock`] that its owner may acquire again while holding it.
///
/// The owner is this value and all its clones, whichever tasks and threads have them; to others, and to other values
/// for the same path, it is like any other contender.
/// Give each owner a value of its own, made by [`new`](Self::new): clones do not exclude each other.
///
/// While the owner holds the lock, an acquire is granted at once, without asking the ensemble, and the guard is one more
/// of the same holding: it has the same node and the same token.
/// The lock is released with the last of the guards.
/// Clones that acquire at the same time take one place in the queue together; the place is kept until the last of
/// them gives up.
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
/// assert!(outer.is_trusted());
/// outer.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ReentrantLock {
    lock: FairLock,
    owner: Arc<Mutex<Owner>>,
}

/// One of the guards of a [`ReentrantLock`] that is held.
///
/// It is a [`Guard`] and has all that one has, most of it by reference; all guards of one holding tell the same.
/// So a future of [`lost`](Guard::lost) resolves when the lock is lost or the last guard is gone, not with its own
/// guard.
///
/// # Dropping
///
/// Nothing but that, as long as other guards of the holding are there or an acquire is about to get one.
/// The last one releases the lock as a [`Guard`] does.
#[must_use = "the lock is released when its last guard is dropped"]
pub struct ReentrantGuard {
    holding: Arc<Guard>,
}

/// What an owner has, and is about to have.
#[derive(Default)]
struct Owner {
    holding: Weak<Guard>,
    attempt: Option<Attempt>,
}

/// An acquire that is under way, for everyone who joined it. It ends when the last of them is gone.
struct Attempt {
    acquiring: WeakShared<Acquiring>,
    is_try: bool,
    progress: Progress,
}

/// Answers `None` if it was a try, and in vain.
type Acquiring = BoxFuture<'static, Result<Option<Arc<Guard>>, AcquireError>>;

/// What an owner finds that wants the lock.
enum Found {
    Held(Arc<Guard>),
    UnderWay(Shared<Acquiring>, Progress),
    /// A try finds its owner in the queue.
    Waiting,
}

impl ReentrantLock {
    /// Makes another owner of the lock at `path`, with default options.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_options(session, path, LockOptions::default())
    }

    /// Makes another owner of the lock at `path`.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        options: LockOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Ok(Self {
            lock: FairLock::with_options(session, path, options)?,
            owner: Arc::default(),
        })
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        self.lock.path()
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        self.lock.session()
    }

    /// Returns another guard if this owner holds the lock, and waits for the lock otherwise, for as long as it takes.
    ///
    /// A holding that is [lost](Guard::lost) for good is none; while it is only not [trusted](Guard::is_trusted), the
    /// new guard is not either.
    ///
    /// # Errors
    ///
    /// Those of [`FairLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Safe. The place in the queue is lost, unless another clone waits in it; the node is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// Nothing if the owner holds the lock, and that of [`FairLock::acquire`] otherwise, however many clones acquire.
    pub async fn acquire(&self) -> Result<ReentrantGuard, AcquireError> {
        self.acquire_noting(&mut None).await
    }

    /// Returns another guard if this owner holds the lock, takes the lock if nobody holds it or waits for it, and answers
    /// `None` otherwise.
    ///
    /// It also answers `None` while another clone is in the queue, even if that one is about to be granted the lock.
    ///
    /// # Errors
    ///
    /// Those of [`FairLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is held; what is left of the attempt is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`].
    ///
    /// # Cost
    ///
    /// Nothing if the owner holds the lock, and that of [`FairLock::try_acquire`] otherwise.
    pub async fn try_acquire(&self) -> Result<Option<ReentrantGuard>, AcquireError> {
        match self.find(true) {
            Found::Held(holding) => Ok(Some(ReentrantGuard { holding })),
            Found::UnderWay(acquiring, _) => {
                let acquired = acquiring.await?;
                Ok(acquired.map(|holding| ReentrantGuard { holding }))
            }
            Found::Waiting => Ok(None),
        }
    }

    /// Does what [`acquire`](Self::acquire) does, for at most `limit` over all.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead, and those of [`FairLock::acquire`].
    ///
    /// # Cancel safety
    ///
    /// Safe. The place in the queue is lost, unless another clone waits in it; the node is removed in the background,
    /// also when the time is up.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write when the time is up.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<ReentrantGuard, AcquireError> {
        let mut progress = None;
        let acquired = tokio::time::timeout(limit, self.acquire_noting(&mut progress)).await;
        acquired.unwrap_or_else(|_| {
            Err(AcquireError::TimedOut(TimedOut {
                path: self.path().clone(),
                limit,
                ahead: progress.and_then(|progress: Progress| progress.ahead()),
            }))
        })
    }

    /// Lists who holds the lock and who waits for it, as [`FairLock::contenders`] does: an owner is there once.
    ///
    /// # Errors
    ///
    /// Those of [`FairLock::contenders`].
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// That of [`FairLock::contenders`].
    pub async fn contenders(&self) -> Result<Vec<Contender>, Error> {
        self.lock.contenders().await
    }

    async fn acquire_noting(
        &self,
        progress: &mut Option<Progress>,
    ) -> Result<ReentrantGuard, AcquireError> {
        loop {
            match self.find(false) {
                Found::Held(holding) => return Ok(ReentrantGuard { holding }),
                Found::UnderWay(acquiring, its) => {
                    *progress = Some(its);
                    if let Some(holding) = acquiring.await? {
                        return Ok(ReentrantGuard { holding });
                    }
                    // It was somebody's try, in vain.
                }
                Found::Waiting => unreachable!("only a try does not wait"),
            }
        }
    }

    /// Finds what there is, and begins to acquire the lock if there is nothing.
    fn find(&self, is_try: bool) -> Found {
        let mut owner = lock(&self.owner);
        if let Some(holding) = owner.holding.upgrade()
            && holding.loss().is_none()
        {
            return Found::Held(holding);
        }
        if let Some(attempt) = &owner.attempt
            && let Some(acquiring) = attempt.acquiring.upgrade()
        {
            return if is_try && !attempt.is_try {
                Found::Waiting
            } else {
                Found::UnderWay(acquiring, attempt.progress.clone())
            };
        }
        let progress = Progress::default();
        let acquiring = self.begin(is_try, progress.clone()).shared();
        owner.attempt = acquiring.downgrade().map(|acquiring| Attempt {
            acquiring,
            is_try,
            progress: progress.clone(),
        });
        Found::UnderWay(acquiring, progress)
    }

    fn begin(&self, is_try: bool, progress: Progress) -> Acquiring {
        let lock_of_all = self.lock.clone();
        let owner = Arc::clone(&self.owner);
        let acquiring = async move {
            let acquired = if is_try {
                lock_of_all.try_acquire().await
            } else {
                lock_of_all.acquire_noting(&progress).await.map(Some)
            };
            let mut owner = lock(&owner);
            // Whoever comes from now on does not join it, but begins anew or finds what is held.
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
}

impl ReentrantGuard {
    /// Gives this guard back; if it is the last one, releases the lock and waits until the ensemble has carried that out.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the lock had been lost before, also if this is not the last guard.
    /// The others of [`Guard::release`] for the last one.
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
    /// One round trip for the last guard, nothing for the others.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let path = self.path().clone();
        let loss = self.holding.loss();
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

fn lock(owner: &Mutex<Owner>) -> MutexGuard<'_, Owner> {
    owner.lock().unwrap_or_else(PoisonError::into_inner)
}
