//! The read/write lock: shared by readers, exclusive to a writer.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::contender::Contender;
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::options::LockOptions;
use crate::queue::Queue;
use crate::queue::QueueProgress;

mod change;
mod error;
mod read;
mod write;

pub use error::DowngradeError;
pub use error::RwLockError;
pub use error::UpgradeError;
pub use read::ReadGuard;
pub use write::WriteGuard;

/// A lock that readers share and a writer holds alone, granted in order of arrival.
///
/// All processes that use the same path contend for it.
///
/// A reader waits for the writers ahead of it, a writer for all contenders ahead of it.
/// So no contender overtakes a waiting writer, and none waits for a later one: in a queue of a writer, a reader and a
/// writer, the reader waits for the first writer only.
///
/// Each acquire takes a place of its own in the queue.
/// A task waits for itself if it acquires for writing what it already holds, or for reading what it holds for writing;
/// use [`ReadGuard::upgrade`] and [`WriteGuard::downgrade`].
/// A reader that acquires for reading again may wait for itself, since a writer may have joined in between.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::RwLock;
///
/// let lock = RwLock::new(&session, "/locks/catalogue")?;
/// let writing = lock.acquire_write().await?;
/// writing.txn().set("/catalogue", "new").commit().await?;
/// // Others may read now, and no other writer had the lock in between.
/// let reading = writing.downgrade().await?;
/// println!("{:?}", session.get("/catalogue").await?);
/// reading.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RwLock {
    readers: Queue,
    writers: Queue,
}

impl RwLock {
    /// Creates a handle to the lock at `path`, with default options.
    ///
    /// A [`FairLock`](crate::FairLock) at the same path counts as a writer.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, RwLockError>
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
    /// If `path` is not a valid node path, or if the [layout](LockOptions::with_layout) has no readers.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        options: LockOptions,
    ) -> Result<Self, RwLockError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path
            .try_into()
            .map_err(|error| RwLockError::Path(error.into()))?;
        let layout = options.layout();
        let reader = layout.reader().ok_or(RwLockError::NoReaders { layout })?;
        let options = Arc::new(options);
        let queue = |prefix| Queue::new(session, path.clone(), prefix, Arc::clone(&options));
        Ok(Self {
            readers: queue(reader)?,
            writers: queue(layout.writer())?,
        })
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        &self.writers.path
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        &self.writers.session
    }

    /// Acquires the lock for reading: waits until no writer is ahead, without a time limit.
    ///
    /// Once in the queue, the place is kept until the session is over, also while the connection is broken.
    ///
    /// # Errors
    ///
    /// - [`AcquireError::Failed`] if the queue could not be joined: no connection within the session's operation
    ///   timeout, or no permission.
    /// - [`AcquireError::NodeLost`] if another client deleted our node. It is noticed at the next wake-up.
    /// - [`AcquireError::SequenceExhausted`] if the numbers of the contenders no longer determine an order.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// One round trip for a lock that is free or read: a write, and a read directly behind it.
    /// A waiting reader sets one watch, on the writer directly ahead of it, and each wake-up costs one round trip.
    /// A writer that leaves wakes all readers between it and the next writer.
    pub async fn acquire_read(&self) -> Result<ReadGuard, AcquireError> {
        let guard = acquire(&self.readers, &QueueProgress::default()).await?;
        Ok(ReadGuard::new(self, guard))
    }

    /// Acquires the lock for writing: waits until no contender is ahead, without a time limit.
    ///
    /// Once in the queue, the place is kept until the session is over, also while the connection is broken.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// One round trip for a free lock: a write, and a read directly behind it.
    /// A waiting writer sets one watch, on its predecessor, and each wake-up costs one round trip.
    /// When readers leave one by one, it wakes once for each that was its predecessor.
    pub async fn acquire_write(&self) -> Result<WriteGuard, AcquireError> {
        let guard = acquire(&self.writers, &QueueProgress::default()).await?;
        Ok(WriteGuard::new(self, guard))
    }

    /// Takes the lock for reading if no writer holds it or waits for it; returns `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another contender.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Nothing is held afterwards.
    ///
    /// # Cost
    ///
    /// One round trip if it is granted, otherwise two writes and a read.
    pub async fn try_acquire_read(&self) -> Result<Option<ReadGuard>, AcquireError> {
        let guard = try_acquire(&self.readers).await?;
        Ok(guard.map(|guard| ReadGuard::new(self, guard)))
    }

    /// Takes the lock for writing if there is no holder and no waiter; returns `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another contender.
    ///
    /// # Errors
    ///
    /// The errors of [`acquire_read`](Self::acquire_read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Nothing is held afterwards.
    ///
    /// # Cost
    ///
    /// One round trip if it is granted, otherwise two writes and a read.
    pub async fn try_acquire_write(&self) -> Result<Option<WriteGuard>, AcquireError> {
        let guard = try_acquire(&self.writers).await?;
        Ok(guard.map(|guard| WriteGuard::new(self, guard)))
    }

    /// Acquires the lock for reading, for at most `limit`.
    ///
    /// A limit of zero joins the queue and leaves it again; use [`try_acquire_read`](Self::try_acquire_read) instead.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead; and the errors of [`acquire_read`](Self::acquire_read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// That of [`acquire_read`](Self::acquire_read), and one write on a timeout.
    pub async fn acquire_read_timeout(&self, limit: Duration) -> Result<ReadGuard, AcquireError> {
        let guard = acquire_within(&self.readers, limit).await?;
        Ok(ReadGuard::new(self, guard))
    }

    /// Acquires the lock for writing, for at most `limit`.
    ///
    /// A limit of zero joins the queue and leaves it again; use [`try_acquire_write`](Self::try_acquire_write) instead.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead; and the errors of [`acquire_read`](Self::acquire_read).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Dropping the future gives up the place in the queue.
    ///
    /// # Cost
    ///
    /// That of [`acquire_write`](Self::acquire_write), and one write on a timeout.
    pub async fn acquire_write_timeout(&self, limit: Duration) -> Result<WriteGuard, AcquireError> {
        let guard = acquire_within(&self.writers, limit).await?;
        Ok(WriteGuard::new(self, guard))
    }

    /// Lists the contenders in order of arrival.
    ///
    /// The first one holds the lock; if it is a reader, so do all readers before the first writer.
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
        self.writers.contenders().await
    }
}

async fn acquire(queue: &Queue, progress: &QueueProgress) -> Result<Guard, AcquireError> {
    let granted = queue.acquire(progress).await?;
    Ok(Guard::granted(&queue.session, granted))
}

async fn try_acquire(queue: &Queue) -> Result<Option<Guard>, AcquireError> {
    let granted = queue.try_acquire().await?;
    Ok(granted.map(|granted| Guard::granted(&queue.session, granted)))
}

async fn acquire_within(queue: &Queue, limit: Duration) -> Result<Guard, AcquireError> {
    let progress = QueueProgress::default();
    let acquiring = acquire(queue, &progress);
    queue.within(limit, acquiring, &progress).await
}
