//! Issues numbers from blocks of a shared counter.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use zk_core::{Error, ErrorClass, IntoNodePath, NodePath, ParsePathError, Session};

use crate::abort_on_drop::AbortOnDrop;
use crate::error::excerpt;
use crate::path_schema::{MAX_ATTEMPTS, is_conflict};
use crate::worker::child;

/// Numbers from 1 on, each issued once over all processes: a 64-bit counter from which each process takes blocks.
///
/// The counter is advanced past a block before the first number of the block is issued.
/// The numbers of one process rise. The numbers of different processes have no order in time.
/// When a process ends, the remaining numbers of its blocks are lost.
/// Clones share their blocks.
///
/// The counter is that of Curator's `DistributedAtomicLong`: 8 bytes, big-endian.
/// Java processes that use the `postValue()` of its `increment()` as an id can share the path.
///
/// # Cost
///
/// No round trip while there are numbers: the next block is fetched when less than half a block is left.
/// A block costs a read and a write, and more if several processes fetch at the same moment.
///
/// # Dropping
///
/// The last clone aborts the current fetch. The remaining numbers are lost.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::num::NonZeroU32;
/// use zk_id::BlockIds;
///
/// let invoices = BlockIds::new(&session, "/ids/invoices", NonZeroU32::new(1_000).unwrap())?;
/// println!("invoice {}", invoices.next().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct BlockIds {
    shared: Arc<Shared>,
    /// The task that fetches a block.
    fetcher: Arc<Mutex<Option<AbortOnDrop>>>,
}

/// No number was issued.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The counter has reached its maximum.
    #[error(
        "the counter {path} has reached its maximum of {}; use another path",
        i64::MAX
    )]
    Exhausted {
        /// The counter.
        path: NodePath,
    },
    /// The data of the node is not a counter.
    #[error("{path} contains {found:?} instead of a counter of 8 bytes; use another path")]
    NotACounter {
        /// The node.
        path: NodePath,
        /// Its data, or the beginning of its data.
        found: String,
    },
    /// The counter is less than the end of a block that this process took: another client has decreased or deleted it,
    /// so that numbers would repeat.
    #[error(
        "the counter {path} is {found} although all numbers up to {taken} were taken; set it to {taken} or more"
    )]
    CounterDecreased {
        /// The counter.
        path: NodePath,
        /// The current value.
        found: i64,
        /// The largest number of a block of this process.
        taken: i64,
    },
    /// Other processes took a block first at each attempt, for longer than the operation timeout.
    #[error(
        "other processes took a block of {path} first in {attempts} consecutive attempts; use larger blocks"
    )]
    Contended {
        /// The counter.
        path: NodePath,
        /// The number of attempts.
        attempts: u32,
    },
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The runtime of the session was shut down.
    #[error("the runtime that fetches blocks was shut down")]
    Stopped,
}

impl BlockError {
    /// Returns what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Exhausted { .. }
            | Self::NotACounter { .. }
            | Self::CounterDecreased { .. }
            | Self::Stopped => ErrorClass::Outcome,
            Self::Contended { .. } => ErrorClass::Recoverable,
            Self::Failed(error) => error.class(),
        }
    }
}

#[derive(Debug)]
struct Shared {
    counter: Counter,
    buffer: Mutex<BlockBuffer>,
    /// Notifies waiters of the number of completed fetches and the result of the last one.
    fetched: watch::Sender<FetchStatus>,
}

#[derive(Debug, Clone, Default)]
struct FetchStatus {
    count: u64,
    error: Option<BlockError>,
}

/// The numbers that this process took and has not issued yet.
#[derive(Debug, Default)]
struct BlockBuffer {
    blocks: VecDeque<RangeInclusive<i64>>,
    is_fetching: bool,
}

