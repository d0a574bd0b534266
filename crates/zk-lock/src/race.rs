//! The lock without a queue.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::error::TimedOut;
use crate::guard::FencingToken;
use crate::guard::Guard;
use crate::node_monitor;
use crate::options::LockOptions;
use crate::retry::Remains;
use crate::retry::changed;
use crate::retry::patiently;
use crate::retry::proved;

/// An exclusive lock over all processes that use the same path, for which all waiters race.
///
/// Whoever makes the one ephemeral node at the path holds the lock; all others watch that node and try again when it
/// goes.
/// Use a [`FairLock`](crate::FairLock) unless you know why not: it costs less as soon as two wait, and nobody starves.
/// This one is for a handful of contenders that want nothing but one of them to go on, whoever it is, and for paths on
/// which other programs do the same.
/// It excludes everyone who holds the lock by a node at exactly this path, which is what many a script does; it does not
/// exclude a `FairLock`, whose nodes are below its path.
///
/// All holders have a node of the same name, and a transaction can check names and versions only: it cannot tell one
/// holder from the next one, and [`RaceGuard`] starts none.
/// The [fencing token](RaceGuard::fencing_token) tells them apart.
///
/// # Fairness
///
/// None: each release is a new race, which the contenders near the leader tend to win, and a waiter may wait for ever.
///
/// # Cost
///
/// A release wakes all `n` waiters.
/// Each of them sends a create, of which the leader refuses all but one, and the others read the node again to watch it:
/// `n` notifications, `n` writes and `n - 1` reads for each time the lock changes hands, where a `FairLock` has one
/// notification, one write and one read, whatever the number of waiters.
/// The node is one: nothing else is made.
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
}

impl RaceLock {
    /// Makes a handle to the lock whose node is at `path`, with default options.
    ///
    /// Its parents are made when they are needed, as containers where servers know containers.
    /// Use the path for nothing else.
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

