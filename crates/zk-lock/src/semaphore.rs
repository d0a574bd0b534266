//! A lock for so many at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zk_core::Acl;
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
pub use self::lease::Lease;

use self::error::Standing;

/// Leases of which there are so many, over all processes that use the same path, granted in the order of arrival.
///
/// Several leases are acquired all or none, and no part of them is held while the rest is waited for: two who want two
/// of two never wait for each other.
/// As the order is kept, one who waits for many keeps those behind it waiting, also while there would be room for them.
///
/// # Limit
///
/// How many leases there are is stored in the ensemble, once for all.
/// The first one to use the semaphore stores its own limit; whoever comes with another one gets
/// [`AcquireLeaseError::LimitDiffers`] at its first use, unless it is [`adopting`](Self::adopting).
/// From then on what is stored counts, and [`set_limit`](Self::set_limit) changes it for everyone.
///
/// # Layout of the nodes
///
/// ```text
/// /semaphores/db                                    persistent; its data is the limit, in decimal digits
/// ├── locks                                         container: who waits, in the layout of a FairLock
/// │   └── _c_9b0a2f1e-…-lock-0000000008             ephemeral
/// └── leases                                        container: one node for each lease
///     └── _c_51c7d0aa-…-lease-0000000003            ephemeral
/// ```
///
/// It is that of Curator's `InterProcessSemaphoreV2`; they and we count each other's leases on one path, and wait in one
/// queue.
/// Curator does not know the limit that is stored: it goes by its own number, and should be given the same one.
/// With a higher number it takes leases although there are as many as our limit, and we wait then; with a lower one, the
/// other way round.
/// Curator acquires several leases one at a time, and holds the first ones while it waits: two of its clients, or one of
/// them and one of ours, may then wait for each other, which their time limits have to end.
/// It counts whatever is below `leases`; we only what has the name of a lease.
///
/// The node at the path stays when nobody uses it, because it has a setting; delete it to forget the limit.
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
    /// Who waits. Its first one is the one that takes leases, or waits for some to be given back.
    queue: Queue,
    /// The leases, in no order.
    leases: Queue,
    /// The limit that the caller gave.
    own: u32,
    adopts: bool,
    /// Whether the limit that is stored was once seen to be ours.
    agreed: Arc<AtomicBool>,
}

