//! A barrier: a node that others wait for until it is removed.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::{Error, IntoNodePath, NodePath, ParsePathError, Session};

/// A barrier: while it is set, all who wait are blocked.
///
/// The barrier is one persistent node. It is set while the node exists, whichever client created it. Curator's
/// `DistributedBarrier` and kazoo's `Barrier` have the same node, and are tested together with this one.
/// It stays set when the process that set it dies; then another process has to [`remove`](Self::remove) it.
///
/// Clones are the same barrier.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_barrier::Barrier;
///
/// let migration = Barrier::new(&session, "/app/migration")?;
/// migration.set().await?;
/// // Another process: migration.wait().await?;
/// migration.remove().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Barrier {
    session: Session,
    path: NodePath,
}

impl Barrier {
    /// Creates a handle to the barrier at `path`. Sends no request.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            path: path.into_node_path()?,
        })
    }

    /// Returns the path of the barrier's node.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Sets the barrier; returns whether this call did, or it was set already.
    ///
    /// Of several concurrent calls exactly one returns true, also if replies are lost: the node's data identifies the
    /// call that created it. Missing parents are created.
    ///
    /// # Errors
    ///
    /// Those of [`Create`](zk_core::Create), except [`NodeExists`](zk_core::ErrorKind::NodeExists).
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the barrier may still be set.
    /// Call [`remove`](Self::remove) to lift it.
    ///
    /// # Session loss
    ///
    /// A fatal error. A barrier that was set stays set.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub async fn set(&self) -> Result<bool, Error> {
        let data = format!("{}-{:016x}", self.session.id(), fastrand::u64(..));
        let create = self.session.create(&self.path, data);
        match create.parents().idempotent().await {
            Ok(_) => Ok(true),
            Err(error) if error.is_node_exists() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the barrier; returns false if it was not set.
    ///
    /// After a lost reply it returns true if the node is gone, whichever client removed it.
    ///
    /// # Errors
    ///
    /// Those of [`Delete`](zk_core::Delete), except [`NoNode`](zk_core::ErrorKind::NoNode).
    /// [`NotEmpty`](zk_core::ErrorKind::NotEmpty) if the node has children; use the path for nothing else.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the barrier may still be removed.
    /// Repeat the call.
    ///
    /// # Cost
    ///
    /// One round trip. Each waiter is notified once and sends nothing more.
    pub async fn remove(&self) -> Result<bool, Error> {
        match self.session.delete(&self.path).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_no_node() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the barrier is set, at some moment during the call.
    ///
    /// # Errors
    ///
    /// Those of [`Exists`](zk_core::Exists) and [`Sync`](zk_core::Sync).
    ///
    /// # Cost
    ///
    /// One read, after a write that changes nothing: without it, a leader that was replaced shows its clients an old state.
    pub async fn is_set(&self) -> Result<bool, Error> {
        self.session.sync(&self.path).with_quorum().await?;
        Ok(self.session.exists(&self.path).await?.is_some())
    }

    /// Waits until the barrier is not set.
    ///
    /// Returns `Ok` only if at some moment during the call the barrier was not set. A barrier that was set before the
    /// call is seen, even if the session's server lags behind. No change of the node other than its deletion ends the
    /// wait. If the barrier is removed and set again, the wait ends.
    /// The wait lasts as long as the session, over connection losses;
    /// [`Sessions::run`](zk_core::Sessions::run) waits on with the next one.
    ///
    /// # Errors
    ///
    /// Those of [`WaitForDeletion`](zk_core::WaitForDeletion) and [`Sync`](zk_core::Sync).
    ///
    /// # Cost
    ///
    /// One read, after a write that changes nothing, and one notification. One watch.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_for(None).await
    }

    /// Waits like [`wait`](Self::wait), at most for `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait), and [`TimedOut`](zk_core::ErrorKind::TimedOut) if the barrier is still set, or
    /// [`NotConnected`](zk_core::ErrorKind::NotConnected) if there is no connection that could tell. The cost is that
    /// of `wait`.
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.wait_for(Some(timeout)).await
    }

    async fn wait_for(&self, timeout: Option<Duration>) -> Result<(), Error> {
        let begin = Instant::now();
        let limited = |default: Duration| match timeout {
            Some(timeout) => default.min(timeout.saturating_sub(begin.elapsed())),
            None => default,
        };
        // A lagging server may not show the node yet, and neither may a leader that was replaced.
        let sync = self.session.sync(&self.path).with_quorum();
        sync.timeout(limited(Duration::MAX)).await?;
        let wait = self.session.wait_for_deletion(&self.path);
        wait.timeout(limited(Duration::MAX)).await
    }
}
