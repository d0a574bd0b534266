//! The 64-bit counter: the handle, its settings, and what its callers wait for.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use zk_core::{IntoNodePath, NodePath, ParsePathError, SessionSource};

use crate::call_queue::{Call, CallQueue, Progress};
use crate::counter_task::{CounterTask, run};
use crate::decision::{Decision, Operation};
use crate::error::CounterError;
use crate::format::Format;

/// A number in a node that many processes change: Curator's `DistributedAtomicLong`, kazoo's `Counter`.
///
/// Each operation is applied once and its outcome is known, also if its reply is lost: a write and an ephemeral node of
/// this process are changed in one transaction, and that node shows whether the transaction was applied.
/// A result that does not fit is refused; nothing wraps around.
///
/// Operations of one handle and its clones that are called at the same time are applied with one write. A write that
/// another process was ahead of is repeated after a random pause, with the operations that have arrived meanwhile.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_counter::AtomicCounter;
/// use zk_counter::CounterOptions;
///
/// let visitors = AtomicCounter::new(&session, "/app/visitors", &CounterOptions::default())?;
/// println!("visitor {}", visitors.increment().await?);
/// # Ok(())
/// # }
/// ```
///
/// # Session loss
///
/// An operation whose write was in flight fails with [`CounterError::Failed`], whose outcome is unknown: the ephemeral
/// node that would show it is gone. All others wait for the next session of [`Sessions`](zk_core::Sessions), or fail
/// with [`CounterError::Ended`] if the handle was made with one [`Session`](zk_core::Session).
///
/// # Cost
///
/// One round trip for all operations that wait, while no other process writes; otherwise two, and two more for each
/// write of another process that came first. The first write creates the ephemeral node.
/// An operation that changes nothing, such as [`get`](Self::get), is decided on data that was read after a `sync`.
///
/// # Dropping
///
/// When the last clone is dropped, the ephemeral node is removed in the background. It keeps its session open until then.
#[derive(Clone)]
pub struct AtomicCounter {
    shared: Arc<Shared>,
    timeout: Duration,
}

struct Shared {
    path: NodePath,
    queue: Arc<CallQueue>,
    task: AbortHandle,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The settings of an [`AtomicCounter`].
///
/// # Defaults
///
/// - [`format`](Self::with_format): [`Format::Long`]
/// - [`initial`](Self::with_initial): 0
/// - [`timeout`](Self::with_timeout): 15 s
#[derive(Debug, Clone)]
pub struct CounterOptions {
    format: Format,
    initial: i64,
    timeout: Duration,
}

impl CounterOptions {
    /// Sets how the number is written. The default is [`Format::Long`].
    #[must_use]
    pub const fn with_format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Sets the number of a counter whose node does not exist. The default is 0, and so is a number that the format
    /// cannot express.
    #[must_use]
    pub const fn with_initial(mut self, initial: i64) -> Self {
        self.initial = initial;
        self
    }

    /// Sets the time limit of each operation. The default is 15 s.
    #[must_use]
    pub const fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl Default for CounterOptions {
    fn default() -> Self {
        Self {
            format: Format::default(),
            initial: 0,
            timeout: Duration::from_secs(15),
        }
    }
}

/// What became of a [`compare_and_set`](AtomicCounter::compare_and_set).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum CompareAndSetOutcome {
    /// The counter had the expected number, and has the new one.
    Done,
    /// The counter has another number, and was not changed.
    Different {
        /// Its number.
        found: i64,
    },
}

impl AtomicCounter {
    /// Creates a handle to the counter at `path`. Sends no request.
    ///
    /// The first write creates the node, and missing parents, if they do not exist.
    /// With a [`Session`](zk_core::Session) the handle ends with the session, with [`Sessions`](zk_core::Sessions) it
    /// goes on with the next one.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(
        source: impl Into<SessionSource>,
        path: impl IntoNodePath,
        options: &CounterOptions,
    ) -> Result<Self, ParsePathError> {
        let (source, path) = (source.into(), path.into_node_path()?);
        let queue = Arc::new(CallQueue::default());
        let task = CounterTask {
            token: path.join(TOKEN)?,
            path: path.clone(),
            format: options.format,
            initial: options.format.encode(options.initial).unwrap_or_default(),
            queue: Arc::clone(&queue),
        };
        let task = source.spawn(run(task, source.clone())).abort_handle();
        Ok(Self {
            shared: Arc::new(Shared { path, queue, task }),
            timeout: options.timeout,
        })
    }