impl BlockIds {
    /// Creates a handle to the counter at `path`, from which it takes blocks of `block` numbers.
    ///
    /// The node at the path, and its parents, are created on first use.
    /// A process loses up to two blocks when it ends. A process that issues more than a block in two round trips waits
    /// for the next block.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        block: std::num::NonZeroU32,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        Ok(Self {
            shared: Arc::new(Shared {
                counter: Counter {
                    session: session.clone(),
                    path,
                    block: i64::from(block.get()),
                    last_taken: Mutex::new(i64::MIN),
                },
                buffer: Mutex::default(),
                fetched: watch::Sender::default(),
            }),
            fetcher: Arc::default(),
        })
    }

    /// Returns a number of the current blocks without waiting, or `None` if there is none.
    ///
    /// Starts a fetch of the next block in the background if necessary.
    pub fn try_next(&self) -> Option<i64> {
        let (number, starts_fetch) = {
            let mut buffer = self.shared.buffer();
            let number = buffer.pop();
            (number, buffer.starts_fetch(self.shared.counter.block / 2))
        };
        if starts_fetch {
            self.fetch();
        }
        number
    }

    /// Returns a number. If there is none in the current blocks, waits for the next block.
    ///
    /// # Errors
    ///
    /// The reason why the fetch of the block failed. [`BlockError::Exhausted`] after the largest number.
    ///
    /// # Cancel safety
    ///
    /// Nothing is skipped: a block that is being fetched is kept for the next call.
    ///
    /// # Session loss
    ///
    /// Returns the remaining numbers of the blocks, which no other process can issue; then [`BlockError::Failed`].
    pub async fn next(&self) -> Result<i64, BlockError> {
        loop {
            let mut fetched = self.shared.fetched.subscribe();
            let count = {
                let count = fetched.borrow_and_update().count;
                if let Some(number) = self.try_next() {
                    return Ok(number);
                }
                count
            };
            // Every fetch reports its end, also when a shutdown of the runtime drops it.
            let error = match fetched.wait_for(|fetched| fetched.count > count).await {
                Ok(fetched) => fetched.error.clone(),
                Err(_) => Some(BlockError::Stopped),
            };
            if let Some(error) = error {
                // An earlier block may still have numbers.
                return self.shared.buffer().pop().ok_or(error);
            }
        }
    }

    /// Returns `count` numbers, and waits for blocks if there are not enough.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next). The numbers taken so far are lost.
    ///
    /// # Cost
    ///
    /// A read and a write for each block.
    pub async fn next_many(&self, count: usize) -> Result<Vec<i64>, BlockError> {
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            numbers.push(self.next().await?);
        }
        Ok(numbers)
    }

    /// Starts a fetch of the next block.
    ///
    /// Must not be called with the buffer locked: a task that cannot be spawned is dropped at once, and then reports
    /// its end.
    fn fetch(&self) {
        // Locked until the task is stored, so that it never replaces a later task.
        let mut fetcher = lock(&self.fetcher);
        let guard = FetchGuard {
            shared: Arc::clone(&self.shared),
            is_finished: false,
        };
        *fetcher = Some(AbortOnDrop::spawn_on(
            &self.shared.counter.session,
            async move {
                let result = guard.shared.counter.take().await;
                guard.finish(result);
            },
        ));
    }
}

/// Reports the end of a fetch, also if its task is dropped.
struct FetchGuard {
    shared: Arc<Shared>,
    is_finished: bool,
}

impl FetchGuard {
    fn finish(mut self, result: Result<RangeInclusive<i64>, BlockError>) {
        self.is_finished = true;
        self.shared.fetch_ended(result);
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        if !self.is_finished {
            self.shared.fetch_ended(Err(BlockError::Stopped));
        }
    }
}

impl Shared {
    fn buffer(&self) -> MutexGuard<'_, BlockBuffer> {
        lock(&self.buffer)
    }

    fn fetch_ended(&self, result: Result<RangeInclusive<i64>, BlockError>) {
        let mut buffer = self.buffer();
        buffer.is_fetching = false;
        let error = match result {
            Ok(block) => {
                buffer.blocks.push_back(block);
                None
            }
            Err(error) => Some(error),
        };
        drop(buffer);
        self.fetched.send_modify(|fetched| {
            fetched.count += 1;
            fetched.error = error;
        });
    }
}

impl BlockBuffer {
    fn pop(&mut self) -> Option<i64> {
        loop {
            match self.blocks.front_mut()?.next() {
                Some(number) => return Some(number),
                None => drop(self.blocks.pop_front()),
            }
        }
    }

