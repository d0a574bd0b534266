//! Acquires several locks as one.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use futures_util::future;
use zk_core::{NodePath, Transaction};

use crate::any_lock::{AnyGuard, AnyLock};
use crate::error::{AcquireError, Ahead, ReleaseError, RunError};
use crate::fencing_token::FencingToken;
use crate::guard::{impl_lock_guard, release_all};
use crate::held::HeldLock;
use crate::lock::run_under;
use crate::progress::AcquireProgress;

/// Several locks of any kinds, acquired all or none.
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
/// use zk_lock::AnyLock;
/// use zk_lock::FairLock;
/// use zk_lock::MultiLock;
/// use zk_lock::Semaphore;
///
/// let from = FairLock::new(&session, "/accounts/7/lock")?;
/// let to = FairLock::new(&session, "/accounts/3/lock")?;
/// let both = MultiLock::new([from.clone(), to])?;
/// let guard = both.acquire().await?;
/// guard.txn()?.set("/accounts/7", "30").set("/accounts/3", "70").commit().await?;
/// guard.release().await?;
///
/// let connections = Semaphore::new(&session, "/semaphores/db", 20)?;
/// let mixed = MultiLock::new([AnyLock::from(from), connections.with_count(2).into()])?;
/// mixed.acquire().await?.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct MultiLock {
    /// In acquisition order; at least one.
    locks: Vec<AnyLock>,
}

impl MultiLock {
    /// Combines several locks, given in any order.
    ///
    /// Locks of one kind are given as they are. To combine several kinds, convert each with `AnyLock::from`.
    /// Give several leases of one semaphore as one lock, see [`with_count`](crate::Semaphore::with_count).
    ///
    /// # Errors
    ///
    /// - [`MultiLockError::Duplicate`] if two locks are of the same path: they would wait for each other.
    /// - [`MultiLockError::Empty`] if there is no lock.
    pub fn new<L>(locks: impl IntoIterator<Item = L>) -> Result<Self, MultiLockError>
    where
        L: Into<AnyLock>,
    {
        let mut ordered = BTreeMap::new();
        for lock in locks {
            let lock = lock.into();
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
    pub fn locks(&self) -> &[AnyLock] {
        &self.locks
    }

    /// Waits for all locks, without a time limit.
    ///
    /// While it waits for one lock, it holds those before it.
    ///
    /// # Errors
    ///
    /// The error of the first lock that could not be acquired, or [`AcquireError::Lost`] if a lock was lost again while
    /// later ones were waited for. Locks already acquired are released in the background.
    ///
    /// # Cost
    ///
    /// That of each lock, one after the other.
    pub async fn acquire(&self) -> Result<MultiGuard, AcquireError> {
        self.acquire_reporting_to(&self.new_progress()).await
    }

    /// Waits for all locks, for at most `limit` in all.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`] with the path of the lock that was waited for; and the errors of
    /// [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write for each acquired lock on a timeout.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<MultiGuard, AcquireError> {
        let progress = self.new_progress();
        let acquiring = self.acquire_reporting_to(&progress);
        progress.within(limit, acquiring).await
    }

    /// Waits for all locks, without a time limit, and reports who is ahead of the one that is waited for, see
    /// [`FairLock::acquire_with_progress`](crate::FairLock::acquire_with_progress).
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    pub async fn acquire_with_progress(
        &self,
        on_progress: impl FnMut(&Ahead) + Send,
    ) -> Result<MultiGuard, AcquireError> {
        let progress = self.new_progress();
        let acquiring = self.acquire_reporting_to(&progress);
        progress.observe(acquiring, on_progress).await
    }

    /// Takes all locks if that needs no wait for others; returns `None` otherwise.
    ///
    /// Before it returns `None`, it releases the locks that it acquired.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of a try for each lock up to the first one that is taken, and one round trip more to release the others.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, AcquireError> {
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            let Some(guard) = lock.try_acquire().await? else {
                // Awaited, so that the next attempt of the same caller does not find its own nodes.
                if let Err(error) = release_all(guards).await {
                    tracing::debug!(%error, "locks of a failed attempt are released in the background");
                }
                return Ok(None);
            };
            guards.push(guard);
        }
        MultiGuard::new(guards).await.map(Some)
    }

    /// Waits for all locks, runs `body` under them and releases them, see
    /// [`FairLock::run`](crate::FairLock::run).
    ///
    /// `body` gets the fencing tokens of the locks, in the order of [`locks`](Self::locks); see
    /// [`AnyGuard::fencing_token`].
    ///
    /// # Errors
    ///
    /// - [`RunError::Acquire`] if `body` was not run.
    /// - [`RunError::Lost`] if one of the locks was lost before `body` ended.
    pub async fn run<T, F, B>(&self, body: B) -> Result<T, RunError>
    where
        B: FnOnce(Vec<Option<FencingToken>>) -> F,
        F: Future<Output = T>,
    {
        run_under(self.acquire().await?, body).await
    }

    /// Waits for all locks, for at most `limit` in all, runs `body` under them and releases them, see
    /// [`FairLock::run_timeout`](crate::FairLock::run_timeout).
    ///
    /// # Errors
    ///
    /// - [`RunError::Acquire`] if `body` was not run: with [`AcquireError::TimedOut`], which has the path of the lock
    ///   that was waited for, if the locks were not acquired in time.
    /// - [`RunError::Lost`] if one of the locks was lost before `body` ended.
    pub async fn run_timeout<T, F, B>(&self, limit: Duration, body: B) -> Result<T, RunError>
    where
        B: FnOnce(Vec<Option<FencingToken>>) -> F,
        F: Future<Output = T>,
    {
        run_under(self.acquire_timeout(limit).await?, body).await
    }

    fn new_progress(&self) -> AcquireProgress {
        AcquireProgress::new(self.locks[0].path())
    }

    async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<MultiGuard, AcquireError> {
        let mut guards: Vec<AnyGuard> = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            progress.set_path(lock.path());
            let acquired = tokio::select! {
                biased;
                lost = first_lost(&guards) => return Err(lost),
                acquired = lock.acquire_reporting_to(progress) => acquired?,
            };
            guards.push(acquired);
        }
        MultiGuard::new(guards).await
    }
}

