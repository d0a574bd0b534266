//! A value in one node that many processes read from memory, and write under the version they have seen.

use std::sync::Arc;
use std::time::Duration;

use zk_cache::{CacheEnd, NodeCache, Snapshot};
use zk_core::{Bytes, IntoNodePath, NodePath, ParsePathError, Session, SessionSource, Updated};

use crate::error::CounterError;
use crate::value_writer::ValueWriter;

/// A value in one node that each process has in memory, and that is written under the version that was seen: Curator's
/// `SharedValue`, and its `DistributedAtomicValue`.
///
/// The node is created with the initial value if it does not exist. Clones share the copy in memory.
/// Each write is applied once and its outcome is known, also if its reply is lost.
///
/// ```no_run
/// # async fn demo(sessions: zk_core::Sessions) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_counter::SharedValue;
/// use zk_counter::TrySetOutcome;
///
/// let phase = SharedValue::start(&sessions, "/app/phase", "idle")?;
/// phase.synchronized().await?;
/// if let Some(seen) = phase.current().filter(|seen| seen.value == "idle") {
///     if phase.try_set(&seen, "running").await? == TrySetOutcome::Done {
///         println!("this process has started it");
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Session loss
///
/// With [`Sessions`](zk_core::Sessions) it goes on with the next one, and is not [synchronised](Self::is_synchronized)
/// meanwhile; writes wait. A write in flight fails with [`CounterError::Failed`], whose outcome is unknown.
/// With one [`Session`] it ends.
///
/// # Cost
///
/// [`current`](Self::current) costs nothing. A change costs each process a notification and a read, and a write two round
/// trips. The first write of a process creates an ephemeral node.
///
/// # Dropping
///
/// When the last clone is dropped, its ephemeral node is removed in the background; and its watch when the last of its
/// [`ValueChanges`] is dropped, too.
#[derive(Debug, Clone)]
pub struct SharedValue {
    shared: Arc<Shared>,
    timeout: Duration,
}

#[derive(Debug)]
struct Shared {
    cache: NodeCache,
    writer: ValueWriter,
    initial: Vec<u8>,
}

/// A value and the write that it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// The value.
    pub value: T,
    /// The transaction that wrote it. It identifies the write, and a later write has a greater one.
    pub mzxid: i64,
    /// How often the node was written before. It begins again when the node is deleted and created again, and is negative
    /// after 2^31 writes; compare [`mzxid`](Self::mzxid) instead.
    pub version: i32,
}

/// What became of a [`try_set`](SharedValue::try_set).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum TrySetOutcome {
    /// The value was still the one that was seen, and is replaced.
    Done,
    /// Another value was written since, or the node was deleted. Nothing was changed.
    ChangedMeanwhile,
}

