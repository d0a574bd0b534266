//! A shared value that is a number of 32 bits.

use std::time::Duration;

use zk_core::{Bytes, IntoNodePath, NodePath, ParsePathError, SessionSource};

use crate::error::{CounterError, excerpt};
use crate::format::Format;
use crate::shared_value::{SharedValue, TrySetOutcome, ValueChanges, Versioned};

/// A number of 32 bits that each process has in memory: Curator's `SharedCount`.
///
/// It is a [`SharedValue`] of four bytes, big-endian, and behaves like one. A number that many processes count up is
/// better an [`AtomicCounter`](crate::AtomicCounter), which may share the node with [`Format::Integer`].
///
/// ```no_run
/// # async fn demo(sessions: zk_core::Sessions) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_counter::SharedCount;
///
/// let parallelism = SharedCount::start(&sessions, "/app/parallelism", 4)?;
/// let mut changes = parallelism.changes();
/// while let Some(now) = changes.next().await {
///     println!("{:?}", now?.map(|now| now.value));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct SharedCount {
    value: SharedValue,
}

impl SharedCount {
    /// Starts to follow the node at `path` in the background, and creates it with `initial` if it does not exist.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn start(
        source: impl Into<SessionSource>,
        path: impl IntoNodePath,
        initial: i32,
    ) -> Result<Self, ParsePathError> {
        let value = SharedValue::start(source, path, initial.to_be_bytes())?;
        Ok(Self { value })
    }

    /// Sets the time limit of each write. The default is 15 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.value = self.value.with_timeout(timeout);
        self
    }

    /// Returns the path of the node.
    pub fn path(&self) -> &NodePath {
        self.value.path()
    }

    /// Returns the number in memory; `None` if the node does not exist or was not read yet. Sends no request.
    ///
    /// # Errors
    ///
    /// [`CounterError::NotACounter`] if the node has other data.
    pub fn current(&self) -> Result<Option<Versioned<i32>>, CounterError> {
        let current = self.value.current();
        current.map(|now| number(self.path(), now)).transpose()
    }

    /// Returns whether the number in memory is up to date, apart from changes on their way.
    pub fn is_synchronized(&self) -> bool {
        self.value.is_synchronized()
    }

    /// Waits until the number in memory is up to date and the node exists, and returns it.
    ///
    /// # Errors
    ///
    /// [`CounterError::Ended`] if there will be no further session, and [`CounterError::NotACounter`].
    pub async fn synchronized(&self) -> Result<Versioned<i32>, CounterError> {
        number(self.path(), self.value.synchronized().await?)
    }

    /// Returns the changes of the number, beginning with the one that is in memory.
    pub fn changes(&self) -> CountChanges {
        CountChanges {
            path: self.path().clone(),
            changes: self.value.changes(),
        }
    }

    /// Replaces the number whatever it is, and creates the node if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`SharedValue::set`].
    pub async fn set(&self, count: i32) -> Result<(), CounterError> {
        self.value.set(count.to_be_bytes()).await
    }

    /// Replaces the number if the one that was seen has not been overwritten since, be it by the same number.
    ///
    /// # Errors
    ///
    /// Those of [`SharedValue::set`].
    pub async fn try_set(
        &self,
        seen: &Versioned<i32>,
        count: i32,
    ) -> Result<TrySetOutcome, CounterError> {
        self.value.try_set(seen, count.to_be_bytes()).await
    }
}

/// The changes of a [`SharedCount`], for one consumer.
///
/// A consumer that is slower than the changes skips numbers that were overwritten, never the newest one.
#[derive(Debug)]
pub struct CountChanges {
    path: NodePath,
    changes: ValueChanges,
}

impl CountChanges {
    /// Waits for the next number; inside, it is `None` if the node does not exist. Returns `None` when there will be no
    /// further session.
    ///
    /// Data that is not a number is an error, after which later numbers follow.
    pub async fn next(&mut self) -> Option<Result<Option<Versioned<i32>>, CounterError>> {
        let next = self.changes.next().await?;
        Some(next.map(|now| number(&self.path, now)).transpose())
    }
}

/// Reads the four bytes of a number.
fn number(path: &NodePath, seen: Versioned<Bytes>) -> Result<Versioned<i32>, CounterError> {
    let Versioned {
        value,
        mzxid,
        version,
    } = seen;
    let number = Format::Integer
        .decode(&value)
        .and_then(|number| number.try_into().ok());
    let value = number.ok_or_else(|| CounterError::NotACounter {
        path: path.clone(),
        expected: Format::Integer.expected(),
        found: excerpt(&value),
    })?;
    Ok(Versioned {
        value,
        mzxid,
        version,
    })
}
