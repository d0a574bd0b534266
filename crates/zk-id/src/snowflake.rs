//! Snowflakes on a leased worker number, whose time is reserved in ZooKeeper.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zk_core::{Error, IntoNodePath, ParsePathError, Session, SessionBound};

use crate::abort_on_drop::AbortOnDrop;
use crate::clock::{Clock, SystemClock};
use crate::error::{ClaimError, WorkerLoss};
use crate::generator::Generator;
use crate::generator_state::GeneratorState;
use crate::high_water_mark::{HighWaterMark, ReserveError, TakeOver};
use crate::layout::Layout;
use crate::server_time::ServerTime;
use crate::worker::{WorkerId, WorkerIds, WorkerNode, child, unique_writer};
use crate::worker_slots;

/// Snowflake generators that share a path and a layout. Each claims a worker number and reserves time for it.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_id::{Layout, Snowflakes};
///
/// let snowflakes = Snowflakes::new(&session, "/ids/orders", Layout::TWITTER)?;
/// let ids = snowflakes.claim().await?;
/// println!("order {}", ids.next().await?);
/// ids.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Snowflakes {
    workers: WorkerIds,
    session: Session,
    layout: Layout,
    clock: Arc<dyn Clock>,
    reserve: Duration,
    max_wait: Option<Duration>,
    max_clock_ahead: Duration,
}

