//! The read/write lock: shared by readers, exclusive to a writer.

use std::sync::Arc;

use zk_core::{IntoNodePath, NodePath, Session};

use crate::error::AcquireError;
use crate::events::LockEvents;
use crate::fencing_token::FencingToken;
use crate::inspect::Inspector;
use crate::labels::LockKind;
use crate::lock::{Lock, inherent_lock_functions};
use crate::measure::Wait;
use crate::options::LockOptions;
use crate::progress::AcquireProgress;
use crate::queue::Queue;

mod change;
mod error;
mod guards;

pub use error::{DowngradeError, RwLockError, UpgradeError};
pub use guards::{ReadGuard, WriteGuard};

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
/// # Readers that write later
///
/// [`ReadGuard::upgrade`] fails at once if a writer is in the queue already, since that writer waits for the reader.
/// A reader that is certain to become a writer cannot be had with Curator's nodes: its upgrade would have to be ahead of
/// that writer, and then a reader whose node is created at the same time may wait for the upgrade while the upgrade waits
/// for it.
/// A second lock does it. Everyone who writes, at once or later, first acquires a [`FairLock`](crate::FairLock) at another
/// path, and then reads or writes. The order of the releases matters: as long as the node of a dropped guard, or of one
/// whose release is [pending](crate::ReleaseError::Pending), is not deleted, an upgrade may still be contended.
///
/// ```no_run
/// # async fn is_stale() -> bool { true }
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::FairLock;
/// use zk_lock::RwLock;
///
/// let writers = FairLock::new(&session, "/locks/catalogue-writers")?;
/// let lock = RwLock::new(&session, "/locks/catalogue")?;
///
/// let only_writer = writers.acquire().await?;
/// let reading = lock.reader().acquire().await?;
/// // Others may read, and none of them writes.
/// if is_stale().await {
///     // It waits for the readers, and no other writer is in the queue.
///     let writing = reading.upgrade().await?;
///     writing.txn().set("/catalogue", "new").commit().await?;
///     writing.release().await?;
/// }
/// only_writer.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// One round trip for a lock that is free, or read by others in the case of a reader: a write, and a read directly
/// behind it.
/// A writer that waits sets one watch, on its predecessor, and each wake-up costs it one round trip. When readers leave
/// one by one, the writer behind them wakes once for each that was its predecessor.
/// A reader that waits sets two: on the writer directly ahead of it, and on its own node or, if there are more writers
/// ahead, on the last but one of them. A writer that leaves wakes all readers between it and the next writer. They
/// take over without another request, as the next in line for a [`FairLock`](crate::FairLock) does, unless they have
/// waited for so long that a proof of life is due.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::RwLock;
///
/// let lock = RwLock::new(&session, "/locks/catalogue")?;
/// let writing = lock.writer().acquire().await?;
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
    reader: ReadLock,
    writer: WriteLock,
}

/// The half of a [`RwLock`] that acquires it for reading; returned by [`RwLock::reader`].
///
/// It waits for the writers ahead.
/// Its [events](Self::events) are those of its own guards: an upgraded guard has those of the writer, a downgraded one
/// those of the reader.
///
/// # Cost
///
/// See [`RwLock`].
#[derive(Debug, Clone)]
pub struct ReadLock {
    queues: Arc<RwQueues>,
}

/// The half of a [`RwLock`] that acquires it for writing; returned by [`RwLock::writer`].
///
/// It waits for all contenders ahead.
/// Its [events](Self::events) are those of its own guards: an upgraded guard has those of the writer, a downgraded one
/// those of the reader.
///
/// # Cost
///
/// See [`RwLock`].
#[derive(Debug, Clone)]
pub struct WriteLock {
    queues: Arc<RwQueues>,
}

/// One queue of contenders, seen by those that join it as readers and as writers.
#[derive(Debug)]
struct RwQueues {
    readers: Arc<Queue>,
    writers: Arc<Queue>,
}

impl RwLock {
    /// Creates a handle to the lock at `path`, with default options.
    ///
    /// A [`FairLock`](crate::FairLock) at the same path counts as a writer.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, RwLockError> {
        Self::with_options(session, path, LockOptions::default())
    }

    /// Creates a handle to the lock at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or if the [layout](LockOptions::with_layout) has no readers.
    pub fn with_options(
        session: &Session,
        path: impl IntoNodePath,
        options: LockOptions,
    ) -> Result<Self, RwLockError> {
        let path = path.into_node_path().map_err(RwLockError::Path)?;
        let layout = options.layout();
        let reader = layout.reader().ok_or(RwLockError::NoReaders { layout })?;
        let options = Arc::new(options);
        let queue = |prefix| Queue::new(session, path.clone(), prefix, Arc::clone(&options));
        let queues = Arc::new(RwQueues {
            readers: Arc::new(queue(reader)?),
            writers: Arc::new(queue(layout.writer())?),
        });
        Ok(Self {
            reader: ReadLock {
                queues: Arc::clone(&queues),
            },
            writer: WriteLock { queues },
        })
    }

    /// Returns the lock that is acquired for reading.
    pub fn reader(&self) -> &ReadLock {
        &self.reader
    }

    /// Returns the lock that is acquired for writing.
    pub fn writer(&self) -> &WriteLock {
        &self.writer
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        self.writer.path()
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        self.writer.session()
    }

    /// Returns a handle to inspect the lock: read its contenders, revoke it, break it, or clean up.
    pub fn inspector(&self) -> Inspector {
        Inspector::of(&self.writer.queues.writers)
    }
}

/// Implements a half of the lock.
macro_rules! impl_half {
    ($half:ident, $guard:ident, $queue:ident, $kind:ident) => {
        impl $half {
            inherent_lock_functions!($guard, FencingToken);
        }

        impl Lock for $half {
            type Guard = $guard;

            fn path(&self) -> &NodePath {
                &self.queues.$queue.path
            }

            fn session(&self) -> &Session {
                &self.queues.$queue.session
            }

            fn events(&self) -> LockEvents {
                self.queues.$queue.events()
            }

            async fn acquire_reporting_to(
                &self,
                progress: &AcquireProgress,
            ) -> Result<$guard, AcquireError> {
                let wait = Wait::start(LockKind::$kind);
                let acquired = self.queues.$queue.acquire(progress).await;
                wait.ended(acquired.map(|guard| $guard::new(&self.queues, guard)))
            }

            async fn try_acquire(&self) -> Result<Option<$guard>, AcquireError> {
                let wait = Wait::start(LockKind::$kind);
                let tried = self.queues.$queue.try_acquire().await;
                let guarded = |guard| $guard::new(&self.queues, guard);
                wait.tried(tried.map(|guard| guard.map(guarded)))
            }
        }
    };
}

impl_half!(ReadLock, ReadGuard, readers, Read);
impl_half!(WriteLock, WriteGuard, writers, Write);
