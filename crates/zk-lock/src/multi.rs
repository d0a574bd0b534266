//! Several locks as one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use std::time::Instant;

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Transaction;

use crate::error::AcquireError;
use crate::error::Loss;
use crate::error::TimedOut;
use crate::fair::FairLock;
use crate::guard::Guard;
use crate::guard_set::Guards;
use crate::guard_set::Lost;
use crate::guard_set::ReleaseErrors;
use crate::guard_set::one_is_lost;
use crate::queue;

/// Several [`FairLock`]s, acquired all or none.
///
/// They are acquired one after the other, in the order of their full paths, whatever order they were given in: whoever
/// needs some of the same locks takes them in the same order, so that no two wait for each other.
/// That holds among those who use `MultiLock`, or keep to this order by themselves.
///
/// The locks may be of different ensembles and sessions.
/// Equal paths of different ensembles are ordered by the names of their servers, so give each ensemble the same names
/// everywhere then; the order of the servers does not matter.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::FairLock;
/// use zk_lock::MultiLock;
///
/// let from = FairLock::new(&session, "/accounts/7/lock")?;
/// let to = FairLock::new(&session, "/accounts/3/lock")?;
/// let both = MultiLock::new([from, to])?;
/// let guard = both.acquire().await?;
/// guard.txn()?.set("/accounts/7", "30").set("/accounts/3", "70").commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MultiLock {
    /// In the order in which they are acquired; at least one.
    locks: Vec<FairLock>,
}

impl MultiLock {
    /// Makes one lock of several, whose order does not matter.
    ///
    /// # Errors
    ///
    /// [`MultiLockError::Duplicate`] when two locks are of the same node, which would wait for each other;
    /// [`MultiLockError::Empty`] when there is no lock.
    pub fn new(locks: impl IntoIterator<Item = FairLock>) -> Result<Self, MultiLockError> {
        let mut ordered = BTreeMap::new();
        for lock in locks {
            let path = lock.path().clone();
            if ordered.insert(Place::of(&lock), lock).is_some() {
                return Err(MultiLockError::Duplicate { path });
            }
        }
        if ordered.is_empty() {
            return Err(MultiLockError::Empty);
        }
        Ok(Self {
            locks: ordered.into_values().collect(),
        })
    }

    /// Returns the locks in the order in which they are acquired.
    pub fn locks(&self) -> &[FairLock] {
        &self.locks
    }

    /// Waits for all locks, for as long as it takes.
    ///
    /// While it waits for one it holds those before it.
    ///
    /// # Errors
    ///
    /// At the first lock that cannot be acquired, or is lost again while the next ones are waited for: the error names
    /// it, and what was acquired until then is given back in the background.
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost, and everything is given back in the background, see [`Guard`].
    ///
    /// # Session loss
    ///
    /// An error whose [`class`](MultiAcquireError::class) is fatal, also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`FairLock::acquire`] for each lock, one after the other.
    pub async fn acquire(&self) -> Result<MultiGuard, MultiAcquireError> {
        self.acquire_noting(&mut Progress::default()).await
    }

    /// Waits for all locks, for at most `limit` over all of them.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] in an error that names the lock that was waited for when the time was up, and those of
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// That of [`acquire`](Self::acquire), also when the time is up.
    ///
    /// # Session loss
    ///
    /// That of [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write for each lock acquired when the time is up.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<MultiGuard, MultiAcquireError> {
        let mut progress = Progress::default();
        let acquired = tokio::time::timeout(limit, self.acquire_noting(&mut progress)).await;
        acquired.unwrap_or_else(|_| {
            // Past the last one, only their proof was waited for.
            let at = progress.at.min(self.locks.len() - 1);
            let path = self.locks[at].path().clone();
            let ahead = progress.queue.ahead();
            Err(MultiAcquireError::Acquire {
                path: path.clone(),
                source: AcquireError::TimedOut(TimedOut { path, limit, ahead }),
            })
        })
    }

    /// Takes all locks if nobody holds one of them or waits for it, and answers `None` otherwise.
    ///
    /// When it answers `None`, what had been acquired is released.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is held; what is left of the attempt is removed in the background.
    ///
    /// # Session loss
    ///
    /// That of [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`FairLock::try_acquire`] for each lock up to the first one that is taken, and one round trip more to
    /// give back what was acquired.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, MultiAcquireError> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            let tried = lock.try_acquire().await;
            let tried = tried.map_err(|source| MultiAcquireError::of(lock, source))?;
            let Some(guard) = tried else {
                // Waited for, so that the next try of the same caller does not find its own nodes.
                if !guards.is_empty()
                    && let Err(error) = Guards::new(guards).release().await
                {
                    tracing::debug!(%error, "a try for several locks gives back the first of them later");
                }
                return Ok(None);
            };
            guards.push(guard);
        }
        MultiGuard::proved(guards).await.map(Some)
    }

    async fn acquire_noting(
        &self,
        progress: &mut Progress,
    ) -> Result<MultiGuard, MultiAcquireError> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            progress.queue = queue::Progress::default();
            let acquired = tokio::select! {
                biased;
                lost = one_is_lost(&guards) => return Err(lost.into()),
                acquired = lock.acquire_noting(&progress.queue) => acquired,
            };
            let acquired = acquired.map_err(|source| MultiAcquireError::of(lock, source))?;
            guards.push(acquired);
            progress.at += 1;
        }
        MultiGuard::proved(guards).await
    }
}