impl Snowflakes {
    /// Creates a handle to the generators at `path`. All processes must use the same layout.
    ///
    /// The node at the path, and its parents, are created on first use. Use the path for nothing else.
    /// Never delete the [marks](crate#layout-of-the-nodes) below it: they keep ids from repeating.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(
        session: &Session,
        path: impl IntoNodePath,
        layout: Layout,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        let schema = format!("zk-id snowflakes of {layout}");
        Ok(Self {
            workers: WorkerIds::with_schema(session, path, layout.workers(), &schema),
            session: session.clone(),
            layout,
            clock: Arc::new(SystemClock),
            reserve: session.session_timeout().max(min_reserve(&layout)),
            max_wait: None,
            max_clock_ahead: DEFAULT_MAX_CLOCK_AHEAD,
        })
    }

    /// Sets the clock. The default is [`SystemClock`].
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets how much time is reserved ahead, from 100 ms, and four [time units](Layout::time_unit), to one day. The
    /// default is the session timeout.
    ///
    /// The reservation is extended when half of it is left, which costs a write.
    /// If a process dies, the next holder of its number waits until the reservation is over.
    /// The ensemble keeps the number for the session timeout anyway, so that the default adds no wait.
    #[must_use]
    pub fn with_reserve(mut self, reserve: Duration) -> Self {
        self.reserve = reserve.clamp(min_reserve(&self.layout), MAX_RESERVE);
        self
    }

    /// Sets by how much the [clock](Self::with_clock) may be ahead of the servers' clock. The default is one minute.
    ///
    /// Time that was reserved for a worker number is never issued again, so that a clock that is years ahead would make
    /// a number useless for years. [`claim`](Self::claim) therefore compares the clock with the timestamp that the
    /// leader gave the worker's node, and fails before it reserves time. A generator whose clock jumps later cannot
    /// reserve more time. A free number whose mark is ahead of the servers' clock by more than this limit and the
    /// [reserve](Self::with_reserve) is claimed only if there is no other free number.
    ///
    /// If the leader's clock is behind, the clocks of all processes seem to be ahead: synchronise the servers' clocks,
    /// too. The limit is capped at a hundred years, which allows any clock.
    #[must_use]
    pub fn with_max_clock_ahead(mut self, max: Duration) -> Self {
        self.max_clock_ahead = max.min(HUNDRED_YEARS);
        self
    }

    /// Sets how long a generator waits for an id, see [`Generator::with_max_wait`].
    #[must_use]
    pub fn with_max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Sets the worker number to claim if it is free, see [`WorkerIds::with_preferred`].
    #[must_use]
    pub fn with_preferred(mut self, number: u32) -> Self {
        self.workers = self.workers.with_preferred(number);
        self
    }

    /// Sets a description of the process for people, see [`WorkerIds::with_description`].
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.workers = self.workers.with_description(description);
        self
    }

    /// Returns the worker numbers of the path, to claim others and to list the holders.
    pub fn workers(&self) -> &WorkerIds {
        &self.workers
    }

    /// Claims a worker number and reserves time for it.
    ///
    /// # Errors
    ///
    /// [`ClaimError::AllTaken`], [`ClaimError::SchemaMismatch`] if the path is used with another layout,
    /// [`ClaimError::ClockAhead`] if the clock is [too far ahead](Self::with_max_clock_ahead) of the servers' clock,
    /// and [`ClaimError::Failed`] if the requests did not succeed within the session's operation timeout.
    ///
    /// # Cancel safety
    ///
    /// The worker number is released in the background. Its reserved time stays unused.
    ///
    /// # Cost
    ///
    /// That of [`WorkerIds::claim`] and two round trips; again for each number whose mark is far in the future.
    pub async fn claim(&self) -> Result<Snowflake, ClaimError> {
        let mut skipped = BTreeSet::new();
        loop {
            let sent_at = Instant::now();
            let worker = self.workers.claim_avoiding(&skipped).await?;
            let server = ServerTime::new(worker.claimed_at(), sent_at);
            match self.take_over(&worker, server, &mut skipped).await {
                Ok(TakeOver::Done { mark, previous }) => {
                    return Ok(self.generate(worker, mark, previous));
                }
                Ok(TakeOver::TooFarAhead { reserved }) => {
                    let number = worker.number();
                    let path = self.workers.path();
                    tracing::warn!(%path, number, ?reserved, "skipped a worker number whose mark is far ahead");
                    // The session retries in the background if this fails.
                    drop(worker.release().await);
                }
                Err(error) => {
                    drop(worker.release().await);
                    return Err(error);
                }
            }
        }
    }

    /// Takes over the mark of a claimed number.
    ///
    /// Fails if the clock is too far ahead. Leaves the mark alone if it is too far ahead and was not skipped before.
    async fn take_over(
        &self,
        worker: &WorkerId,
        server: ServerTime,
        skipped: &mut BTreeSet<u32>,
    ) -> Result<TakeOver, ClaimError> {
        let now = self.clock.now();
        let by = server.ahead(now, Instant::now());
        let max = self.max_clock_ahead;
        if by > max {
            return Err(ClaimError::ClockAhead { by, max });
        }
        let is_first_attempt = skipped.insert(worker.number());
        let latest = server.latest(Instant::now()) + max + self.reserve;
        let path = child(
            self.workers.path(),
            &worker_slots::mark_name(worker.number()),
        );
        let writer = unique_writer(&self.session);
        let until = now + self.reserve;
        let latest = is_first_attempt.then_some(latest);
        HighWaterMark::take_over(&self.session, path, writer, until, latest).await
    }

    fn generate(
        &self,
        worker: WorkerId,
        mark: HighWaterMark,
        previous: Option<SystemTime>,
    ) -> Snowflake {
        // Only whole time units are used of a reservation. One that ends before the epoch reserves nothing.
        let tick = |time: Option<SystemTime>| {
            let tick = time.and_then(|time| self.layout.tick(time));
            tick.unwrap_or_default()
        };
        // An operator may have written a time in the middle of a time unit that has ids.
        let whole_units = Duration::from_millis(self.layout.unit_millis() - 1);
        let clock = Arc::clone(&self.clock);
        let state = Arc::new(GeneratorState::new(
            self.layout,
            worker.number(),
            move || clock.now(),
            Some(self.session.keep_lease()),
            tick(previous.map(|time| time + whole_units)),
            tick(Some(mark.reserved())),
        ));
        let mark = Arc::new(Mutex::new(mark));
        let renewal = renew_until_lost(
            Arc::clone(&state),
            worker.node(),
            Arc::clone(&mark),
            self.reserve,
            self.max_clock_ahead,
        );
        let generator = Generator::with_session_runtime(&self.session, state);
        Snowflake {
            generator: match self.max_wait {
                Some(max_wait) => generator.with_max_wait(max_wait),
                None => generator,
            },
            worker: Some(worker),
            mark,
            renewal: Some(AbortOnDrop::spawn_on(&self.session, renewal)),
        }
    }
}

/// A [`Generator`] on a leased worker number, with reserved time.
///
/// Clones of the generator can be passed to other tasks and threads. They stop when this is released or dropped.
///
/// # Dropping
///
/// The generator stops, and the worker number is released in the background.
/// Unlike [`release`](Self::release), a drop does not give back the reserved time: the next holder of the number waits
/// until the reservation is over.
#[derive(Debug)]
#[must_use = "the worker number is released when this is dropped"]
pub struct Snowflake {
    generator: Generator,
    /// `None` once it is released.
    worker: Option<WorkerId>,
    mark: Arc<Mutex<HighWaterMark>>,
    /// The task that extends the reservation.
    renewal: Option<AbortOnDrop>,
}

impl Snowflake {
    /// Returns the generator, to be cloned.
    pub fn generator(&self) -> &Generator {
        &self.generator
    }

