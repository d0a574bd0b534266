//! The lock that is granted in the order of arrival.

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
use crate::error::Loss;
use crate::error::ReleaseError;
use crate::error::RunError;
use crate::events::LockEvents;
use crate::events::Notifier;
use crate::guard::FencingToken;
use crate::guard::Guard;
use crate::inspect::Inspector;
use crate::options::LockOptions;
use crate::queue::Granted;
use crate::queue::Progress;
use crate::queue::Queue;
use crate::waiter::Waiter;

/// An exclusive lock over all processes that use the same path, granted in the order of arrival.
///
/// Making one costs nothing, and neither does a clone; each acquire takes a place of its own in the queue, also when
/// several tasks use one `FairLock`.
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
    /// Makes a handle to the lock at `path`, with default options.
    ///
    /// The node at the path is made when it is needed, as a container where servers know containers, and so are its
    /// parents.
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

    /// Makes a handle to the lock at `path`.
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

    /// Waits for the lock, for as long as it takes.
    ///
    /// Once in the queue, the place is kept while the connection is broken, until the session is over.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Failed`] when the queue could not be joined: no connection within the session's operation
    /// timeout, or no permission.
    /// [`AcquireError::NodeLost`] when somebody deleted our node while it waited: the next in line notices that within
    /// about a round trip, the others at their next wake-up.
    /// [`AcquireError::SequenceExhausted`] when the numbers of the contenders no longer tell an order.
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost; the node is removed in the background, see [`Guard`].
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// One round trip for a lock that is free: a write and a read behind it.
    /// After more than a minute in which the session relied on nothing, two fifths of the session timeout, so that a limit
    /// must leave room for that; see [`Session::stand_by`] and [what a lock guarantees](crate::guarantees).
    /// A waiter leaves two watches, as long as the session has room for them, and the next in line one on its own node.
    /// The next in line takes over without another request, unless the session was idle, the connection broke since, the
    /// one before is of the same session or may be a writer of a read/write lock; each other wake-up costs one round
    /// trip.
    /// It has its own node under watch before it takes over: if it became the next less than a round trip ago, it waits
    /// for the rest of that.
    /// A release wakes two waiters: the next in line, and the one behind it, which looks whether it is the next now.
    pub async fn acquire(&self) -> Result<Guard, AcquireError> {
        self.acquire_noting(&Progress::default()).await
    }

    /// Joins the queue, and answers the place in it, which is waited in by [`Waiter::granted`].
    ///
    /// [`acquire`](Self::acquire) does both; this is for who wants to know its place, or that it was lost.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Failed`] and [`AcquireError::NodeLost`], as of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost; the node is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`].
    ///
    /// # Cost
    ///
    /// One round trip: a write and a read behind it.
    pub async fn enlist(&self) -> Result<Waiter, AcquireError> {
        let enlisted = self.queue.enlist().await?;
        Ok(Waiter::new(self.queue.clone(), enlisted))
    }

    /// Takes the lock if nobody holds it or waits for it, and answers `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another holder.
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
    /// One round trip when the lock is free, two writes and a read when it is not.
    /// When it is free and the session was idle, it takes as long as [`acquire`](Self::acquire).
    /// If this session is still removing a node at the path, it waits for that, and lists once more.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, AcquireError> {
        let granted = self.queue.try_acquire().await?;
        Ok(granted.map(|granted| self.guard(granted)))
    }

    /// Waits for the lock, for at most `limit` over all.
    ///
    /// A limit of zero joins the queue and leaves it again; use [`try_acquire`](Self::try_acquire) instead.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead, and those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost; the node is removed in the background, also when the time is up.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire), and one write when the time is up.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard, AcquireError> {
        let progress = Progress::default();
        let acquiring = self.acquire_noting(&progress);
        self.queue.within(limit, acquiring, &progress).await
    }

    /// Waits for the lock, for as long as it takes, and tells who is ahead meanwhile.
    ///
    /// `tell` is called in the course of this future, by whoever polls it, and delays nothing but this acquire: when the
    /// place in the queue is known, when the one before is, and after each wake-up.
    /// Who waits is woken when the one before it goes, not when others do: the number that was told may be too high by
    /// now, never too low.
    /// To wait for some time at most, wrap it into a timeout.
    ///
    /// # Errors
    ///
    /// Those of [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// Safe, the place in the queue is lost; the node is removed in the background.
    ///
    /// # Session loss
    ///
    /// [`AcquireError::SessionLost`], also while waiting.
    ///
    /// # Cost
    ///
    /// That of [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(lock: zk_lock::FairLock) -> Result<(), zk_lock::AcquireError> {
    /// let guard = lock.acquire_telling(|ahead| println!("{}: {ahead}", lock.path())).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire_telling(
        &self,
        mut tell: impl FnMut(&Ahead) + Send,
    ) -> Result<Guard, AcquireError> {
        let progress = Progress::default();
        let mut notes = progress.notes();
        let mut acquiring = pin!(self.acquire_noting(&progress));
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquiring => return acquired,
                // What is noted while the other one is polled is told at once.
                Ok(()) = notes.changed() => {
                    let ahead = notes.borrow_and_update().clone();
                    if let Some(ahead) = ahead.filter(|ahead| ahead.count() > 0) {
                        tell(&ahead);
                    }
                }
            }
        }
    }

    /// Waits for the lock, runs `body` under it and releases it.
    ///
    /// As soon as the lock is lost, or no longer known to be held, `body` is dropped where it stands, which is at one
    /// of its awaits: code between two awaits is not interrupted.
    /// Pass the token to the resources that `body` uses, see [`Guard::fencing_token`].
    ///
    /// # Errors
    ///
    /// [`RunError::Acquire`] when `body` was not run, [`RunError::Lost`] when it was stopped, or had just ended when
    /// the lock turned out to be lost.
    ///
    /// # Cancel safety
    ///
    /// Safe, `body` is dropped; the lock is released in the background.
    ///
    /// # Session loss
    ///
    /// [`RunError::Lost`], or [`RunError::Acquire`] while waiting.
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
        // By now the body is dropped, if it has not ended: only then another one may get the lock.
        let was_trusted = guard.is_trusted();
        match (output, guard.release().await) {
            (Err(loss), _) | (Ok(_), Err(ReleaseError::Lost { loss, .. })) => {
                Err(RunError::Lost(loss))
            }
            // The process may have been stopped in the last steps of the body, and nobody can tell now.
            (Ok(_), Err(ReleaseError::Pending { .. })) if !was_trusted => {
                Err(RunError::Lost(Loss::TrustLapsed))
            }
            // The body ran under the lock; what is left of the release is not its business.
            (Ok(output), _) => Ok(output),
        }
    }

    /// Lists who holds the lock and who waits for it, first come first: the first one holds it.
    ///
    /// It is a picture of the past: the list is read, then each node, from a server that may lag behind; contenders
    /// that go meanwhile are left out.
    ///
    /// # Errors
    ///
    /// When the path or one of the nodes cannot be read. A lock that was never used has no contenders, which is no error.
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
    /// One round trip for the list, and one for every 64 contenders, which are read at the same time.
    pub async fn contenders(&self) -> Result<Vec<Contender>, Error> {
        self.queue.contenders().await
    }

    /// Reads the first contender, which holds the lock or is about to; `None` when nobody is there.
    ///
    /// It is a picture of the past, as that of [`contenders`](Self::contenders).
    ///
    /// # Errors
    ///
    /// When the path or the node cannot be read. A lock that was never used has no contenders, which is no error.
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
    /// Two round trips, whatever the number of contenders; one more for each one that goes just then.
    pub async fn first_contender(&self) -> Result<Option<Contender>, Error> {
        self.queue.first().await
    }

    /// Returns what happens to the guards that this handle and its clones acquire from now on.
    ///
    /// Of a guard that was waited for by [`enlist`](Self::enlist) nothing is told.
    /// Without a subscription this costs nothing; with one, a task per guard.
    pub fn events(&self) -> LockEvents {
        self.notifier.subscribe()
    }

    /// Returns a handle to look at the lock from outside: who is there, to ask for it, to break it, to clean up.
    pub fn inspector(&self) -> Inspector {
        Inspector::of(&self.queue)
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(crate) async fn acquire_noting(&self, progress: &Progress) -> Result<Guard, AcquireError> {
        let enlisted = self.queue.enlist().await?;
        let granted = self.queue.wait(enlisted, progress).await?;
        Ok(self.guard(granted))
    }

    fn guard(&self, granted: Granted) -> Guard {
        let guard = Guard::granted(&self.queue.session, granted);
        self.notifier.acquired(&guard);
        guard
    }
}
