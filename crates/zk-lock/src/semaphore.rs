//! The semaphore: grants up to a limit of leases at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zk_core::{IntoNodePath, NodePath, ParsePathError, Session};

use crate::error::AcquireError;
use crate::events::LockEvents;
use crate::fencing_token::FencingToken;
use crate::inspect::Inspector;
use crate::labels::LockKind;
use crate::layout::Layout;
use crate::lock::{Lock, inherent_lock_functions};
use crate::measure::Wait;
use crate::options::LockOptions;
use crate::progress::AcquireProgress;
use crate::queue::Queue;

mod capacity;
mod lease;
mod limit;
mod reserve;

pub use self::lease::SemaphoreLease;

/// Grants up to a limit of leases at a time, among all processes that use the same path, in order of arrival.
///
/// Several leases are acquired all or none: a waiter holds no lease while it waits for more, so two clients that both
/// want two of two leases do not deadlock.
/// Because the order is kept, a waiter that wants many leases also blocks those behind it that would fit.
///
/// Unlike a [`Guard`](crate::Guard), a [`SemaphoreLease`] has no `yield_now`: its holder has left the queue of the
/// waiters, and has a node for each lease. Release it and acquire again.
///
/// # Limit
///
/// The ensemble stores the limit, once for all clients.
/// The first use of the semaphore stores the limit of its handle. A handle with another limit gets
/// [`LimitError::Differs`](crate::LimitError::Differs) at its first use, unless it is [`adopting`](Self::adopting).
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
/// # Cost
///
/// Two round trips if a lease is free and there is no waiter: a write and two reads, then another write for each lease
/// and two reads, and a write behind them that is not awaited. The first use of the handle takes one more, or two to
/// create the node. Each waiter has two watches. Released leases wake the first waiter only. It reads the nodes of the
/// leases, eight with one request, to find out whether one of them [belongs to no session](crate::Ahead::lasting_lease).
/// A [`try_acquire`](Self::try_acquire) reads first, in one round trip, except as the first use of the handle. It writes
/// only if there is room and no waiter. It also returns `None` while another contender is just being granted a lease.
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
/// let many = connections.with_count(5).acquire().await?;
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
    leases: Arc<Queue>,
    /// The number of leases of one acquire.
    count: u32,
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
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        limit: u32,
    ) -> Result<Self, ParsePathError> {
        Self::with_options(session, path, limit, LockOptions::default())
    }

    /// Creates a handle to the semaphore at `path`.
    ///
    /// The [layout](LockOptions::with_layout) is ignored.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        limit: u32,
        options: LockOptions,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        let queue = |name, options: LockOptions| {
            let prefix = options.layout().mutex();
            Queue::new(session, path.join(name)?, prefix, Arc::new(options))
        };
        let (waiters, leases) = (Layout::curator(), Layout::leases());
        Ok(Self {
            queue: queue("locks", options.clone().with_layout(waiters))?.of_semaphore(),
            leases: Arc::new(queue("leases", options.with_layout(leases))?),
            path,
            count: 1,
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

    /// Returns a handle that acquires this many leases at a time, all or none. A new handle acquires one.
    ///
    /// An acquire of zero leases, or of more than the limit, fails at once with a [`LimitError`](crate::LimitError). If
    /// the limit is lowered later, the error is returned as soon as the waiter is the first one.
    #[must_use]
    pub fn with_count(&self, count: u32) -> Self {
        Self {
            count,
            ..self.clone()
        }
    }

    inherent_lock_functions!(SemaphoreLease, FencingToken);

    /// Returns a handle to inspect the leases, each of which is a holder: read them, revoke them, or remove them.
    ///
    /// The last ones may belong to the first waiter, which creates its nodes before they fit into the limit.
    pub fn inspector(&self) -> Inspector {
        Inspector::of(&self.leases)
    }

    /// Returns a handle to inspect the waiters, of which the first one takes leases.
    ///
    /// In its snapshot, the first waiter has the role [`Holder`](crate::Role::Holder), of the queue and not of a lease.
    pub fn waiters(&self) -> Inspector {
        Inspector::of(&self.queue)
    }
}

impl Lock for Semaphore {
    type Guard = SemaphoreLease;

    fn path(&self) -> &NodePath {
        &self.path
    }

    fn session(&self) -> &Session {
        &self.queue.session
    }

    fn events(&self) -> LockEvents {
        self.leases.events()
    }

    async fn acquire_reporting_to(
        &self,
        progress: &AcquireProgress,
    ) -> Result<SemaphoreLease, AcquireError> {
        let wait = Wait::start(LockKind::Semaphore);
        let acquiring = async {
            let enlisted = self.enlist().await?;
            let first = self.queue.wait(enlisted, progress).await?;
            self.reserve(first, progress).await
        };
        wait.ended(acquiring.await)
    }

    async fn try_acquire(&self) -> Result<Option<SemaphoreLease>, AcquireError> {
        let wait = Wait::start(LockKind::Semaphore);
        let acquiring = async {
            let (waiters, leases) = (self.queue.pending_deletes(), self.leases.pending_deletes());
            let mut is_taken = self.is_taken().await;
            if is_taken && (waiters.wait().await | leases.wait().await) {
                is_taken = self.is_taken().await;
            }
            if is_taken {
                return Ok(None);
            }
            let enlisted = self.enlist().await?;
            match self.queue.take_or_leave(enlisted, &waiters).await? {
                Some(granted) => self.try_reserve(granted, &leases).await,
                None => Ok(None),
            }
        };
        wait.tried(acquiring.await)
    }
}
