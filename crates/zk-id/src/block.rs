//! Ids from a counter in ZooKeeper, of which each process takes blocks.

use std::collections::VecDeque;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio::time::timeout;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::abort_on_drop::Task;
use crate::error::excerpt;
use crate::path_schema::ROUNDS;
use crate::path_schema::is_overtaken;

/// Numbers from 1 on, of which each is given out once, by whichever process: a counter of 64 bits of which every process
/// takes blocks.
///
/// A block is written down as taken before its first number is given out.
/// Each process gives out rising numbers; which of two processes gives out the smaller one does not tell which was earlier.
/// What is left of its blocks when a process ends is given out by nobody.
/// Clones share their blocks.
///
/// The counter is that of Curator's `DistributedAtomicLong`, 8 bytes with the highest first.
/// Java processes that take `postValue()` of its `increment()` for an id may use the same path.
///
/// # Cost
///
/// No round trip while there are numbers: the next block is fetched when less than half of one is left.
/// A block costs a read and a write, more when several processes fetch at the same moment.
///
/// # Dropping
///
/// With the last clone, the fetch that is under way ends, and what is left of the blocks is given up.
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
    /// The task that fetches a block. It ends with this.
    fetcher: Arc<Mutex<Option<Task>>>,
}

/// No number was given out.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BlockError {
    /// The counter has reached the largest number there is.
    #[error("the counter {path} has reached {}; there are no more ids", i64::MAX)]
    Exhausted {
        /// The counter.
        path: NodePath,
    },
    /// The data of the node is not a counter.
    #[error("{path} has {found:?}, where a counter of 8 bytes should be; use another path")]
    NoCounter {
        /// The node.
        path: NodePath,
        /// Its data, or how that begins.
        found: String,
    },
    /// The counter is below a block that this process was given: somebody has set it back, or deleted it, so that numbers
    /// would repeat.
    #[error(
        "the counter {path} is at {found} after {given} was taken; somebody has set it back, set it to {given} at least"
    )]
    SetBack {
        /// The counter.
        path: NodePath,
        /// Where it is.
        found: i64,
        /// What was taken.
        given: i64,
    },
    /// Other processes were faster at each attempt, for longer than the operation timeout.
    #[error("others took blocks of {path} faster, {attempts} times in a row; take larger blocks")]
    Contended {
        /// The counter.
        path: NodePath,
        /// How often it was tried.
        attempts: u32,
    },
    /// The ensemble did not do it.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The runtime is shutting down.
    #[error("the runtime that fetches blocks was shut down")]
    Stopped,
}

impl BlockError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Exhausted { .. }
            | Self::NoCounter { .. }
            | Self::SetBack { .. }
            | Self::Stopped => ErrorClass::Outcome,
            Self::Contended { .. } => ErrorClass::Recoverable,
            Self::Failed(error) => error.class(),
        }
    }
}

#[derive(Debug)]
struct Shared {
    counter: Counter,
    stock: Mutex<Stock>,
    /// Tells those who wait how many fetches have ended, and how the last one did.
    fetched: watch::Sender<Fetched>,
}

#[derive(Debug, Clone, Default)]
struct Fetched {
    count: u64,
    error: Option<BlockError>,
}

/// The numbers that are ours and not given out yet.
#[derive(Debug, Default)]
struct Stock {
    blocks: VecDeque<RangeInclusive<i64>>,
    is_fetching: bool,
}

impl BlockIds {
    /// Makes a handle of the counter at `path`, of which blocks of `block` numbers are taken.
    ///
    /// The node at the path is made when it is needed, and so are its parents.
    /// A process that ends gives up to two blocks away; one that gives out more than a block in two round trips waits for
    /// the next one.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(
        session: &Session,
        path: P,
        block: std::num::NonZeroU32,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        Ok(Self {
            shared: Arc::new(Shared {
                counter: Counter {
                    session: session.clone(),
                    path,
                    block: i64::from(block.get()),
                    given: Mutex::new(i64::MIN),
                },
                stock: Mutex::default(),
                fetched: watch::Sender::default(),
            }),
            fetcher: Arc::default(),
        })
    }

    /// Gives out a number if there is one here. Waits for nothing.
    ///
    /// The next block is fetched in the background when it is time.
    ///
    pub fn try_next(&self) -> Option<i64> {
        let (number, is_to_fetch) = {
            let mut stock = self.shared.stock();
            let number = stock.pop();
            (number, stock.begins_fetch(self.shared.counter.block / 2))
        };
        if is_to_fetch {
            self.fetch();
        }
        number
    }

    /// Gives out a number, and waits for a block if there is none here.
    ///
    /// # Errors
    ///
    /// Why there is none.
    /// [`BlockError::Exhausted`] after the largest number.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened; a block that is being fetched is for the next call.
    ///
    /// # Session loss
    ///
    /// What is left of the blocks is given out, since nobody else will; then [`BlockError::Failed`].
    ///
    /// # Cost
    ///
    /// See the [type](Self).
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
            // The task that fetches says so in any case; when the runtime shuts down it is dropped, and says that.
            let answer = match fetched.wait_for(|fetched| fetched.count > count).await {
                Ok(answer) => answer.error.clone(),
                Err(_) => Some(BlockError::Stopped),
            };
            if let Some(error) = answer {
                // Others may have left some.
                return self.shared.stock().pop().ok_or(error);
            }
        }
    }

    /// Gives out so many numbers, and waits for blocks if there are not enough here.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next); the numbers that it had are given to nobody then.
    ///
    /// # Cancel safety
    ///
    /// Safe, the numbers that it had are given to nobody.
    ///
    /// # Session loss
    ///
    /// [`BlockError::Failed`].
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

    /// Fetches the next block. To be called without the stock: a fetch that cannot be started says so at once.
    fn fetch(&self) {
        // Held until the task is stored, so that it never takes the place of a later one.
        let mut fetcher = lock(&self.fetcher);
        let fetching = Fetching {
            shared: Arc::clone(&self.shared),
            has_ended: false,
        };
        *fetcher = Some(Task::spawn_on(&self.shared.counter.session, async move {
            let answer = fetching.shared.counter.take().await;
            fetching.end(answer);
        }));
    }
}