/// Waits until one of the locks is lost for good; pending forever if there are none.
async fn first_lost(guards: &[AnyGuard]) -> AcquireError {
    if guards.is_empty() {
        return future::pending().await;
    }
    let losses = guards.iter().map(|guard| Box::pin(guard.lost_for_good()));
    future::select_all(losses).await.0.into()
}

/// The order of the locks: by full path, then by servers.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockSortKey {
    path: NodePath,
    servers: Vec<String>,
}

impl LockSortKey {
    fn of(lock: &AnyLock) -> Self {
        let session = lock.session();
        let servers = session.servers();
        let path = session.server_path(lock.path());
        let mut servers: Vec<_> = servers.hosts.iter().map(ToString::to_string).collect();
        servers.sort();
        servers.dedup();
        Self { path, servers }
    }
}

/// Several held locks.
///
/// It dereferences to [`HeldLock`], and is lost with the first of its locks.
///
/// # Dropping
///
/// Releases all locks in the background.
#[derive(Debug)]
#[must_use = "the locks are released when the guard is dropped"]
pub struct MultiGuard {
    /// Ends before the guards do, and so before another task of this process gets one of the locks.
    held: HeldLock,
    /// At least one.
    guards: Vec<AnyGuard>,
}

impl_lock_guard!(MultiGuard, Vec<Option<FencingToken>>, fencing_tokens);

impl MultiGuard {
    async fn new(guards: Vec<AnyGuard>) -> Result<Self, AcquireError> {
        let held = HeldLock::of_guards(&guards);
        // The locks were acquired one after the other; the session of an early one may have been cut off since.
        held.prove_all_alive().await?;
        Ok(Self { held, guards })
    }

    /// Returns the guard of each lock, in the order of [`MultiLock::locks`].
    pub fn guards(&self) -> &[AnyGuard] {
        &self.guards
    }

    /// Returns the fencing token of each lock that has one, in the order of [`MultiLock::locks`].
    ///
    /// Pass each resource the token of the lock that protects it.
    pub fn fencing_tokens(&self) -> Vec<Option<FencingToken>> {
        self.guards.iter().map(AnyGuard::fencing_token).collect()
    }

    /// Starts a transaction that fails unless all locks are held when the ensemble executes it.
    ///
    /// Its first parts check the nodes of the locks, see [`Guard::txn`](crate::Guard::txn).
    ///
    /// # Errors
    ///
    /// [`MultiTxnError`] if one transaction cannot check all of the locks.
    pub fn txn(&self) -> Result<Transaction, MultiTxnError> {
        let nodes = self.nodes();
        let session = &nodes[0].session;
        let is_one = |other: &zk_core::Session| {
            (other.id(), other.namespace()) == (session.id(), session.namespace())
        };
        if !nodes.iter().all(|node| is_one(&node.session)) {
            return Err(MultiTxnError::MultipleSessions);
        }
        if let Some(node) = nodes.iter().find(|node| !node.has_unique_name) {
            let path = node.path.clone();
            return Err(MultiTxnError::RaceLock { path });
        }
        Ok(self.with_checks(session.transaction()))
    }

    /// Releases all locks concurrently and waits until the ensembles have deleted their nodes.
    ///
    /// # Errors
    ///
    /// That of the release that failed, or [`ReleaseError::Several`]. All locks are released regardless.
    ///
    /// # Cost
    ///
    /// One round trip: the requests are in flight concurrently.
    pub async fn release(self) -> Result<(), ReleaseError> {
        let Self { held, guards } = self;
        drop(held);
        release_all(guards).await
    }
}

impl Deref for MultiGuard {
    type Target = HeldLock;

    fn deref(&self) -> &HeldLock {
        &self.held
    }
}

/// Locks that cannot be combined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MultiLockError {
    /// Two of them are of the same path.
    #[error("two locks of {path} were given, which would wait for each other; give it once")]
    Duplicate {
        /// The path of the lock.
        path: NodePath,
    },
    /// No lock was given.
    #[error("no lock was given; give at least one")]
    Empty,
}

/// One transaction cannot check all of several locks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MultiTxnError {
    /// They belong to several sessions or namespaces.
    #[error(
        "the locks belong to several sessions or namespaces; use one transaction for each session"
    )]
    MultipleSessions,
    /// One of them is a [`RaceLock`](crate::RaceLock): a transaction cannot distinguish its holders.
    #[error("a transaction cannot check who holds race lock {path}; use its fencing token")]
    RaceLock {
        /// The path of the lock.
        path: NodePath,
    },
}
