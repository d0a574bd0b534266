//! The semaphore: grants up to a limit of leases at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::contender::Contender;
use crate::layout::Layout;
use crate::options::LockOptions;
use crate::queue::Queue;

mod capacity;
mod error;
mod lease;
mod limit;
mod reserve;

pub use self::error::AcquireLeaseError;
pub use self::error::BadLimit;
pub use self::error::LeaseTimedOut;
pub use self::lease::SemaphoreLease;

use self::error::LeaseProgress;

/// Grants up to a limit of leases at a time, among all processes that use the same path, in order of arrival.
///
/// Several leases are acquired all or none: a waiter holds no lease while it waits for more, so two clients that both
/// want two of two leases do not deadlock.
/// Because the order is kept, a waiter that wants many leases also blocks those behind it that would fit.
///
/// # Limit
///
/// The ensemble stores the limit, once for all clients.
/// The first use of the semaphore stores the limit of its handle. A handle with another limit gets
/// [`AcquireLeaseError::LimitDiffers`] at its first use, unless it is [`adopting`](Self::adopting).
/// Afterwards the stored limit applies, and [`set_limit`](Self::set_limit) changes it for all clients.
///
/// # Layout of the nodes
///
/// ```text
/// /semaphores/db                                    persistent; its data is the limit, in decimal digits
/// ├── locks                                         container: the waiters, in the layout of a FairLock
/// │   └── _c_9b0a2f1e-…-lock-0000000008             ephemeral
/// └── leases                                        container: one node for each lease
///     └── _c_51c7d0aa-…-lease-0000000003            ephemeral
/// ```
///
/// This is the layout of Curator's `InterProcessSemaphoreV2`. Curator and this crate count each other's leases on one
/// path and wait in one queue.
/// Curator ignores the stored limit and uses its own number; give it the same one. With a higher number it takes leases
/// beyond our limit, and we wait; with a lower one, it waits while we take leases.
/// Curator acquires several leases one at a time and holds the first ones while it waits. Two of its clients, or one of
/// them and one of ours, may deadlock until a time limit ends the wait.
/// Curator counts every child of `leases`; we count only names of leases.
///
/// The node at the path stays when the semaphore is idle, because it stores the limit; delete it to reset the limit.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::Semaphore;
///
/// let connections = Semaphore::new(&session, "/semaphores/db", 20)?;
/// let lease = connections.acquire().await?;
/// lease.release().await?;
///
/// let many = connections.acquire_many(5).await?;
/// assert_eq!(many.count(), 5);
/// connections.set_limit(30).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Semaphore {
    path: NodePath,
    /// The queue of waiters. Its first contender is the only one that takes leases or waits for released ones.
    queue: Queue,
    /// The leases, in no order.
    leases: Queue,
    /// The limit that the caller gave.
    own_limit: u32,
    adopts: bool,
    /// Whether this handle has accepted the stored limit.
    limit_confirmed: Arc<AtomicBool>,
}