/// A fetch that is under way. It is told how it ended, also when it is dropped.
struct Fetching {
    shared: Arc<Shared>,
    has_ended: bool,
}

impl Fetching {
    fn end(mut self, answer: Result<RangeInclusive<i64>, BlockError>) {
        self.has_ended = true;
        self.shared.ended(answer);
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        if !self.has_ended {
            self.shared.ended(Err(BlockError::Stopped));
        }
    }
}

impl Shared {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        lock(&self.stock)
    }

    fn ended(&self, answer: Result<RangeInclusive<i64>, BlockError>) {
        let mut stock = self.stock();
        stock.is_fetching = false;
        let error = match answer {
            Ok(block) => {
                stock.blocks.push_back(block);
                None
            }
            Err(error) => Some(error),
        };
        drop(stock);
        self.fetched.send_modify(|fetched| {
            fetched.count += 1;
            fetched.error = error;
        });
    }
}

impl Stock {
    fn pop(&mut self) -> Option<i64> {
        loop {
            match self.blocks.front_mut()?.next() {
                Some(number) => return Some(number),
                None => drop(self.blocks.pop_front()),
            }
        }
    }

    /// Tells whether a fetch is to be started by whoever asks, which is when there are not more numbers than these.
    fn begins_fetch(&mut self, few: i64) -> bool {
        let begins = !self.is_fetching && !self.has(few);
        self.is_fetching |= begins;
        begins
    }

    /// Whether there are more numbers than these.
    fn has(&self, numbers: i64) -> bool {
        let mut left = i128::from(numbers);
        self.blocks.iter().any(|block| {
            if !block.is_empty() {
                left -= i128::from(*block.end()) - i128::from(*block.start()) + 1;
            }
            left < 0
        })
    }
}

/// The counter in ZooKeeper.
struct Counter {
    session: Session,
    path: NodePath,
    block: i64,
    /// The largest number of a block of ours.
    given: Mutex<i64>,
}

impl Counter {
    /// Takes a block, which is nobody else's when this answers.
    ///
    /// A block whose answer was lost is not looked for but given up, and the next one taken: the numbers need not be dense,
    /// and another process that took a block of the same size would have written the same.
    async fn take(&self) -> Result<RangeInclusive<i64>, BlockError> {
        let since = Instant::now();
        let mut attempts = 0;
        loop {
            let (value, version) = self.read().await?;
            let given = *lock(&self.given);
            if value < given {
                return Err(BlockError::SetBack {
                    path: self.path.clone(),
                    found: value,
                    given,
                });
            }
            let Some(block) = block_after(value, self.block) else {
                return Err(BlockError::Exhausted {
                    path: self.path.clone(),
                });
            };
            let data = block.end().to_be_bytes();
            let written = match guard_of(version) {
                Guard::Absent => {
                    let create = self.session.create(&self.path, data).parents();
                    create.await.map(drop)
                }
                Guard::Version(version) => {
                    let set = self.session.set(&self.path, data).version(version);
                    set.await.map(drop)
                }
                Guard::Child { mzxid } => self.write_once(mzxid, data).await,
            };
            match written {
                Ok(()) => {
                    *lock(&self.given) = *block.end();
                    return Ok(block);
                }
                Err(error) if is_overtaken(error.kind()) => {}
                Err(error) => return Err(error.into()),
            }
            attempts += 1;
            if attempts >= ROUNDS && since.elapsed() >= self.session.operation_timeout() {
                return Err(BlockError::Contended {
                    path: self.path.clone(),
                    attempts,
                });
            }
            let pause = pause(attempts, fastrand::f64());
            drop(timeout(pause, std::future::pending::<()>()).await);
            self.session.sync(&self.path).await?;
        }
    }