impl SharedValue {
    /// Starts to follow the node at `path` in the background, and creates it with `initial` if it does not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn start(
        source: impl Into<SessionSource>,
        path: impl IntoNodePath,
        initial: impl Into<Vec<u8>>,
    ) -> Result<Self, ParsePathError> {
        let (source, path) = (source.into(), path.into_node_path()?);
        let (token, initial) = (path.join(TOKEN)?, initial.into());
        Ok(Self {
            timeout: TIMEOUT,
            shared: Arc::new(Shared {
                cache: NodeCache::start(source.clone(), &path)?,
                writer: ValueWriter::start(&source, path, token, initial.clone()),
                initial,
            }),
        })
    }

    /// Sets the time limit of each write. The default is 15 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the path of the node.
    pub fn path(&self) -> &NodePath {
        self.shared.cache.path()
    }

    /// Returns the value in memory; `None` if the node does not exist or was not read yet. Sends no request.
    ///
    /// It may be out of date: see [`is_synchronized`](Self::is_synchronized).
    pub fn current(&self) -> Option<Versioned<Bytes>> {
        self.shared.cache.node().as_ref().and_then(versioned)
    }

    /// Returns whether the value in memory is up to date, apart from changes on their way.
    ///
    /// It is not before the first read, after the connection broke, and between two sessions.
    pub fn is_synchronized(&self) -> bool {
        self.shared.cache.snapshot().is_synchronized()
    }

    /// Waits until the value in memory is up to date and the node exists, and returns it.
    ///
    /// A node that the session may not read counts as one that does not exist.
    ///
    /// # Errors
    ///
    /// [`CounterError::Ended`] if there will be no further session, and [`CounterError::Failed`] if the node cannot be
    /// watched.
    pub async fn synchronized(&self) -> Result<Versioned<Bytes>, CounterError> {
        let path = self.path();
        let exists = |now: &Snapshot| now.is_synchronized() && now.get(path).is_some();
        let ended = |end| match end {
            CacheEnd::Refused(error) => CounterError::Failed(error),
            _ => CounterError::Ended { path: path.clone() },
        };
        let snapshot = self.shared.cache.wait_for(exists).await.map_err(ended)?;
        let node = snapshot.get(path).and_then(versioned);
        node.ok_or_else(|| CounterError::Ended { path: path.clone() })
    }

    /// Returns the changes of the value, beginning with the one that is in memory.
    pub fn changes(&self) -> ValueChanges {
        ValueChanges {
            cache: self.shared.cache.clone(),
            last: None,
        }
    }

    /// Replaces the value whatever it is. A node that does not exist is created with the initial value first.
    ///
    /// # Errors
    ///
    /// [`CounterError::TimedOut`] and [`CounterError::Ended`]: nothing was changed. [`CounterError::Failed`] with
    /// the errors of [`UpdateData`](zk_core::UpdateData).
    pub async fn set(&self, value: impl Into<Vec<u8>>) -> Result<(), CounterError> {
        let value = value.into();
        let updated = self.write(move |_| Some(value.clone())).await;
        updated.map(drop)
    }

    /// Replaces the value if the one that was seen has not been overwritten since.
    ///
    /// # Errors
    ///
    /// Those of [`set`](Self::set).
    pub async fn try_set<T>(
        &self,
        seen: &Versioned<T>,
        value: impl Into<Vec<u8>>,
    ) -> Result<TrySetOutcome, CounterError> {
        let (value, mzxid, path) = (value.into(), seen.mzxid, self.path());
        let write = self
            .shared
            .writer
            .write(self.timeout, |session, tokens, left| {
                let value = value.clone();
                let update = session.update(path, move |_| Some(value.clone()));
                let update = update.unchanged_since(mzxid).exactly_once(&tokens);
                update.timeout(left).into_future()
            });
        match write.await {
            Ok(updated) if updated.is_written => Ok(TrySetOutcome::Done),
            Ok(_) => Ok(TrySetOutcome::ChangedMeanwhile),
            Err(CounterError::Failed(error))
                if error.is_no_node() && !error.is_outcome_unknown() =>
            {
                Ok(TrySetOutcome::ChangedMeanwhile)
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the value by what `change` makes of it, and calls it again if another process wrote meanwhile.
    ///
    /// If it returns `None`, nothing is written. A node that does not exist is created with the initial value.
    /// A clone of `change` is called if the session is lost before a write was sent; what the closure has captured by
    /// value then is as it was at first.
    ///
    /// # Errors
    ///
    /// Those of [`set`](Self::set).
    pub async fn update<F>(&self, change: F) -> Result<Updated, CounterError>
    where
        F: FnMut(&[u8]) -> Option<Vec<u8>> + Clone + Send + 'static,
    {
        self.write(change).await
    }

    async fn write<F>(&self, change: F) -> Result<Updated, CounterError>
    where
        F: FnMut(&[u8]) -> Option<Vec<u8>> + Clone + Send + 'static,
    {
        let path = self.path();
        let write = |session: Session, tokens, left| {
            let update = session.update(path, change.clone());
            let initial = self.shared.initial.as_slice();
            let update = update.or_create(initial).exactly_once(&tokens);
            update.timeout(left).into_future()
        };
        self.shared.writer.write(self.timeout, write).await
    }
}

/// The changes of a [`SharedValue`], for one consumer.
///
/// A consumer that is slower than the changes skips values that were overwritten, never the newest one.
#[derive(Debug)]
pub struct ValueChanges {
    cache: NodeCache,
    /// The transaction that wrote what was returned last; 0 if there was no node.
    last: Option<i64>,
}

impl ValueChanges {
    /// Waits for the next value; inside, it is `None` if the node does not exist. Returns `None` when there will be no
    /// further session, or if the node cannot be watched.
    pub async fn next(&mut self) -> Option<Option<Versioned<Bytes>>> {
        let (path, last) = (self.cache.path().clone(), self.last);
        let mzxid = |now: &Snapshot| now.get(&path).map_or(0, |node| node.stat().mzxid);
        let is_new = |now: &Snapshot| now.is_synchronized() && last != Some(mzxid(now));
        let snapshot = self.cache.wait_for(is_new).await.ok()?;
        self.last = Some(mzxid(&snapshot));
        Some(snapshot.get(&path).and_then(versioned))
    }
}

fn versioned(node: &zk_cache::Node) -> Option<Versioned<Bytes>> {
    let stat = node.stat();
    Some(Versioned {
        value: Bytes::copy_from_slice(node.data()?),
        mzxid: stat.mzxid,
        version: stat.version,
    })
}

/// The name of the idempotency token, after its unique id.
const TOKEN: &str = "token";
const TIMEOUT: Duration = Duration::from_secs(15);
