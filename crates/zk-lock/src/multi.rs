//! Acquires several locks as one.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use std::time::Instant;

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Transaction;

use crate::error::AcquireError;
use crate::error::LockLoss;
use crate::error::TimedOut;
use crate::fair::FairLock;
use crate::guard::Guard;
use crate::guard_set::GuardSet;
use crate::guard_set::LostGuard;
use crate::guard_set::ReleaseErrors;
use crate::guard_set::first_lost;
use crate::queue;

/// Several [`FairLock`]s, acquired all or none.
///
/// The locks are acquired one after the other, ordered by their full paths. All callers take shared locks in the same
/// order, so they cannot deadlock.
/// That holds among users of `MultiLock`, and programs that keep to the same order.
///
/// The locks may belong to different ensembles and sessions.
/// Equal paths of different ensembles are ordered by the names of their servers. In that case, use the same server
/// names for each ensemble in all processes; the order of the servers does not matter.
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
    /// In acquisition order; at least one.
    locks: Vec<FairLock>,
}

impl MultiLock {
    /// Combines several locks, given in any order.
    ///
    /// # Errors
    ///
    /// - [`MultiLockError::Duplicate`] if two locks are of the same node: they would wait for each other.
    /// - [`MultiLockError::Empty`] if there is no lock.
    pub fn new(locks: impl IntoIterator<Item = FairLock>) -> Result<Self, MultiLockError> {
        let mut ordered = BTreeMap::new();
        for lock in locks {
            let path = lock.path().clone();
            if ordered.insert(LockSortKey::of(&lock), lock).is_some() {
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

    /// Returns the locks in acquisition order.
    pub fn locks(&self) -> &[FairLock] {
        &self.locks
    }

    /// Waits for all locks, without a time limit.
    ///
    /// While it waits for one lock, it holds those before it.
    ///
    /// # Errors
    ///
    /// A [`MultiAcquireError`] that names the first lock that could not be acquired, or that was lost again while later
    /// locks were waited for. Locks already acquired are released in the background.
    /// Its [`class`](MultiAcquireError::class) is fatal if the session is over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue and releases all locks in the background.
    ///
    ///
    /// # Cost
    ///
    /// That of [`FairLock::acquire`] for each lock, one after the other.
    pub async fn acquire(&self) -> Result<MultiGuard, MultiAcquireError> {
        self.acquire_reporting_to(&mut MultiProgress::default())
            .await
    }

    /// Waits for all locks, for at most `limit`.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] in an error that names the lock that was waited for; and the errors of
    /// [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write for each acquired lock on a timeout.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<MultiGuard, MultiAcquireError> {
        let mut progress = MultiProgress::default();
        let acquired = tokio::time::timeout(limit, self.acquire_reporting_to(&mut progress)).await;
        acquired.unwrap_or_else(|_| {
            // Past the last lock, it waited for the proof that all are held.
            let at = progress.at.min(self.locks.len() - 1);
            let path = self.locks[at].path().clone();
            let ahead = progress.queue.ahead();
            Err(MultiAcquireError::Acquire {
                path: path.clone(),
                source: AcquireError::TimedOut(TimedOut { path, limit, ahead }),
            })
        })
    }

    /// Takes all locks if none of them has a holder or a waiter; returns `None` otherwise.
    ///
    /// Before it returns `None`, it releases the locks that it acquired.
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
    /// That of [`FairLock::try_acquire`] for each lock up to the first one that is taken, and one round trip more to
    /// release the others.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, MultiAcquireError> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            let tried = lock.try_acquire().await;
            let tried = tried.map_err(|source| MultiAcquireError::of(lock, source))?;
            let Some(guard) = tried else {
                // Awaited, so that the next attempt of the same caller does not find its own nodes.
                if !guards.is_empty()
                    && let Err(error) = GuardSet::new(guards).release().await
                {
                    tracing::debug!(%error, "locks of a failed attempt are released in the background");
                }
                return Ok(None);
            };
            guards.push(guard);
        }
        MultiGuard::new(guards).await.map(Some)
    }

    async fn acquire_reporting_to(
        &self,
        progress: &mut MultiProgress,
    ) -> Result<MultiGuard, MultiAcquireError> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            progress.queue = queue::QueueProgress::default();
            let acquired = tokio::select! {
                biased;
                lost = first_lost(&guards) => return Err(lost.into()),
                acquired = lock.acquire_reporting_to(&progress.queue) => acquired,
            };
            let acquired = acquired.map_err(|source| MultiAcquireError::of(lock, source))?;
            guards.push(acquired);
            progress.at += 1;
        }
        MultiGuard::new(guards).await
    }
}