impl Semaphore {
    /// Creates a handle to the semaphore at `path`, with default options.
    ///
    /// `limit` is the number of leases, if none is stored yet.
    /// The node at the path is created on first use and stays. Missing parents are created as container nodes where the
    /// servers support them.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new<P>(session: &Session, path: P, limit: u32) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_options(session, path, limit, LockOptions::default())
    }

    /// Creates a handle to the semaphore at `path`.
    ///
    /// The [layout](LockOptions::with_layout) is ignored.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        limit: u32,
        options: LockOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let queue = |name, options: LockOptions| {
            let prefix = options.layout().mutex();
            Queue::new(session, path.join(name)?, prefix, Arc::new(options))
        };
        let (waiters, leases) = (Layout::curator(), Layout::leases());
        Ok(Self {
            queue: queue("locks", options.clone().with_layout(waiters))?,
            leases: queue("leases", options.with_layout(leases))?,
            path,
            own_limit: limit,
            adopts: false,
            limit_confirmed: Arc::default(),
        })
    }

    /// Accepts any stored limit. The handle's own limit is only used if none is stored yet.
    #[must_use]
    pub fn adopting(mut self) -> Self {
        self.adopts = true;
        self
    }

    /// Returns the path of the semaphore.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the session whose ensemble keeps the semaphore.
    pub fn session(&self) -> &Session {
        &self.queue.session
    }

    /// Waits for a lease, without a time limit.
    ///
    /// Once in the queue, the place is kept until the session is over, also while the connection is broken.
    ///
    /// # Errors
    ///
    /// - [`AcquireLeaseError::LimitDiffers`] and [`AcquireLeaseError::BadLimit`], see [`Semaphore`].
    /// - [`AcquireLeaseError::TooMany`] for a limit of zero.
    /// - [`AcquireLeaseError::Acquire`] if the ensemble could not be reached, or another client deleted our nodes. If
    ///   the session is over, also while waiting, it contains
    ///   [`AcquireError::SessionLost`](crate::AcquireError::SessionLost).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue; created nodes are deleted in the background.
    ///
    /// # Cost
    ///
    /// Two round trips if a lease is free and there is no waiter: a write and two reads, then another write and two
    /// reads, and a write behind them that is not awaited. The first use of the handle takes one more, or two to create
    /// the node. Each waiter has two watches. Released leases wake the first waiter only.
    pub async fn acquire(&self) -> Result<SemaphoreLease, AcquireLeaseError> {
        self.acquire_many(1).await
    }

    /// Waits for several leases, all or none, without a time limit.
    ///
    /// # Errors
    ///
    /// - [`AcquireLeaseError::TooMany`] at once if the limit is lower than `count`. If the limit is lowered later, the
    ///   error is returned as soon as this waiter is the first one.
    /// - [`AcquireLeaseError::ZeroLeases`] for zero.
    /// - The errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), with one write for each lease; they are in flight concurrently.
    pub async fn acquire_many(&self, count: u32) -> Result<SemaphoreLease, AcquireLeaseError> {
        self.acquire_reporting_to(count, &mut LeaseProgress::default())
            .await
    }

    /// Takes a lease if one is free and there is no waiter; returns `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another contender.
    /// It also returns `None` while another contender is just being granted a lease.
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
    /// That of [`acquire`](Self::acquire), and up to one round trip more to remove created nodes.
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreLease>, AcquireLeaseError> {
        self.try_acquire_many(1).await
    }

    /// Takes several leases if that many are free and there is no waiter; returns `None` otherwise.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`try_acquire`](Self::try_acquire).
    ///
    /// # Cost
    ///
    /// That of [`try_acquire`](Self::try_acquire), with one write for each lease.
    pub async fn try_acquire_many(
        &self,
        count: u32,
    ) -> Result<Option<SemaphoreLease>, AcquireLeaseError> {
        let (waiters, leases) = (self.queue.pending_deletes(), self.leases.pending_deletes());
        let enlisted = self.enlist(count).await?;
        match self.queue.take_or_leave(enlisted, &waiters).await? {
            Some(granted) => self.try_reserve(granted, count, &leases).await,
            None => Ok(None),
        }
    }

    /// Waits for a lease, for at most `within`.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::TimedOut`]; and the errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write for each node on a timeout.
    pub async fn acquire_timeout(
        &self,
        within: Duration,
    ) -> Result<SemaphoreLease, AcquireLeaseError> {
        self.acquire_many_timeout(1, within).await
    }

    /// Waits for several leases, all or none, for at most `within`.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::TimedOut`]; and the errors of [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// The same as for [`acquire_timeout`](Self::acquire_timeout).
    pub async fn acquire_many_timeout(
        &self,
        count: u32,
        within: Duration,
    ) -> Result<SemaphoreLease, AcquireLeaseError> {
        let mut progress = LeaseProgress::default();
        let acquired =
            tokio::time::timeout(within, self.acquire_reporting_to(count, &mut progress)).await;
        acquired.unwrap_or_else(|_| {
            Err(AcquireLeaseError::TimedOut(LeaseTimedOut {
                path: self.path.clone(),
                within,
                ahead: progress.queue.ahead(),
                taken: progress.taken,
            }))
        })
    }

    /// Lists the leases, in the order in which their nodes were created.
    ///
    /// The last ones may belong to the first waiter, which creates its nodes before they fit into the limit.
    /// The result may be outdated, like that of [`FairLock::contenders`](crate::FairLock::contenders).
    ///
    /// # Errors
    ///
    /// If the nodes cannot be read. A semaphore that was never used has no leases, which is no error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    ///
    /// # Cost
    ///
    /// One round trip for the list, and one for every 64 leases, which are read concurrently.
    pub async fn leases(&self) -> Result<Vec<Contender>, Error> {
        self.leases.contenders().await
    }

    /// Lists the waiters, in order of arrival.
    ///
    /// # Errors
    ///
    /// The errors of [`leases`](Self::leases).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    ///
    /// # Cost
    ///
    /// The same as for [`leases`](Self::leases).
    pub async fn waiters(&self) -> Result<Vec<Contender>, Error> {
        self.queue.contenders().await
    }

    async fn acquire_reporting_to(
        &self,
        count: u32,
        progress: &mut LeaseProgress,
    ) -> Result<SemaphoreLease, AcquireLeaseError> {
        let enlisted = self.enlist(count).await?;
        let first = self.queue.wait(enlisted, &progress.queue).await?;
        self.reserve(first, count, progress).await
    }
}
