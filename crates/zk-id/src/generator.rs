//! Issues snowflakes for a worker number.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Session;

use crate::abort_on_drop::AbortOnDrop;
use crate::clock::Clock;
use crate::error::NextError;
use crate::generator_state::GeneratorState;
use crate::id::Id;
use crate::id_range::IdRange;
use crate::layout::Layout;

/// A generator of snowflakes for a worker number that the caller assigns.
///
/// No other process may use the same number.
/// A [`Snowflake`](crate::Snowflake) leases its worker number from ZooKeeper and stores the used time there across
/// restarts. Use this type if the numbers are fixed and clocks do not go back while a process restarts.
///
/// Ids of one generator rise, and so do the ids that one thread takes. If the clock goes back, the generator waits for
/// it. Clones share one generator.
///
/// # Cost
///
/// A read of a coarse monotonic clock and one compare-and-swap for each id.
/// A task reads the exact clock each millisecond while ids are taken, and sleeps otherwise. Without the task, see
/// [`new`](Self::new), each call reads the exact clock under a mutex.
/// The task only saves time: if it starves, or its runtime shuts down, the first call of each millisecond reads the
/// clock itself, and checks that the worker number is still held.
///
/// # Dropping
///
/// The last clone aborts the task.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), zk_id::NextError> {
/// use zk_id::{Generator, Layout, SystemClock};
///
/// let generator = Generator::spawn(Layout::TWITTER, 7, SystemClock::default());
/// let one = generator.next().await?;
/// let other = generator.try_next()?;
/// assert!(one < other);
/// assert_eq!(generator.layout().parts(one).worker, 7);
/// assert_eq!(generator.next_many(10_000).await?.len(), 10_000);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Generator {
    state: Arc<GeneratorState>,
    max_wait: Duration,
    _ticker: Option<Arc<AbortOnDrop>>,
}

impl Generator {
    /// Creates a generator that needs no runtime and reads the exact clock for each call.
    ///
    /// # Panics
    ///
    /// If the layout has no such worker.
    pub fn new(layout: Layout, worker: u32, clock: impl Clock) -> Self {
        assert!(
            worker < layout.workers(),
            "worker {worker} is out of range for a layout of {} workers",
            layout.workers()
        );
        let ticks = layout.ticks();
        let state = GeneratorState::new(layout, worker, clock, None, 0, ticks);
        Self::with_ticker(Arc::new(state), None)
    }

    /// Creates a generator with a task that reads the clock.
    ///
    /// # Panics
    ///
    /// If the layout has no such worker, or outside of a Tokio runtime with its time driver enabled.
    pub fn spawn(layout: Layout, worker: u32, clock: impl Clock) -> Self {
        let Self { state, .. } = Self::new(layout, worker, clock);
        let ticking = Arc::clone(&state);
        let ticker = AbortOnDrop::spawn(async move { ticking.tick().await });
        Self::with_ticker(state, Some(Arc::new(ticker)))
    }

    /// Creates a generator whose task runs on the runtime of a session.
    pub(crate) fn with_session_runtime(session: &Session, state: Arc<GeneratorState>) -> Self {
        let ticking = Arc::clone(&state);
        let ticker = AbortOnDrop::spawn_on(session, async move { ticking.tick().await });
        Self::with_ticker(state, Some(Arc::new(ticker)))
    }

    fn with_ticker(state: Arc<GeneratorState>, ticker: Option<Arc<AbortOnDrop>>) -> Self {
        Self {
            state,
            max_wait: DEFAULT_MAX_WAIT,
            _ticker: ticker,
        }
    }

    /// Sets how long [`next`](Self::next), [`next_blocking`](Self::next_blocking) and [`next_many`](Self::next_many) of
    /// this clone wait for an id before they fail. The default is 10 s. With zero they do not wait.
    #[must_use]
    pub const fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Returns the layout of the ids.
    pub fn layout(&self) -> Layout {
        self.state.layout
    }

