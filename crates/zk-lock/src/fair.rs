//! The fair lock: exclusive, granted in order of arrival.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::contender::Contender;
use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::LockLoss;
use crate::error::ReleaseError;
use crate::error::RunError;
use crate::events::LockEvents;
use crate::events::Notifier;
use crate::fencing_token::FencingToken;
use crate::guard::Guard;
use crate::inspect::Inspector;
use crate::options::LockOptions;
use crate::queue::Granted;
use crate::queue::Queue;
use crate::queue::QueueProgress;
use crate::waiter::Waiter;

/// An exclusive lock among all processes that use the same path, granted in order of arrival.
///
/// Each acquire takes a place of its own in the queue, also when several tasks use one `FairLock`.
/// A task that acquires a lock it already holds waits for itself.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::FairLock;
///
/// let lock = FairLock::new(&session, "/locks/nightly")?;
/// let guard = lock.acquire().await?;
/// println!("ours, with token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FairLock {
    queue: Queue,
    notifier: Notifier,
}

impl FairLock {
    /// Creates a handle to the lock at `path`, with default options.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self::with_options(session, path, LockOptions::default())
    }

    /// Creates a handle to the lock at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        options: LockOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        Ok(Self {
            queue: Queue::new(session, path, options.layout().mutex(), Arc::new(options))?,
            notifier: Notifier::default(),
        })
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        &self.queue.path
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        &self.queue.session
    }

    /// Waits for the lock, without a time limit.
    ///
    /// Once in the queue, the place is kept until the session is over, also while the connection is broken.
    ///
    /// # Errors
    ///
    /// - [`AcquireError::Failed`] if the queue could not be joined: no connection within the session's operation
    ///   timeout, or no permission.
    /// - [`AcquireError::NodeLost`] if another client deleted our node. The next in line notices that within about a
    ///   round trip, other waiters at their next wake-up.
    /// - [`AcquireError::SequenceExhausted`] if the numbers of the contenders no longer determine an order.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// A free lock costs one round trip: a write, and a read directly behind it.
    /// If the session has relied on nothing for more than a minute, it takes two fifths of the session timeout, which a
    /// limit must allow for; see [`Session::stand_by`] and [what a lock guarantees](crate::guarantees).
    ///
    /// A waiter sets two watches, as long as the session has room for them, and the next in line a third one on its own
    /// node. A release wakes two waiters: the next in line, and the one behind it, which lists to find out whether it
    /// is next. The next in line takes over without another request, unless the session was idle, the connection broke
    /// since, or its predecessor belongs to the same session or may be a writer of a read/write lock. Every other
    /// wake-up costs one round trip.
    /// The next in line must have its own node watched before it takes over. If it became the next less than a round
    /// trip ago, it waits for the rest of that round trip.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_reporting_to(&QueueProgress::default()).await
    }

    /// Joins the queue and returns the place in it; [`Waiter::granted`] waits for the lock.
    ///
    /// [`acquire`](Self::acquire) does both. Use this to learn the place, or that it was lost.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Failed`] and [`AcquireError::NodeLost`], as for [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// One round trip: a write, and a read directly behind it.
    pub async fn enlist(&self) -> Result<Waiter, AcquireError> {
        let enlisted = self.queue.enlist().await?;
        Ok(Waiter::new(self.queue.clone(), enlisted))
    }

    /// Takes the lock if there is no holder and no waiter; returns `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another contender.
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
    /// One round trip if the lock is free, otherwise two writes and a read.
    /// If the lock is free and the session was idle, it takes as long as [`acquire`](Self::acquire).
    /// If this session has an unfinished deletion at the path, it waits for that and lists once more.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        let granted = self.queue.try_acquire().await?;
        Ok(granted.map(|granted| self.guard(granted)))
    }

    /// Waits for the lock, for at most `limit`.
    ///
    /// A limit of zero joins the queue and leaves it again; use [`try_acquire`](Self::try_acquire) instead.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead; and the errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write on a timeout.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard, AcquireError> {
        let progress = QueueProgress::default();
        let acquiring = self.acquire_reporting_to(&progress);
        self.queue.within(limit, acquiring, &progress).await
    }

    /// Waits for the lock, without a time limit, and reports who is ahead.
    ///
    /// `on_progress` runs in the task that polls this future and delays nothing but this acquire. It is called when the
    /// place in the queue is known, when the predecessor is known, and after each wake-up.
    /// A waiter wakes only when a contender directly ahead of it leaves. So the reported number may be too high, but
    /// never too low.
    /// For a time limit, wrap the call into a timeout.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// The same as for [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(lock: zk_lock::FairLock) -> Result<(), zk_lock::AcquireError> {
    /// let guard = lock.acquire_with_progress(|ahead| println!("{}: {ahead}", lock.path())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_with_progress(
        &self,
        mut on_progress: impl FnMut(&Ahead) + Send,
    ) -> Result<Guard, AcquireError> {
        let progress = QueueProgress::default();
        let mut updates = progress.subscribe();
        let mut acquiring = pin!(self.acquire_reporting_to(&progress));
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => return acquired,
                // An update that is sent while `acquiring` is polled is delivered in the same poll.
                Ok(()) = updates.changed() => {
                    let ahead = updates.borrow_and_update().clone();
                    if let Some(ahead) = ahead.filter(|ahead| ahead.count() > 0) {
                        on_progress(&ahead);
                    }
                }
            }
        }
    }

    /// Waits for the lock, runs `body` under it and releases it.
    ///
    /// As soon as the lock is lost, or no longer known to be held, `body` is dropped at the await where it is. Code
    /// between two awaits is not interrupted.
    /// Pass the token to the resources that `body` uses, see [`Guard::fencing_token`].
    ///
    /// # Errors
    ///
    /// - [`RunError::Acquire`] if `body` was not run.
    /// - [`RunError::Lost`] if `body` was dropped because the lock was lost, or if it had just finished when the loss
    ///   was noticed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. `body` is dropped, and the lock is released in the background.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire) and of [`release`](Guard::release).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(lock: zk_lock::FairLock) -> Result<(), zk_lock::RunError> {
    /// # async fn rebuild_index(token: zk_lock::FencingToken) -> u64 { token.as_u64() }
    /// let rows = lock.run(async |token| rebuild_index(token).await).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run<T, F, B>(&self, body: B) -> Result<T, RunError>
    where
        B: FnOnce(FencingToken) -> F,
        F: Future<Output = T>,
    {
        let guard = self.acquire().await?;
        let lost = guard.lost();
        let output = tokio::select! {
            biased;
            loss = lost => Err(loss),
            output = body(guard.fencing_token()) => Ok(output),
        };
        // By now the body has finished or is dropped; only then may another contender get the lock.
        let was_valid = guard.is_valid();
        match (output, guard.release().await) {
            (Err(loss), _) | (Ok(_), Err(ReleaseError::Lost { loss, .. })) => {
                Err(RunError::Lost(loss))
            }
            // The process may have been stopped in the last steps of the body; that can no longer be ruled out.
            (Ok(_), Err(ReleaseError::Pending { .. })) if !was_valid => {
                Err(RunError::Lost(LockLoss::SessionLeaseExpired))
            }
            // The body ran under the lock; an unfinished release does not concern it.
            (Ok(output), _) => Ok(output),
        }
    }

    /// Lists the contenders in order of arrival: the first one holds the lock, the others wait.
    ///
    /// The result may be outdated: the list is read first, then each node, from a server that may lag. Contenders that
    /// leave meanwhile are left out.
    ///
    /// # Errors
    ///
    /// If the path or one of the nodes cannot be read. A lock that was never used has no contenders, which is no error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    ///
    /// # Cost
    ///
    /// One round trip for the list, and one for every 64 contenders, which are read concurrently.
    pub async fn contenders(&self) -> Result<Vec<Contender>, Error> {
        self.queue.contenders().await
    }

    /// Reads the first contender, which holds the lock or is about to; `None` if there is none.
    ///
    /// The result may be outdated, like that of [`contenders`](Self::contenders).
    ///
    /// # Errors
    ///
    /// If the path or the node cannot be read. A lock that was never used has no contenders, which is no error.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it only reads.
    ///
    /// # Cost
    ///
    /// Two round trips, whatever the number of contenders; one more for each contender that leaves meanwhile.
    pub async fn first_contender(&self) -> Result<Option<Contender>, Error> {
        self.queue.first().await
    }

    /// Subscribes to the events of the guards that this handle and its clones acquire from now on.
    ///
    /// Guards acquired through [`enlist`](Self::enlist) have no events.
    /// Costs nothing without a subscription, and one task per guard with one.
    pub fn events(&self) -> LockEvents {
        self.notifier.subscribe()
    }

    /// Returns a handle to inspect the lock: read its contenders, revoke it, break it, or clean up.
    pub fn inspector(&self) -> Inspector {
        Inspector::of(&self.queue)
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) async fn acquire_reporting_to(
        &self,
        progress: &QueueProgress,
    ) -> Result<Guard, AcquireError> {
        let granted = self.queue.acquire(progress).await?;
        Ok(self.guard(granted))
    }

    fn guard(&self, granted: Granted) -> Guard {
        let guard = Guard::granted(&self.queue.session, granted);
        self.notifier.acquired(&guard);
        guard
    }
}
