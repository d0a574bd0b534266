//! Giving out ids for a worker number.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Session;

use crate::abort_on_drop::Task;
use crate::clock::Clock;
use crate::error::NextError;
use crate::generator_state::Core;
use crate::id::Id;
use crate::id_range::Run;
use crate::layout::Layout;

/// Gives out ids for a worker number that nobody else uses, which is for you to see to.
///
/// A [`Snowflake`](crate::Snowflake) has its worker number from ZooKeeper and remembers across restarts which time was
/// used; use this one where numbers are fixed and clocks do not go back while a process is restarted.
///
/// Ids of one generator rise, and so do those that one thread takes, also when the clock goes back: it waits then.
/// Clones are the same generator.
///
/// # Cost
///
/// A read of a coarse monotonic clock and one compare-and-swap for an id.
/// A task looks at the clock each millisecond for as long as ids are taken, and sleeps otherwise; without it, see
/// [`new`](Self::new), each call looks at the clock, and takes a lock for that.
/// The task is for speed: if it starves, or its runtime ends, a call that finds the millisecond to be over looks at the clock
/// itself, and at whether the worker number is still its own.
///
/// # Dropping
///
/// The task ends with the last clone.
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
    core: Arc<Core>,
    patience: Duration,
    _ticker: Option<Arc<Task>>,
}

impl Generator {
    /// Makes a generator that needs no runtime, for which it looks at the clock for each call.
    ///
    /// # Panics
    ///
    /// When the layout has no such worker.
    pub fn new(layout: Layout, worker: u32, clock: impl Clock) -> Self {
        assert!(
            worker < layout.workers(),
            "there is no worker {worker} in a layout of {} workers",
            layout.workers()
        );
        let ticks = layout.ticks();
        let core = Core::new(layout, worker, clock, None, 0, ticks);
        Self::of(Arc::new(core), None)
    }

    /// Makes a generator with a task that looks at the clock.
    ///
    /// # Panics
    ///
    /// When the layout has no such worker, or outside of a Tokio runtime with its time driver enabled.
    pub fn spawn(layout: Layout, worker: u32, clock: impl Clock) -> Self {
        let Self { core, .. } = Self::new(layout, worker, clock);
        let ticking = Arc::clone(&core);
        let ticker = Task::spawn(async move { ticking.tick().await });
        Self::of(core, Some(Arc::new(ticker)))
    }

    /// Makes a generator whose time goes on as long as the runtime of the session does.
    pub(crate) fn ticking_with(session: &Session, core: Arc<Core>) -> Self {
        let ticking = Arc::clone(&core);
        let ticker = Task::spawn_on(session, async move { ticking.tick().await });
        Self::of(core, Some(Arc::new(ticker)))
    }

    fn of(core: Arc<Core>, ticker: Option<Arc<Task>>) -> Self {
        Self {
            core,
            patience: PATIENCE,
            _ticker: ticker,
        }
    }

    /// Sets for how long [`next`](Self::next) and [`next_many`](Self::next_many) of this clone wait for an id before they
    /// answer why there is none; default 10 s, none with zero.
    #[must_use]
    pub const fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Returns the layout of the ids.
    pub fn layout(&self) -> Layout {
        self.core.layout
    }

    /// Returns the worker number.
    pub fn worker(&self) -> u32 {
        self.core.worker
    }

    /// Takes an id if there is one now. Waits for nothing.
    ///
    /// # Errors
    ///
    /// Why there is none, which is not the end unless its [class](NextError::class) says so.
    #[inline]
    pub fn try_next(&self) -> Result<Id, NextError> {
        self.core.take_one()
    }

    /// Takes up to `most` ids that follow each other, at least one unless `most` is zero, if there are any now, in one
    /// step. Waits for nothing.
    ///
    /// # Errors
    ///
    /// Those of [`try_next`](Self::try_next).
    pub fn try_next_many(&self, most: usize) -> Result<Run, NextError> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let positions = match most {
            0 => 0..0,
            _ => self.core.take(most)?,
        };
        Ok(Run::new(self.core.stamp, positions))
    }

    /// Takes an id, and waits for it if there is none now: for the next millisecond, for the clock to catch up, for the
    /// ensemble.
    ///
    /// It needs a Tokio runtime with its time driver enabled when it waits.
    ///
    /// # Errors
    ///
    /// Why there was none for as long as the [patience](Self::with_patience) lasts; at once, if that is known to be too
    /// short for a clock that is behind, or if there will never be any.
    ///
    /// # Cancel safety
    ///
    /// Safe, at most an id is skipped.
    ///
    /// # Session loss
    ///
    /// [`NextError::Lost`], for a generator whose worker number is leased.
    ///
    /// # Cost
    ///
    /// See the [type](Self); no round trip.
    pub async fn next(&self) -> Result<Id, NextError> {
        match self.core.take_one() {
            Ok(id) => Ok(id),
            Err(_) => self.wait().await,
        }
    }

    async fn wait(&self) -> Result<Id, NextError> {
        let taken = self.core.wait_and_take(1, self.patience).await?;
        Ok(self.core.stamp.id(taken.start))
    }

    /// Takes so many ids, and waits for them if there are not enough now.
    ///
    /// They rise; others may take ids in between.
    ///
    /// # Errors
    ///
    /// Those of [`next`](Self::next), whose patience counts for each time it waits; the ids that it had are skipped then.
    ///
    /// # Cancel safety
    ///
    /// Safe, the ids that it had are skipped.
    ///
    /// # Session loss
    ///
    /// [`NextError::Lost`], for a generator whose worker number is leased.
    ///
    /// # Cost
    ///
    /// One compare-and-swap for each millisecond whose ids it takes; no round trip.
    pub async fn next_many(&self, count: usize) -> Result<Vec<Id>, NextError> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            let most = u64::try_from(count - ids.len()).unwrap_or(u64::MAX);
            let positions = self.core.wait_and_take(most, self.patience).await?;
            ids.extend(Run::new(self.core.stamp, positions));
        }
        Ok(ids)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