    /// Returns the worker number.
    pub fn worker(&self) -> u32 {
        self.state.worker
    }

    /// Takes an id without waiting.
    ///
    /// # Errors
    ///
    /// The reason why there is no id now. A later call may succeed, unless the [class](NextError::class) of the error
    /// says otherwise.
    #[inline]
    pub fn try_next(&self) -> Result<Id, NextError> {
        self.state.take_one()
    }

    /// Takes up to `max` consecutive ids in one step, without waiting. Takes at least one unless `max` is zero.
    ///
    /// # Errors
    ///
    /// Those of [`try_next`](Self::try_next).
    pub fn try_next_many(&self, max: usize) -> Result<IdRange, NextError> {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let positions = match max {
            0 => 0..0,
            _ => self.state.take(max)?,
        };
        Ok(IdRange::new(self.state.encoding, positions))
    }

    /// Takes an id. If there is none now, waits for the next time unit, for the clock to catch up, or for the
    /// ensemble.
    ///
    /// Waiting needs a Tokio runtime with its time driver enabled.
    ///
    /// # Errors
    ///
    /// The reason why there was no id within the [maximum wait](Self::with_max_wait). Fails at once if the next time unit
    /// does not begin in that time, a clock that is behind cannot catch up, or there will never be an id.
    pub async fn next(&self) -> Result<Id, NextError> {
        match self.state.take_one() {
            Ok(id) => Ok(id),
            Err(_) => self.wait().await,
        }
    }

    async fn wait(&self) -> Result<Id, NextError> {
        let taken = self.state.wait_and_take(1, self.max_wait).await?;
        Ok(self.state.encoding.id(taken.start))
    }

    /// Takes an id like [`next`](Self::next), for threads without a runtime: it blocks the thread while there is none.
    ///
    /// ```
    /// use zk_id::{Generator, Layout, SystemClock};
    ///
    /// let generator = Generator::new(Layout::TWITTER, 7, SystemClock::default());
    /// let thread = std::thread::spawn(move || generator.next_blocking());
    /// let id = thread.join().expect("no panic")?;
    /// assert_eq!(Layout::TWITTER.parts(id).worker, 7);
    /// # Ok::<(), zk_id::NextError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next), after the same time.
    ///
    /// # Panics
    ///
    /// In a task of a Tokio runtime, even if it would not have to wait: a blocked task stops other tasks of its thread,
    /// perhaps those that this call waits for. Use [`next`](Self::next) there.
    /// On the threads of Tokio's `spawn_blocking` and within its `block_in_place` it does not panic.
    ///
    /// # Session loss
    ///
    /// [`NextError::Lost`], if the worker number is leased. A waiting thread is woken.
    ///
    /// # Cost
    ///
    /// That of [`try_next`](Self::try_next), and a check of the thread. No round trip.
    #[track_caller]
    pub fn next_blocking(&self) -> Result<Id, NextError> {
        // Tokio's own check of whether the thread may block.
        drop(tokio::sync::Mutex::const_new(()).blocking_lock());
        match self.state.take_one() {
            Ok(id) => Ok(id),
            Err(_) => self.state.block_and_take(self.max_wait),
        }
    }

    /// Takes `count` ids, and waits for them if there are not enough now.
    ///
    /// The ids rise. Other callers may take ids in between.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next). The maximum wait applies to each wait. The ids taken so far are skipped.
    ///
    /// # Cost
    ///
    /// One compare-and-swap for each millisecond whose ids it takes. No round trip.
    pub async fn next_many(&self, count: usize) -> Result<Vec<Id>, NextError> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let max = u64::try_from(count - ids.len()).unwrap_or(u64::MAX);
            let positions = self.state.wait_and_take(max, self.max_wait).await?;
            ids.extend(IdRange::new(self.state.encoding, positions));
        }
        Ok(ids)
    }

    pub(crate) fn state(&self) -> &Arc<GeneratorState> {
        &self.state
    }
}

const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(10);