    /// Waits until the generator has stopped for good, and returns why.
    ///
    /// A short connection loss does not stop it, but there may be [no ids](crate::NextError::SessionLeaseExpired)
    /// meanwhile.
    pub async fn lost(&self) -> WorkerLoss {
        self.generator.state().stopped().await
    }

    /// Stops the generator, gives back the unused reserved time, releases the worker number and waits until the
    /// ensemble has released it, at most for twice the operation timeout.
    ///
    /// # Errors
    ///
    /// If the number may not be released yet. The release then continues in the background while the session lives.
    ///
    /// # Cancel safety
    ///
    /// The generator stops at the first poll, and the release continues in the background. The unused reserved time may
    /// not be given back.
    pub async fn release(mut self) -> Result<(), Error> {
        let state = Arc::clone(self.generator.state());
        let unused = state.stop(WorkerLoss::Released);
        // This may drop a write. `give_back` reads its outcome.
        self.renewal = None;
        let worker = self.worker.take();
        if let Some(tick) = unused {
            let mut mark = self.mark.lock().await;
            let limit = mark.session().operation_timeout();
            let given_back = mark.give_back(state.layout.moment(tick));
            // A write that is cut short by the timeout is harmless: the generator has stopped.
            match timeout(limit, given_back).await {
                Ok(Ok(())) => {}
                failed => {
                    tracing::debug!(
                        ?failed,
                        "reserved time not given back; the next holder of this worker number waits"
                    );
                }
            }
        }
        match worker {
            Some(worker) => worker.release().await,
            None => Ok(()),
        }
    }
}

impl Deref for Snowflake {
    type Target = Generator;

    fn deref(&self) -> &Generator {
        &self.generator
    }
}

impl SessionBound for Snowflake {
    type Loss = WorkerLoss;

    async fn lost(&self) -> WorkerLoss {
        Self::lost(self).await
    }
}

impl Drop for Snowflake {
    fn drop(&mut self) {
        // Before the fields are dropped, which releases the number.
        self.generator.state().stop(WorkerLoss::Released);
    }
}

/// Extends the reservation until the worker number is lost, then stops the generator.
async fn renew_until_lost(
    state: Arc<GeneratorState>,
    node: WorkerNode,
    mark: Arc<Mutex<HighWaterMark>>,
    reserve: Duration,
    max_clock_ahead: Duration,
) {
    let loss = tokio::select! {
        biased;
        loss = state.stopped() => loss,
        loss = node.lost() => loss,
        loss = renew(&state, &mark, reserve, max_clock_ahead) => loss,
    };
    state.stop(loss);
}

/// Extends the reservation whenever less than half of it is left. Returns why it no longer can.
async fn renew(
    state: &GeneratorState,
    mark: &Mutex<HighWaterMark>,
    reserve: Duration,
    max_clock_ahead: Duration,
) -> WorkerLoss {
    loop {
        let now = state.now();
        let mut mark = mark.lock().await;
        let left = mark.reserved().duration_since(now).unwrap_or_default();
        let early = left.saturating_sub(reserve / 2);
        let pause = if early.is_zero() {
            match mark.reserve(now, reserve, max_clock_ahead).await {
                Ok(()) => {
                    state.reserve(state.layout.tick(mark.reserved()).unwrap_or_default());
                    continue;
                }
                Err(ReserveError::Changed) => return WorkerLoss::MarkChanged,
                Err(ReserveError::ClockAhead { by }) => {
                    tracing::warn!(
                        ?by,
                        "no more time is reserved for this worker: its clock is ahead of the servers' clock"
                    );
                    reserve / 4
                }
                Err(ReserveError::Failed(error)) if error.is_fatal() => {
                    return WorkerLoss::SessionLost;
                }
                Err(ReserveError::Failed(error)) => {
                    tracing::warn!(%error, "cannot extend the time reserved for this worker, trying again");
                    reserve / 16
                }
            }
        } else {
            // The clock may jump: check again long before the reservation ends.
            early.min(reserve / 8)
        };
        drop(mark);
        drop(timeout(pause.max(MIN_RESERVE / 10), std::future::pending::<()>()).await);
    }
}

/// Returns the least time that is reserved: half of it, when it is extended, contains the current time unit.
fn min_reserve(layout: &Layout) -> Duration {
    MIN_RESERVE.max(4 * layout.time_unit())
}

/// By how much a clock may be ahead of the servers' clock by default.
const DEFAULT_MAX_CLOCK_AHEAD: Duration = Duration::from_secs(60);
/// The least time that is reserved, if time units are short.
const MIN_RESERVE: Duration = Duration::from_millis(100);
/// The most time that is reserved. The next holder of a number waits that long after its process died.
const MAX_RESERVE: Duration = Duration::from_secs(24 * 3600);
const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