    /// Makes a handle to the lock whose node is at `path`.
    ///
    /// The [layout](LockOptions::with_layout) does not count.
    /// The node's data is the [owner](LockOptions::with_owner), a space and a `#` with a number that differs for each
    /// attempt of this process.
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
            session: session.clone(),
            path: path.try_into().map_err(Into::into)?,
            options: Arc::new(options),
        })
    }

    /// Returns the path of the lock, which is that of its node.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Waits for the lock, for as long as it takes, which may be for ever.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Failed`] when the ensemble could not be asked within the session's operation timeout, or refuses
    /// to create or read the node.
    /// [`AcquireError::NodeLost`] when somebody deleted our node before it was granted.
    ///
    /// # Cancel safety
    ///
    /// Safe; a node that was made, or will be, is removed in the background, see [`RaceGuard`].
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// One round trip for a lock that is free.
    /// A waiter leaves one watch, and each release costs it two round trips, see [`RaceLock`].
    pub async fn acquire(&self) -> Result<RaceGuard, AcquireError> {
        self.acquire_noting(&mut None).await
    }

    /// Takes the lock if nobody holds it, and answers `None` otherwise.
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
    /// [`AcquireError::SessionLost`].
    ///
    /// # Cost
    ///
    /// One round trip, or two fifths of the session timeout after a minute of idleness; three more if this session is still removing its node of an earlier holding.
    pub async fn try_acquire(&self) -> Result<Option<RaceGuard>, AcquireError> {
        let remains = Remains::at(&self.session, &self.path);
        let _standby = self.session.stand_by();
        let mut claimed = self.claim().await?;
        // The node of a dropped guard is looked at before it is deleted, and may be there for a moment.
        if claimed.is_none() && remains.are_gone().await {
            claimed = self.claim().await?;
        }
        match claimed {
            Some(node) => self.granted(node).await.map(Some),
            None => Ok(None),
        }
    }

    /// Waits for the lock, for at most `limit` over all.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], and those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// That of [`acquire`](Self::acquire), also when the time is up.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<RaceGuard, AcquireError> {
        let mut ahead = None;
        let acquired = tokio::time::timeout(limit, self.acquire_noting(&mut ahead)).await;
        acquired.unwrap_or_else(|_| {
            let path = self.path.clone();
            Err(AcquireError::TimedOut(TimedOut { path, limit, ahead }))
        })
    }

    async fn acquire_noting(&self, ahead: &mut Option<Ahead>) -> Result<RaceGuard, AcquireError> {
        // A wait, however long, ends with the turn and not with a proof that the session is alive.
        let _standby = self.session.stand_by();
        let mut claimed = self.claim().await;
        loop {
            match claimed {
                Ok(Some(node)) => {
                    *ahead = Some(Ahead::new(0));
                    return self.granted(node).await;
                }
                Ok(None) => *ahead = Some(Ahead::new(1)),
                // Whoever has begun to wait waits as long as the session lives.
                Err(AcquireError::Failed(error))
                    if ahead.is_some() && error.class() == ErrorClass::Recoverable =>
                {
                    tracing::debug!(%error, "a waiter tries again");
                }
                Err(error) => return Err(error),
            }
            // A read of a node that is gone leaves no watch, and its creation would be of no interest.
            let read = || self.session.get(&self.path).watched().into_future();
            match patiently(&self.session, read).await {
                Ok((_, _, watch)) => changed(&self.session, watch).await?,
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
            claimed = self.claim().await;
        }
    }

    /// Makes the node, if there is none.
    async fn claim(&self) -> Result<Option<OwnedNode>, AcquireError> {
        // Unique in this process, and a node of this session is made by this process: together with the session, which
        // the node tells as well, it tells whose work a node is. Two tasks of one session are told apart by it.
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

    /// Makes sure that the session is alive, and the node with it.
    async fn granted(&self, node: OwnedNode) -> Result<RaceGuard, AcquireError> {
        let trusted = self.session.keep_trusted();
        while !trusted.is_lasting() {
            proved(&self.session, &trusted).await?;
            let look = || self.session.exists(&self.path).into_future();
            let found = patiently(&self.session, look).await?;
            if found.is_none_or(|stat| stat.czxid != node.stat().czxid) {
                let loss = node_monitor::why_gone(&self.session).await;
                return Err(AcquireError::gone(loss, node.path()));
            }
        }
        let guard = Guard::new(self.session.clone(), node, trusted);
        tracing::debug!(path = %guard.path(), token = %guard.fencing_token(), "lock acquired");
        Ok(RaceGuard { guard })
    }
}

/// A [`RaceLock`] that is held.
///
/// All of what is said of a [`Guard`] is true of it, too, but that it starts no transaction.
///
/// # Dropping
///
/// As of a [`Guard`].
#[derive(Debug)]
#[must_use = "the lock is released when the guard is dropped"]
pub struct RaceGuard {
    guard: Guard,
}

impl RaceGuard {
    /// Returns a number that is higher for every later holder of the lock, see [`Guard::fencing_token`].
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Returns the path of the lock's node, which is that of the lock.
    pub fn path(&self) -> &NodePath {
        self.guard.path()
    }

    /// Returns a future that resolves when the lock is lost, or no longer known to be held; see [`Guard::lost`].
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.guard.lost()
    }

    /// Tells whether the lock is certainly held, as far as this client has proof; see [`Guard::is_trusted`].
    pub fn is_trusted(&self) -> bool {
        self.guard.is_trusted()
    }

    /// Returns the instant until which the lock is certainly held; see [`Guard::trusted_until`].
    pub fn trusted_until(&self) -> Option<Instant> {
        self.guard.trusted_until()
    }

    /// Releases the lock and waits until the ensemble has carried that out.
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`].
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
    /// Two round trips: the node is looked at before it is deleted, since it may be that of another holder by now.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }
}