    /// Returns whether the caller must start a fetch: none is running, and at most `threshold` numbers are left.
    fn starts_fetch(&mut self, threshold: i64) -> bool {
        let starts = !self.is_fetching && !self.has_more_than(threshold);
        self.is_fetching |= starts;
        starts
    }

    /// Returns whether more than `numbers` numbers are left.
    fn has_more_than(&self, numbers: i64) -> bool {
        let mut left = i128::from(numbers);
        self.blocks.iter().any(|block| {
            if !block.is_empty() {
                left -= i128::from(*block.end()) - i128::from(*block.start()) + 1;
            }
            left < 0
        })
    }
}

/// The counter node.
#[derive(Debug)]
struct Counter {
    session: Session,
    path: NodePath,
    block: i64,
    /// The largest number of a block that this process took.
    last_taken: Mutex<i64>,
}

impl Counter {
    /// Takes a block for this process alone.
    ///
    /// If the reply to a write is lost, the block is skipped and the next one taken: the numbers may have gaps, and the
    /// written value does not identify the writer, since another process with the same block size writes the same.
    async fn take(&self) -> Result<RangeInclusive<i64>, BlockError> {
        let since = Instant::now();
        let mut attempts = 0;
        loop {
            let (value, version) = self.read().await?;
            let taken = *lock(&self.last_taken);
            if value < taken {
                return Err(BlockError::CounterDecreased {
                    path: self.path.clone(),
                    found: value,
                    taken,
                });
            }
            let Some(block) = block_after(value, self.block) else {
                return Err(BlockError::Exhausted {
                    path: self.path.clone(),
                });
            };
            let data = block.end().to_be_bytes();
            let written = match condition_for(version) {
                WriteCondition::Absent => {
                    let create = self.session.create(&self.path, data).parents();
                    create.await.map(drop)
                }
                WriteCondition::Version(version) => {
                    let set = self.session.set(&self.path, data).version(version);
                    set.await.map(drop)
                }
                WriteCondition::Marker { mzxid } => self.write_once(mzxid, data).await,
            };
            match written {
                Ok(()) => {
                    *lock(&self.last_taken) = *block.end();
                    return Ok(block);
                }
                Err(error) if is_conflict(error.kind()) => {}
                Err(error) => return Err(error.into()),
            }
            attempts += 1;
            if attempts >= MAX_ATTEMPTS && since.elapsed() >= self.session.operation_timeout() {
                return Err(BlockError::Contended {
                    path: self.path.clone(),
                    attempts,
                });
            }
            let pause = backoff(attempts, fastrand::f64());
            drop(timeout(pause, std::future::pending::<()>()).await);
            self.session.sync(&self.path).await?;
        }
    }

    /// Returns the value of the counter, with the node's `version` and `mzxid`. Zero if there is no node.
    async fn read(&self) -> Result<(i64, Option<(i32, i64)>), BlockError> {
        let (data, stat) = match self.session.get(&self.path).await {
            Ok(found) => found,
            Err(error) if error.is_no_node() => return Ok((0, None)),
            Err(error) => return Err(error.into()),
        };
        let value = match <[u8; 8]>::try_from(&*data) {
            Ok(bytes) => i64::from_be_bytes(bytes),
            // Curator reads empty data as zero.
            Err(_) if data.is_empty() => 0,
            Err(_) => {
                return Err(BlockError::NotACounter {
                    path: self.path.clone(),
                    found: excerpt(&data),
                });
            }
        };
        Ok((value, Some((stat.version, stat.mzxid))))
    }

    /// Replaces the data that the transaction `mzxid` wrote, together with a marker node that only one writer can
    /// create.
    async fn write_once(&self, mzxid: i64, data: [u8; 8]) -> Result<(), Error> {
        let marker = child(&self.path, &marker_name(mzxid));
        let transaction = self.session.transaction().create(marker, "");
        transaction.set(&self.path, data).commit().await.map(drop)
    }
}

/// The condition of a write that lets only one of the clients succeed that read the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteCondition {
    /// The node does not exist.
    Absent,
    /// The node has this version.
    Version(i32),
    /// The version is -1, after 2^32-1 writes, which servers treat as any version. The write also creates a marker
    /// node.
    Marker { mzxid: i64 },
}