/// The progress of an acquire, for the error of a timeout.
#[derive(Debug, Default)]
struct MultiProgress {
    /// How many locks are acquired.
    at: usize,
    /// The progress in the queue of the next one.
    queue: queue::QueueProgress,
}

/// The order of the locks: by full path, then by servers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockSortKey {
    path: String,
    servers: Vec<String>,
}

impl LockSortKey {
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

/// Several held locks.
///
/// # Dropping
///
/// Releases all locks in the background, like a [`Guard`].
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    guards: GuardSet,
}

impl MultiGuard {
    async fn new(guards: Vec<Guard>) -> Result<Self, MultiAcquireError> {
        let guards = GuardSet::new(guards);
        // The locks were acquired one after the other; the session of an early one may have been cut off since.
        guards.prove_alive().await?;
        Ok(Self { guards })
    }

    /// Returns the guard of each lock, in the order of [`MultiLock::locks`].
    ///
    /// Each has its own fencing token; pass each resource the token of the lock that protects it.
    pub fn guards(&self) -> &[Guard] {
        self.guards.as_slice()
    }

    /// Returns a future that resolves when the first of the locks is lost, or no longer known to be held.
    ///
    /// Otherwise it behaves like [`Guard::lost`]. Query [`guards`](Self::guards) for which lock it was.
    pub fn lost(&self) -> impl Future<Output = LockLoss> + Send + use<> {
        self.guards.lost()
    }

    /// Returns whether all locks are certainly held, see [`Guard::is_valid`].
    pub fn is_valid(&self) -> bool {
        self.guards.is_valid()
    }

    /// Returns the instant until which all locks are certainly held, see [`Guard::valid_until`].
    pub fn valid_until(&self) -> Option<Instant> {
        self.guards.valid_until()
    }

    /// Starts a transaction that fails unless all locks are held when the ensemble executes it.
    ///
    /// Its first parts check the nodes of the locks, see [`Guard::txn`].
    ///
    /// # Errors
    ///
    /// [`MultipleSessions`] if the locks belong to different sessions or namespaces: one transaction cannot check them.
    pub fn txn(&self) -> Result<Transaction, MultipleSessions> {
        let sessions = || self.guards().iter().map(|guard| &guard.held().session);
        let Some(first) = sessions().next() else {
            return Err(MultipleSessions);
        };
        let is_one = |other: &zk_core::Session| {
            (other.id(), other.namespace()) == (first.id(), first.namespace())
        };
        if sessions().all(is_one) {
            Ok(self.guards.checked(first.transaction()))
        } else {
            Err(MultipleSessions)
        }
    }

    /// Releases all locks concurrently and waits until the ensembles have deleted their nodes.
    ///
    /// # Errors
    ///
    /// The error of each release that failed, see [`Guard::release`]. All locks are released regardless.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The release continues in the background.
    ///
    /// # Cost
    ///
    /// One round trip: the requests are in flight concurrently.
    pub async fn release(self) -> Result<(), ReleaseErrors> {
        self.guards.release().await
    }
}

/// Locks that cannot be combined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MultiLockError {
    /// Two of them are of the same node.
    #[error("two locks of {path} were given, which would wait for each other; give it once")]
    Duplicate {
        /// The path of the lock.
        path: NodePath,
    },
    /// No lock was given.
    #[error("no lock was given; give at least one")]
    Empty,
}

/// Several locks were not acquired. Leftovers of the attempt are removed in the background.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum MultiAcquireError {
    /// One of the locks could not be acquired.
    #[error("lock {path} of several was not acquired")]
    Acquire {
        /// The path of the lock.
        path: NodePath,
        /// The error of that lock.
        source: AcquireError,
    },
    /// One of the locks was acquired, and lost while later ones were waited for.
    #[error("lock node {node} was lost while other locks were waited for: {loss}")]
    Lost {
        /// The node of the lock.
        node: NodePath,
        /// Why it was lost.
        loss: LockLoss,
    },
}

impl MultiAcquireError {
    fn of(lock: &FairLock, source: AcquireError) -> Self {
        Self::Acquire {
            path: lock.path().clone(),
            source,
        }
    }

    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Acquire { source, .. } => source.class(),
            Self::Lost { loss, .. } => loss.class(),
        }
    }

    /// Returns whether the time limit elapsed.
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

impl From<LostGuard> for MultiAcquireError {
    fn from(LostGuard { node, loss }: LostGuard) -> Self {
        Self::Lost { node, loss }
    }
}

/// One transaction cannot check locks of several sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct MultipleSessions;

impl fmt::Display for MultipleSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "the locks belong to several sessions or namespaces; use one transaction for each session"
        )
    }
}

impl std::error::Error for MultipleSessions {}