impl Semaphore {
    /// Makes a handle to the semaphore at `path`, with default options.
    ///
    /// `limit` is how many leases there are, if none is stored yet.
    /// The node at the path is made when it is needed, and stays; its parents are made as containers where servers know
    /// containers.
    /// Use the path for nothing else.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P, limit: u32) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_options(session, path, limit, LockOptions::default())
    }

    /// Makes a handle to the semaphore at `path`.
    ///
    /// The [layout](LockOptions::with_layout) does not count: there is one.
    ///
    /// # Errors
    ///
    /// When `path` is none.
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
            let stem = options.layout().mutex();
            Queue::new(session, path.join(name)?, stem, Arc::new(options))
        };
        let (waiters, leases) = (Layout::curator(), Layout::leases());
        Ok(Self {
            queue: queue("locks", options.clone().with_layout(waiters))?,
            leases: queue("leases", options.with_layout(leases))?,
            path,
            own: limit,
            adopts: false,
            agreed: Arc::default(),
        })
    }

    /// Goes by the limit that is stored, whatever it is; the own one counts only if none is stored yet.
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

    /// Waits for a lease, for as long as it takes.
    ///
    /// Once in the queue, the place is kept while the connection is broken, until the session is over.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::LimitDiffers`], [`AcquireLeaseError::BadLimit`], and [`AcquireLeaseError::TooMany`] for a
    /// limit of zero.
    /// [`AcquireLeaseError::Acquire`] when the ensemble could not be asked, or somebody deleted our nodes.
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost; what was made is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`](crate::AcquireError::SessionLost) in an [`AcquireLeaseError::Acquire`], also while
    /// waiting.
    ///
    /// # Cost
    ///
    /// Two round trips if there is room and nobody waits: a write and two reads, then another write and two reads, and
    /// a write behind them that is not waited for. The first use of the handle takes one more, or two to make the node.
    /// The first one of those who wait has two watches, and so has each other one.
    /// Leases given back wake the first one of them only.
    pub async fn acquire(&self) -> Result<Lease, AcquireLeaseError> {
        self.acquire_many(1).await
    }

    /// Waits for several leases, all or none, for as long as it takes.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::TooMany`] at once when there are fewer in all, and, when the limit was set so low meanwhile,
    /// as soon as this is the first one of those who wait;
    /// [`AcquireLeaseError::Nothing`] for zero; and those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// That of [`acquire`](Self::acquire).
    ///
    /// # Session loss
    ///
    /// That of [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), with one write for each lease; they are in flight at the same time.
    pub async fn acquire_many(&self, count: u32) -> Result<Lease, AcquireLeaseError> {
        self.acquire_noting(count, &mut Standing::default()).await
    }

    /// Takes a lease if there is one and nobody waits for one, and answers `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another holder or waiter.
    /// So it also answers `None` while another one is just being granted its lease.
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
    /// That of [`acquire`](Self::acquire), and up to one round trip more to remove what was made.
    pub async fn try_acquire(&self) -> Result<Option<Lease>, AcquireLeaseError> {
        self.try_acquire_many(1).await
    }

    /// Takes several leases if there are so many and nobody waits, and answers `None` otherwise.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// That of [`try_acquire`](Self::try_acquire).
    ///
    /// # Session loss
    ///
    /// That of [`acquire`](Self::acquire).
    ///
    /// # Cost
    ///
    /// That of [`try_acquire`](Self::try_acquire), with one write for each lease.
    pub async fn try_acquire_many(&self, count: u32) -> Result<Option<Lease>, AcquireLeaseError> {
        let (waiters, leases) = (self.queue.remains(), self.leases.remains());
        let enlisted = self.enlist(count).await?;
        match self.queue.try_once(enlisted, &waiters).await? {
            Some(granted) => self.try_reserve(granted, count, &leases).await,
            None => Ok(None),
        }
    }

    /// Waits for a lease, for at most `within` over all.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::TimedOut`], and those of [`acquire`](Self::acquire).
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
    /// That of [`acquire`](Self::acquire), and one write for each node when the time is up.
    pub async fn acquire_timeout(&self, within: Duration) -> Result<Lease, AcquireLeaseError> {
        self.acquire_many_timeout(1, within).await
    }

    /// Waits for several leases, all or none, for at most `within` over all.
    ///
    /// # Errors
    ///
    /// [`AcquireLeaseError::TimedOut`], and those of [`acquire_many`](Self::acquire_many).
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
    /// That of [`acquire_timeout`](Self::acquire_timeout).
    pub async fn acquire_many_timeout(
        &self,
        count: u32,
        within: Duration,
    ) -> Result<Lease, AcquireLeaseError> {
        let mut standing = Standing::default();
        let acquired =
            tokio::time::timeout(within, self.acquire_noting(count, &mut standing)).await;
        acquired.unwrap_or_else(|_| {
            Err(AcquireLeaseError::TimedOut(LeaseTimedOut {
                path: self.path.clone(),
                within,
                ahead: standing.progress.ahead(),
                taken: standing.taken,
            }))
        })
    }

    /// Lists the leases that are held, in the order in which their nodes were made.
    ///
    /// The last ones may be those of the first waiter, which has its nodes made before there is room for them.
    /// It is a picture of the past, as that of [`FairLock::contenders`](crate::FairLock::contenders).
    ///
    /// # Errors
    ///
    /// When the nodes cannot be read. A semaphore that was never used has no leases, which is no error.
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
    /// One round trip for the list, and one for every 64 leases, which are read at the same time.
    pub async fn leases(&self) -> Result<Vec<Contender>, Error> {
        self.leases.contenders().await
    }

    /// Lists those who wait for leases, first come first.
    ///
    /// # Errors
    ///
    /// Those of [`leases`](Self::leases).
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
    /// That of [`leases`](Self::leases).
    pub async fn waiters(&self) -> Result<Vec<Contender>, Error> {
        self.queue.contenders().await
    }

    async fn acquire_noting(
        &self,
        count: u32,
        standing: &mut Standing,
    ) -> Result<Lease, AcquireLeaseError> {
        let enlisted = self.enlist(count).await?;
        let first = self.queue.wait(enlisted, &standing.progress).await?;
        self.reserve(first, count, standing).await
    }

    fn acl(&self) -> Option<&Acl> {
        self.queue.acl()
    }
}