/// How far an acquire has come, for those who give up.
#[derive(Debug, Default)]
struct Progress {
    /// How many locks are acquired.
    at: usize,
    /// In the queue of the next one.
    queue: queue::Progress,
}

/// What gives the locks their order: the full path, and then the servers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    path: String,
    servers: Vec<String>,
}

impl Place {
    fn of(lock: &FairLock) -> Self {
        let session = lock.session();
        let servers = session.servers();
        let parts = [servers.chroot(), session.namespace(), lock.path()];
        let path = parts
            .into_iter()
            .filter(|part| !part.is_root())
            .map(NodePath::as_str)
            .collect();
        let mut servers: Vec<_> = servers.servers().iter().map(ToString::to_string).collect();
        servers.sort();
        servers.dedup();
        Self { path, servers }
    }
}

/// Several locks that are held.
///
/// # Dropping
///
/// As of each [`Guard`]: all are released in the background.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    guards: Guards,
}

impl MultiGuard {
    async fn proved(guards: Vec<Guard>) -> Result<Self, MultiAcquireError> {
        let guards = Guards::new(guards);
        // They were acquired one after the other, maybe by sessions of which the first one was cut off since.
        guards.proved().await?;
        Ok(Self { guards })
    }

    /// Returns the guard of each lock, in the order of [`MultiLock::locks`].
    ///
    /// Each has a fencing token of its own; the resource that one lock protects gets the token of that lock.
    pub fn guards(&self) -> &[Guard] {
        self.guards.as_slice()
    }

    /// Returns a future that resolves when the first of the locks is lost, or no longer known to be held.
    ///
    /// It is that of [`Guard::lost`] otherwise; [`guards`](Self::guards) tell which one it was.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.guards.lost()
    }

    /// Tells whether all locks are certainly held, see [`Guard::is_trusted`].
    pub fn is_trusted(&self) -> bool {
        self.guards.is_trusted()
    }

    /// Returns the instant until which all locks are certainly held, see [`Guard::trusted_until`].
    pub fn trusted_until(&self) -> Option<Instant> {
        self.guards.trusted_until()
    }

    /// Starts a transaction that is refused unless all locks are held at the moment the ensemble carries it out.
    ///
    /// Its first parts check the nodes of the locks, see [`Guard::txn`].
    ///
    /// # Errors
    ///
    /// [`SeveralSessions`] when the locks are of different sessions or views of one: one transaction cannot check them.
    pub fn txn(&self) -> Result<Transaction, SeveralSessions> {
        let sessions = || self.guards().iter().map(|guard| &guard.held().session);
        let Some(first) = sessions().next() else {
            return Err(SeveralSessions);
        };
        let is_one = |other: &zk_core::Session| {
            (other.id(), other.namespace()) == (first.id(), first.namespace())
        };
        if sessions().all(is_one) {
            Ok(self.guards.checked(first.transaction()))
        } else {
            Err(SeveralSessions)
        }
    }

    /// Releases all locks at the same time and waits until the ensembles have carried that out.
    ///
    /// # Errors
    ///
    /// All that went wrong, see [`Guard::release`]; an error of one does not keep another one from being released.
    ///
    /// # Cancel safety
    ///
    /// Safe, the releases continue in the background.
    ///
    /// # Session loss
    ///
    /// [`ReleaseError::Lost`](crate::ReleaseError::Lost) for each lock that went with its session.
    ///
    /// # Cost
    ///
    /// One round trip: the requests are in flight at the same time.
    pub async fn release(self) -> Result<(), ReleaseErrors> {
        self.guards.release().await
    }
}

/// Several locks cannot be made one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MultiLockError {
    /// Two of them are of the same node, and would wait for each other.
    #[error("two locks of {path} were given, which would wait for each other; give it once")]
    Duplicate {
        /// The path of the lock.
        path: NodePath,
    },
    /// There is none.
    #[error("no lock was given; give at least one")]
    Empty,
}

/// Several locks were not acquired. Nothing of the attempt is left, or its removal goes on in the background.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MultiAcquireError {
    /// One of the locks could not be acquired.
    #[error("lock {path} of several was not acquired")]
    Acquire {
        /// The path of the lock.
        path: NodePath,
        /// Why.
        source: AcquireError,
    },
    /// One of the locks was acquired, and lost while the next ones were waited for.
    #[error("lock node {node} was lost while other locks were waited for: {loss}")]
    Lost {
        /// The node of the lock.
        node: NodePath,
        /// Why it was lost.
        loss: Loss,
    },
}

impl MultiAcquireError {
    fn of(lock: &FairLock, source: AcquireError) -> Self {
        Self::Acquire {
            path: lock.path().clone(),
            source,
        }
    }

    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Acquire { source, .. } => source.class(),
            Self::Lost { loss, .. } => loss.class(),
        }
    }

    /// Tells whether the time was up.
    pub fn is_timed_out(&self) -> bool {
        matches!(
            self,
            Self::Acquire {
                source: AcquireError::TimedOut(_),
                ..
            }
        )
    }
}

impl From<Lost> for MultiAcquireError {
    fn from(Lost { node, loss }: Lost) -> Self {
        Self::Lost { node, loss }
    }
}

/// One transaction cannot check what several sessions hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct SeveralSessions;

impl fmt::Display for SeveralSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the locks are of several sessions or namespaces, and one transaction checks those of one only",
        )
    }
}

impl std::error::Error for SeveralSessions {}
