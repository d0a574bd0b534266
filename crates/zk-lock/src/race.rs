//! The lock without a queue: all waiters race for one node.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zk_core::{
    ErrorClass, IntoNodePath, NodePath, OwnedNode, ParsePathError, Session, Watch, WatchEvent,
};

use crate::error::{AcquireError, Ahead, ReleaseError};
use crate::events::{LockEvents, Notifier};
use crate::fencing_token::FencingToken;
use crate::guard::{Granted, Guard, impl_lock_guard};
use crate::held::HeldLock;
use crate::labels::LockKind;
use crate::lock::{Lock, inherent_lock_functions};
use crate::measure::Wait;
use crate::node_monitor::{NodeMonitor, node_lost};
use crate::options::LockOptions;
use crate::pending_deletes::PendingDeletes;
use crate::progress::AcquireProgress;
use crate::retry::{prove_alive, retry_read};

/// An exclusive lock among all processes that use the same path, for which all waiters race.
///
/// The client that creates the one ephemeral node at the path holds the lock. All others watch that node and try again
/// when it is deleted.
/// Prefer a [`FairLock`](crate::FairLock): it costs less as soon as two contenders wait, and no waiter starves.
/// A race lock suits a handful of contenders of which any one may go on, and paths on which other programs race.
/// It excludes every client that locks by creating a node at exactly this path, as many scripts do.
/// It does not exclude a `FairLock`, whose nodes are below its path.
///
/// All holders have a node of the same name. A transaction can only check names and versions, so it cannot distinguish
/// one holder from the next, and a [`RaceGuard`] has no transaction.
/// The [fencing tokens](RaceGuard::fencing_token) of holders differ.
///
/// An [`Inspector`](crate::Inspector) at the path lists no contenders, since the node has no children. To find the
/// holder, read the node: its data begins with the [owner](LockOptions::with_owner), and its stat has the
/// [session](zk_core::Stat::ephemeral_owner).
///
/// # Fairness
///
/// None. Each release is a new race, which contenders near the leader tend to win, and a waiter may wait forever.
///
/// # Cost
///
/// One round trip for a lock that is free, or two fifths of the session timeout after a minute of idleness.
/// A try creates the node without reading first, which would cost a round trip more whenever the lock is free: the leader
/// refuses a second node without changing anything.
/// It takes three round trips more if this session is still deleting its node of an earlier holding.
/// A waiter sets one watch, and each release costs it two round trips.
/// A release wakes all `n` waiters.
/// Each of them sends a create, of which the leader refuses all but one; the others read the node again to watch it.
/// That is `n` notifications, `n` writes and `n - 1` reads for each handover. A `FairLock` has one notification, one
/// write and one read, whatever the number of waiters.
/// The lock consists of one node.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::RaceLock;
///
/// let lock = RaceLock::new(&session, "/locks/warm-up")?;
/// if let Some(guard) = lock.try_acquire().await? {
///     println!("ours, with token {}", guard.fencing_token());
///     guard.release().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RaceLock {
    session: Session,
    path: NodePath,
    options: Arc<LockOptions>,
    notifier: Notifier,
    monitor: NodeMonitor,
}

