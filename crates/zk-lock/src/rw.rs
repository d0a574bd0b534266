//! The lock that readers share and a writer has alone.

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
use crate::queue::Progress;
use crate::queue::Queue;

mod error;
mod read;
mod write;

pub use error::DowngradeError;
pub use error::MakeError;
pub use error::UpgradeError;
pub use read::ReadGuard;
pub use write::WriteGuard;

/// A lock over all processes that use the same path, which readers share and a writer has alone, granted in the order of
/// arrival.
///
/// A reader waits for the writers that came before it, a writer for everyone who came before it.
/// So nobody overtakes a writer that waits, and nobody waits for one that came later: of a writer, a reader and a
/// writer in this order, the reader waits for the first one alone.
///
/// Making one costs nothing, and neither does a clone; each acquire takes a place of its own in the queue.
/// A task that acquires for writing what it holds already, for reading or writing, waits for itself, and so does one
/// that acquires for reading what it holds for writing: use [`ReadGuard::upgrade`] and [`WriteGuard::downgrade`].
/// A task that reads may wait for itself when it acquires for reading once more, since a writer may have come in
/// between.
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
/// // Others may read now, and nobody has written in between.
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
    /// Makes a handle to the lock at `path`, with default options.
    ///
    /// The node at the path is made when it is needed, as a container where servers know containers, and so are its
    /// parents.
    /// Use the path for nothing else; a [`FairLock`](crate::FairLock) there counts as a writer.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P) -> Result<Self, MakeError>
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
    /// When `path` is none, or when the [layout](LockOptions::with_layout) has no readers.
    pub fn with_options<P>(
        session: &Session,
        path: P,
        options: LockOptions,
    ) -> Result<Self, MakeError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path
            .try_into()
            .map_err(|error| MakeError::Path(error.into()))?;
        let layout = options.layout();
        let reader = layout.reader().ok_or(MakeError::NoReaders { layout })?;
        let options = Arc::new(options);
        let queue = |stem| Queue::new(session, path.clone(), stem, Arc::clone(&options));
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

    /// Waits until no writer is before us, for as long as it takes.
    ///
    /// Once in the queue, the place is kept while the connection is broken, until the session is over.
    ///
    /// # Errors
    ///
    /// [`AcquireError::Failed`] when the queue could not be joined: no connection within the session's operation
    /// timeout, or no permission.
    /// [`AcquireError::NodeLost`] when somebody deleted our node while it waited, which is noticed at the next wake-up.
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
    /// One round trip for a lock that is free or read: a write and a read behind it.
    /// One that waits leaves one watch, on the writer right before it, and each wake-up costs one round trip.
    /// The end of a writer wakes all readers between it and the next writer.
    pub async fn acquire_read(&self) -> Result<ReadGuard, AcquireError> {
        let guard = acquire(&self.readers, &Progress::default()).await?;
        Ok(ReadGuard::new(self, guard))
    }

    /// Waits until nobody is before us, for as long as it takes.
    ///
    /// Once in the queue, the place is kept while the connection is broken, until the session is over.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_read`](Self::acquire_read).
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
    /// One that waits leaves one watch, on the contender right before it, and each wake-up costs one round trip.
    /// Readers that end one by one wake it once for each that was the last one before it.
    pub async fn acquire_write(&self) -> Result<WriteGuard, AcquireError> {
        let guard = acquire(&self.writers, &Progress::default()).await?;
        Ok(WriteGuard::new(self, guard))
    }

    /// Takes the lock for reading if no writer has it or waits for it, and answers `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another holder.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_read`](Self::acquire_read).
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
    /// One round trip when it is granted, two writes and a read when it is not.
    pub async fn try_acquire_read(&self) -> Result<Option<ReadGuard>, AcquireError> {
        let guard = try_acquire(&self.readers).await?;
        Ok(guard.map(|guard| ReadGuard::new(self, guard)))
    }

    /// Takes the lock for writing if nobody has it or waits for it, and answers `None` otherwise.
    ///
    /// It waits for the ensemble, but never for another holder.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_read`](Self::acquire_read).
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
    /// One round trip when it is granted, two writes and a read when it is not.
    pub async fn try_acquire_write(&self) -> Result<Option<WriteGuard>, AcquireError> {
        let guard = try_acquire(&self.writers).await?;
        Ok(guard.map(|guard| WriteGuard::new(self, guard)))
    }

    /// Waits until no writer is before us, for at most `limit` over all.
    ///
    /// A limit of zero joins the queue and leaves it again; use [`try_acquire_read`](Self::try_acquire_read) instead.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead, and those of [`acquire_read`](Self::acquire_read).
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
    /// That of [`acquire_read`](Self::acquire_read), and one write when the time is up.
    pub async fn acquire_read_timeout(&self, limit: Duration) -> Result<ReadGuard, AcquireError> {
        let guard = acquire_within(&self.readers, limit).await?;
        Ok(ReadGuard::new(self, guard))
    }

    /// Waits until nobody is before us, for at most `limit` over all.
    ///
    /// A limit of zero joins the queue and leaves it again; use [`try_acquire_write`](Self::try_acquire_write) instead.
    ///
    /// # Errors
    ///
    /// [`AcquireError::TimedOut`], which says who was ahead, and those of [`acquire_read`](Self::acquire_read).
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
    /// That of [`acquire_write`](Self::acquire_write), and one write when the time is up.
    pub async fn acquire_write_timeout(&self, limit: Duration) -> Result<WriteGuard, AcquireError> {
        let guard = acquire_within(&self.writers, limit).await?;
        Ok(WriteGuard::new(self, guard))
    }

    /// Lists who holds the lock and who waits for it, first come first.
    ///
    /// The first one holds it; if that is a reader, so do all readers before the first writer.
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
        self.writers.contenders().await
    }
}

async fn acquire(queue: &Queue, progress: &Progress) -> Result<Guard, AcquireError> {
    let enlisted = queue.enlist().await?;
    let granted = queue.wait(enlisted, progress).await?;
    Ok(Guard::granted(&queue.session, granted))
}

async fn try_acquire(queue: &Queue) -> Result<Option<Guard>, AcquireError> {
    let granted = queue.try_acquire().await?;
    Ok(granted.map(|granted| Guard::granted(&queue.session, granted)))
}

async fn acquire_within(queue: &Queue, limit: Duration) -> Result<Guard, AcquireError> {
    let progress = Progress::default();
    let acquiring = acquire(queue, &progress);
    queue.within(limit, acquiring, &progress).await
}