    /// Returns the path of the counter.
    pub fn path(&self) -> &NodePath {
        &self.shared.path
    }

    /// Returns the number, of a moment after the call began. A counter that does not exist has its
    /// [initial](CounterOptions::with_initial) number.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add), except for overflow.
    ///
    /// # Cost
    ///
    /// A `sync` and a read.
    pub async fn get(&self) -> Result<i64, CounterError> {
        self.applied(Operation::Get).await.map(|(_, after)| after)
    }

    /// Adds one, and returns the number after it.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add).
    pub async fn increment(&self) -> Result<i64, CounterError> {
        self.add(1).await
    }

    /// Subtracts one, and returns the number after it.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add).
    pub async fn decrement(&self) -> Result<i64, CounterError> {
        self.add(-1).await
    }

    /// Adds `amount`, which may be negative, and returns the number after it.
    ///
    /// # Errors
    ///
    /// [`CounterError::Overflow`] if the result is not a number of the format, and [`CounterError::NotACounter`] if the
    /// node has other data: nothing was changed.
    /// [`CounterError::TimedOut`] at the time limit: nothing was changed.
    /// [`CounterError::OutcomeUnknown`] at the time limit with a write in flight, and [`CounterError::Failed`] if the
    /// session was lost meanwhile.
    pub async fn add(&self, amount: i64) -> Result<i64, CounterError> {
        let applied = self.applied(Operation::Add(amount)).await;
        applied.map(|(_, after)| after)
    }

    /// Replaces the number whatever it is, and returns the one before.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add).
    pub async fn set(&self, new: i64) -> Result<i64, CounterError> {
        let applied = self.applied(Operation::Set(new)).await;
        applied.map(|(before, _)| before)
    }

    /// Replaces the number if it is `expected`.
    ///
    /// # Errors
    ///
    /// Those of [`add`](Self::add).
    pub async fn compare_and_set(
        &self,
        expected: i64,
        new: i64,
    ) -> Result<CompareAndSetOutcome, CounterError> {
        match self
            .call(Operation::CompareAndSet { expected, new })
            .await?
        {
            Decision::Applied { .. } => Ok(CompareAndSetOutcome::Done),
            Decision::Different { found } => Ok(CompareAndSetOutcome::Different { found }),
            Decision::Overflow { value } => Err(self.overflow(value)),
        }
    }

    /// Performs an operation, and returns the number before and after it.
    async fn applied(&self, operation: Operation) -> Result<(i64, i64), CounterError> {
        match self.call(operation).await? {
            Decision::Applied { before, after } => Ok((before, after)),
            Decision::Overflow { value } | Decision::Different { found: value } => {
                Err(self.overflow(value))
            }
        }
    }

    async fn call(&self, operation: Operation) -> Result<Decision, CounterError> {
        let (reply, replied) = oneshot::channel();
        let progress = Arc::new(Progress::default());
        let queue = Arc::clone(&self.shared.queue);
        let withdraw = WithdrawOnDrop(queue, Arc::clone(&progress));
        let is_taken = self.shared.queue.push(Call {
            operation,
            progress,
            reply,
        });
        let path = || self.path().clone();
        if !is_taken {
            return Err(CounterError::Ended { path: path() });
        }
        let replied = timeout(self.timeout, replied).await;
        let waited = self.timeout;
        match replied {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) if operation.is_write() && !withdraw.now() => {
                Err(CounterError::OutcomeUnknown {
                    path: path(),
                    waited,
                })
            }
            Ok(Err(_)) => Err(CounterError::Ended { path: path() }),
            Err(_) => Err(CounterError::TimedOut {
                path: path(),
                waited,
            }),
        }
    }

    fn overflow(&self, value: i64) -> CounterError {
        CounterError::Overflow {
            path: self.path().clone(),
            value,
        }
    }
}

impl fmt::Debug for AtomicCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtomicCounter")
            .field("path", self.path())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Withdraws a call whose caller is gone, if no write has it.
struct WithdrawOnDrop(Arc<CallQueue>, Arc<Progress>);

impl WithdrawOnDrop {
    /// Returns true if the call will have no effect.
    fn now(&self) -> bool {
        self.0.withdraw(&self.1)
    }
}

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        self.now();
    }
}

/// The name of the idempotency token, after its unique id.
const TOKEN: &str = "token";