impl RaceLock {
    /// Creates a handle to the lock whose node is at `path`, with default options.
    ///
    /// Missing parents are created, as container nodes where the servers support them.
    /// Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Self::with_options(session, path, LockOptions::default())
    }

    /// Creates a handle to the lock whose node is at `path`.
    ///
    /// The [layout](LockOptions::with_layout) is ignored.
    /// The node's data is the [owner](LockOptions::with_owner), a space and a `#` with a number that differs for each
    /// attempt of this process.
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
            session: session.clone(),
            path: path.into_node_path()?,
            options: Arc::new(options),
            notifier: Notifier::default(),
            monitor: NodeMonitor::default(),
        })
    }

    inherent_lock_functions!(RaceGuard, FencingToken);

    /// Races for the lock until it is won.
    async fn race(&self, progress: &AcquireProgress) -> Result<RaceGuard, AcquireError> {
        // Keeps the session proved alive, so that no proof has to be awaited after the create.
        let _standby = self.session.stand_by();
        let mut has_waited = false;
        loop {
            match self.claim().await {
                Ok(Some(node)) => {
                    progress.set_ahead(Ahead::new(0));
                    return self.granted(node).await;
                }
                Ok(None) => progress.set_ahead(Ahead::new(1)),
                // Once it waits, a contender waits as long as the session lives.
                Err(AcquireError::Failed(error))
                    if has_waited && error.class() == ErrorClass::Recoverable =>
                {
                    tracing::debug!(%error, "a waiter retries its create");
                }
                Err(error) => return Err(error),
            }
            has_waited = true;
            // Reads the data instead of testing the existence: a read of a missing node sets no watch.
            let read = || self.session.get(&self.path).watched().into_future();
            match retry_read(&self.session, read).await {
                Ok((_, _, watch)) => watch_fired(&self.session, watch).await?,
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the lock if it is free.
    async fn try_once(&self) -> Result<Option<RaceGuard>, AcquireError> {
        let pending = PendingDeletes::at(&self.session, &self.path);
        let _standby = self.session.stand_by();
        let mut claimed = self.claim().await?;
        // The node of a dropped guard is read before it is deleted, so it may still exist for a moment.
        if claimed.is_none() && pending.wait().await {
            claimed = self.claim().await?;
        }
        match claimed {
            Some(node) => self.granted(node).await.map(Some),
            None => Ok(None),
        }
    }

    /// Creates the node, unless there is one.
    async fn claim(&self) -> Result<Option<OwnedNode>, AcquireError> {
        // The number is unique in this process, and nodes of this session are created by this process. Together with
        // the node's session it identifies one attempt, also among tasks of one session.
        static ATTEMPTS: AtomicU64 = AtomicU64::new(0);
        let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
        let mut data = self.options.owner();
        data.extend_from_slice(format!(" #{attempt}").as_bytes());
        let mut create = self.session.create(&self.path, data).container_parents();
        if let Some(acl) = self.options.acl() {
            create = create.acl(acl.clone());
        }
        Ok(create.claimed().await?)
    }

    /// Waits until the session is proved alive and the node is known to exist.
    async fn granted(&self, node: OwnedNode) -> Result<RaceGuard, AcquireError> {
        let session_lease = self.session.keep_lease();
        while !session_lease.is_lasting() {
            prove_alive(&self.session, &session_lease).await?;
            let exists = || self.session.exists(&self.path).into_future();
            let found = retry_read(&self.session, exists).await?;
            if found.is_none_or(|stat| stat.czxid != node.stat().czxid) {
                return Err(node_lost(&self.session, node.path()).await);
            }
        }
        let granted = Granted::new(node, session_lease);
        let guard = Guard::new(&self.session, granted, &self.monitor);
        self.notifier.acquired(&guard);
        Ok(RaceGuard { guard })
    }
}

impl Lock for RaceLock {
    type Guard = RaceGuard;

    fn path(&self) -> &NodePath {
        &self.path
    }

    fn session(&self) -> &Session {
        &self.session
    }

    fn events(&self) -> LockEvents {
        self.notifier.subscribe()
    }

    async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<RaceGuard, AcquireError> {
        let wait = Wait::start(LockKind::Race);
        wait.ended(self.race(progress).await)
    }

    async fn try_acquire(&self) -> Result<Option<RaceGuard>, AcquireError> {
        let wait = Wait::start(LockKind::Race);
        wait.tried(self.try_once().await)
    }
}

/// A held [`RaceLock`].
///
/// It dereferences to [`HeldLock`]. There is no transaction, see [`RaceLock`].
///
/// # Dropping
///
/// The same as for a [`Guard`].
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct RaceGuard {
    guard: Guard,
}

impl_lock_guard!(RaceGuard, FencingToken, fencing_token);

impl RaceGuard {
    /// Returns a number that is higher for every later holder of the lock, see [`Guard::fencing_token`].
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Returns the path of the lock's node, which is also that of the lock.
    pub fn path(&self) -> &NodePath {
        self.guard.path()
    }

    /// Releases the lock and waits until the ensemble has deleted its node.
    ///
    /// # Errors
    ///
    /// The errors of [`Guard::release`].
    ///
    /// # Cost
    ///
    /// Two round trips: the node is read before it is deleted, since it may already be that of another holder.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }
}

impl Deref for RaceGuard {
    type Target = HeldLock;

    fn deref(&self) -> &HeldLock {
        &self.guard
    }
}

/// Waits until a watch fires.
async fn watch_fired(session: &Session, mut watch: Watch) -> Result<(), AcquireError> {
    let event = tokio::select! {
        biased;
        _ = session.lost() => WatchEvent::SessionLost,
        event = watch.changed() => event,
    };
    match event {
        WatchEvent::SessionLost => Err(AcquireError::SessionLost { source: None }),
        _ => Ok(()),
    }
}