const fn condition_for(seen: Option<(i32, i64)>) -> WriteCondition {
    match seen {
        None => WriteCondition::Absent,
        Some((-1, mzxid)) => WriteCondition::Marker { mzxid },
        Some((version, _)) => WriteCondition::Version(version),
    }
}

/// Returns the name of the marker node of the write that follows the transaction `mzxid`.
fn marker_name(mzxid: i64) -> String {
    format!("after-{mzxid:016x}")
}

/// Returns the pause before the next attempt: random, up to a limit that doubles with each attempt, so that processes
/// that started together do not retry together.
fn backoff(attempts: u32, random: f64) -> Duration {
    let doublings = 2_u32.saturating_pow(attempts);
    let limit = MIN_BACKOFF.saturating_mul(doublings).min(MAX_BACKOFF);
    limit.mul_f64(random)
}

const MIN_BACKOFF: Duration = Duration::from_millis(2);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Returns the block of up to `block` numbers after `value`, or `None` if there are no more numbers.
fn block_after(value: i64, block: i64) -> Option<RangeInclusive<i64>> {
    Some(value.checked_add(1)?..=value.saturating_add(block))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value is consistent at every moment, also after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_block_ends_at_the_largest_number() {
        assert_eq!(block_after(0, 10), Some(1..=10));
        assert_eq!(block_after(-5, 1), Some(-4..=-4));
        assert_eq!(block_after(i64::MAX - 3, 10), Some(i64::MAX - 2..=i64::MAX));
        assert_eq!(block_after(i64::MAX - 1, 10), Some(i64::MAX..=i64::MAX));
        assert_eq!(block_after(i64::MAX, 10), None);
    }

    #[test]
    fn backoff_doubles_up_to_a_second_and_starts_at_zero() {
        let ms = Duration::from_millis;
        assert_eq!(backoff(1, 0.0), Duration::ZERO);
        assert_eq!(backoff(1, 0.5), ms(2));
        assert_eq!(backoff(4, 0.5), ms(16));
        assert_eq!(backoff(u32::MAX, 0.5), ms(500));
    }

    #[test]
    fn a_buffer_returns_each_number_of_its_blocks_once() {
        let mut buffer = BlockBuffer::default();
        assert!(!buffer.has_more_than(0));
        buffer
            .blocks
            .extend([1..=2, 7..=7, i64::MAX - 1..=i64::MAX]);
        assert!(buffer.has_more_than(4) && !buffer.has_more_than(5));
        let all: Vec<i64> = std::iter::from_fn(|| buffer.pop()).collect();
        assert_eq!(all, [1, 2, 7, i64::MAX - 1, i64::MAX]);
        assert!(!buffer.has_more_than(0));
    }

    #[test]
    fn a_marker_is_named_by_the_transaction_before() {
        assert_eq!(marker_name(0x1_0000_01f3), "after-00000001000001f3");
    }

    #[test]
    fn the_version_that_matches_any_is_never_sent() {
        assert_eq!(
            condition_for(Some((-1, 9))),
            WriteCondition::Marker { mzxid: 9 }
        );
        for version in [0, 1, -2, i32::MAX, i32::MIN] {
            assert_eq!(
                condition_for(Some((version, 9))),
                WriteCondition::Version(version)
            );
        }
        assert_eq!(condition_for(None), WriteCondition::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_read_version_minus_one_only_one_writes() {
        let ensemble = zk_sim::Ensemble::new(3);
        let session = ensemble.connect().await;
        let counter = Counter {
            session: session.clone(),
            path: NodePath::parse("/c").unwrap(),
            block: 10,
            last_taken: Mutex::new(i64::MIN),
        };
        counter.take().await.unwrap();
        let (_, seen) = counter.read().await.unwrap();
        let mzxid = seen.unwrap().1;
        counter
            .write_once(mzxid, 20_i64.to_be_bytes())
            .await
            .unwrap();
        let error = counter
            .write_once(mzxid, 20_i64.to_be_bytes())
            .await
            .unwrap_err();
        assert!(is_conflict(error.kind()), "{error}");
        // A client that reads again takes the next block, also at the same version.
        let (value, seen) = counter.read().await.unwrap();
        assert_eq!(value, 20);
        counter
            .write_once(seen.unwrap().1, 30_i64.to_be_bytes())
            .await
            .unwrap();
    }
}