    /// Returns the counter, and what tells it from later ones; zero if there is none.
    async fn read(&self) -> Result<(i64, Option<(i32, i64)>), BlockError> {
        let (data, stat) = match self.session.get(&self.path).await {
            Ok(found) => found,
            Err(error) if error.is_no_node() => return Ok((0, None)),
            Err(error) => return Err(error.into()),
        };
        let value = match <[u8; 8]>::try_from(data.as_slice()) {
            Ok(bytes) => i64::from_be_bytes(bytes),
            // As Curator reads it.
            Err(_) if data.is_empty() => 0,
            Err(_) => {
                return Err(BlockError::NoCounter {
                    path: self.path.clone(),
                    found: excerpt(&data),
                });
            }
        };
        Ok((value, Some((stat.version, stat.mzxid))))
    }

    /// Replaces the data that the transaction `mzxid` wrote, once: by a child that only one can make.
    async fn write_once(&self, mzxid: i64, data: [u8; 8]) -> Result<(), Error> {
        let name = format!("after-{mzxid:016x}");
        let child = self
            .path
            .join(&name)
            .expect("a name of letters, digits and a hyphen");
        let transaction = self.session.transaction().create(child, "");
        transaction.set(&self.path, data).commit().await.map(drop)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counter")
            .field("path", &self.path)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

/// What lets only one of those succeed who read the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guard {
    /// There was no node.
    Absent,
    /// The version, which the server compares.
    Version(i32),
    /// Version -1, which servers take for any: after 2^32-1 writes. The write takes a child with it, one for each of those.
    Child { mzxid: i64 },
}

const fn guard_of(seen: Option<(i32, i64)>) -> Guard {
    match seen {
        None => Guard::Absent,
        Some((-1, mzxid)) => Guard::Child { mzxid },
        Some((version, _)) => Guard::Version(version),
    }
}

/// How long to wait after so many attempts before the next one: any time up to a limit that doubles, so that processes which
/// began together do not go on together.
fn pause(attempts: u32, chance: f64) -> Duration {
    let doublings = 2_u32.saturating_pow(attempts);
    let most = SHORTEST_PAUSE.saturating_mul(doublings).min(LONGEST_PAUSE);
    most.mul_f64(chance)
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The block of up to so many numbers behind a counter; `None` when there are none.
fn block_after(value: i64, block: i64) -> Option<RangeInclusive<i64>> {
    Some(value.checked_add(1)?..=value.saturating_add(block))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind it is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_with_the_numbers_there_are() {
        assert_eq!(block_after(0, 10), Some(1..=10));
        assert_eq!(block_after(-5, 1), Some(-4..=-4));
        assert_eq!(block_after(i64::MAX - 3, 10), Some(i64::MAX - 2..=i64::MAX));
        assert_eq!(block_after(i64::MAX - 1, 10), Some(i64::MAX..=i64::MAX));
        assert_eq!(block_after(i64::MAX, 10), None);
    }

    #[test]
    fn pauses_double_up_to_a_second_and_vary_from_nothing() {
        let ms = Duration::from_millis;
        assert_eq!(pause(1, 0.0), Duration::ZERO);
        assert_eq!(pause(1, 0.5), ms(2));
        assert_eq!(pause(4, 0.5), ms(16));
        assert_eq!(pause(u32::MAX, 0.5), ms(500));
    }

    #[test]
    fn stock_gives_out_each_number_of_its_blocks_once() {
        let mut stock = Stock::default();
        assert!(!stock.has(0));
        stock.blocks.extend([1..=2, 7..=7, i64::MAX - 1..=i64::MAX]);
        assert!(stock.has(4) && !stock.has(5));
        let all: Vec<i64> = std::iter::from_fn(|| stock.pop()).collect();
        assert_eq!(all, [1, 2, 7, i64::MAX - 1, i64::MAX]);
        assert!(!stock.has(0));
    }

    #[test]
    fn version_that_servers_take_for_any_is_never_sent() {
        assert_eq!(guard_of(Some((-1, 9))), Guard::Child { mzxid: 9 });
        for version in [0, 1, -2, i32::MAX, i32::MIN] {
            assert_eq!(guard_of(Some((version, 9))), Guard::Version(version));
        }
        assert_eq!(guard_of(None), Guard::Absent);
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_saw_version_minus_one_only_one_writes() {
        let ensemble = zk_sim::Ensemble::new(3);
        let session = ensemble.connect().await;
        let counter = Counter {
            session: session.clone(),
            path: NodePath::parse("/c").unwrap(),
            block: 10,
            given: Mutex::new(i64::MIN),
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
        assert!(is_overtaken(error.kind()), "{error}");
        // Who reads again takes the next block, also the next time that this is the version.
        let (value, seen) = counter.read().await.unwrap();
        assert_eq!(value, 20);
        counter
            .write_once(seen.unwrap().1, 30_i64.to_be_bytes())
            .await
            .unwrap();
    }
}
