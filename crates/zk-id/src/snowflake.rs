//! Ids for a worker number that is leased, and time that is reserved for it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio::time::timeout;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::abort_on_drop::Task;
use crate::clock::Clock;
use crate::clock::SystemClock;
use crate::error::ClaimError;
use crate::error::Loss;
use crate::generator::Generator;
use crate::generator_state::Core;
use crate::high_water_mark::Mark;
use crate::high_water_mark::ReserveError;
use crate::high_water_mark::TakeOver;
use crate::layout::Layout;
use crate::server_time::ServerTime;
use crate::worker::Place;
use crate::worker::WorkerId;
use crate::worker::WorkerIds;
use crate::worker::below;
use crate::worker::writer;
use crate::worker_slots as slots;

/// Generators of ids that share a path and a layout: each claims a worker number and reserves time for it.
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
#[derive(Clone)]
pub struct Snowflakes {
    workers: WorkerIds,
    session: Session,
    layout: Layout,
    clock: Arc<dyn Clock>,
    span: Duration,
    patience: Option<Duration>,
    most_ahead: Duration,
}

impl Snowflakes {
    /// Makes a handle of the generators at `path`, which all have to have the same layout.
    ///
    /// The node at the path is made when it is needed, and so are its parents; use it for nothing else, and never delete
    /// what is below it: the [marks](crate#layout-of-the-nodes) are what keeps ids from repeating.
    ///
    /// # Errors
    ///
    /// When `path` is none.
    pub fn new<P>(session: &Session, path: P, layout: Layout) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let path = path.try_into().map_err(Into::into)?;
        let charter = format!("zk-id snowflakes of {layout}");
        Ok(Self {
            workers: WorkerIds::chartered(session, path, layout.workers(), &charter),
            session: session.clone(),
            layout,
            clock: Arc::new(SystemClock),
            span: session.session_timeout(),
            patience: None,
            most_ahead: CLOCK_AHEAD,
        })
    }

    /// Sets the clock; default, [`SystemClock`].
    #[must_use]
    pub fn with_clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets how much time is reserved ahead; default, the session timeout; at least 100 ms, at most a day.
    ///
    /// It is extended when half of it is left, which costs a write; the next process that gets the number of one that
    /// died waits until it is over.
    /// The ensemble keeps the number of a process that died for the session timeout, so that the default lets nobody
    /// wait for longer.
    #[must_use]
    pub fn with_reserve(mut self, span: Duration) -> Self {
        self.span = span.clamp(SHORTEST, LONGEST);
        self
    }

    /// Sets by how much the [clock](Self::with_clock) may be ahead of the servers'; default, one minute.
    ///
    /// The time that a worker number was used for is closed to its next process, so that a clock which is years ahead would
    /// make a number useless for years. [`claim`](Self::claim) compares the clock with the timestamp that the leader gave the
    /// worker's node, and refuses before anything is reserved; a generator whose clock jumps later is not given more time.
    /// Free numbers that have more than this and the [reserve](Self::with_reserve) reserved ahead of the servers' clock are
    /// taken only when there are no others.
    ///
    /// A leader whose clock is behind looks like a clock that is ahead, to all processes at once: keep the servers' clocks
    /// right as well. More than a hundred years are taken for a hundred, which allows any clock.
    #[must_use]
    pub fn with_max_clock_ahead(mut self, most: Duration) -> Self {
        self.most_ahead = most.min(HUNDRED_YEARS);
        self
    }

    /// Sets for how long a generator waits for an id, see [`Generator::with_patience`].
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Sets the worker number to be claimed if it is free, see [`WorkerIds::with_preferred`].
    #[must_use]
    pub fn with_preferred(mut self, number: u32) -> Self {
        self.workers = self.workers.with_preferred(number);
        self
    }

    /// Sets a text by which people know the process, see [`WorkerIds::with_description`].
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.workers = self.workers.with_description(description);
        self
    }

    /// Returns the worker numbers, of which others may be claimed and those that are may be listed.
    pub fn workers(&self) -> &WorkerIds {
        &self.workers
    }

    /// Claims a worker number and reserves time for it.
    ///
    /// # Errors
    ///
    /// [`ClaimError::AllTaken`], [`ClaimError::OtherUse`] when others use the path with another layout,
    /// [`ClaimError::ClockAhead`] when the clock is [too far ahead](Self::with_max_clock_ahead) of the servers', and
    /// [`ClaimError::Failed`] when the ensemble did not do it within the session's operation timeout.
    ///
    /// # Cancel safety
    ///
    /// Safe: a number that was claimed, or will be by a request that has left, is released in the background; at most the
    /// time that was reserved is not used.
    ///
    /// # Session loss
    ///
    /// [`ClaimError::Failed`].
    ///
    /// # Cost
    ///
    /// That of [`WorkerIds::claim`], and two round trips; again for each number whose mark is far in the future.
    pub async fn claim(&self) -> Result<Snowflake, ClaimError> {
        let mut poisoned = BTreeSet::new();
        loop {
            let asked = Instant::now();
            let worker = self.workers.claim_avoiding(&poisoned).await?;
            let server = ServerTime::new(worker.claimed_at(), asked);
            match self.take_over(&worker, server, &mut poisoned).await {
                Ok(TakeOver::Done { mark, floor }) => {
                    return Ok(self.generate(worker, mark, floor));
                }
                Ok(TakeOver::TooFarAhead { reserved }) => {
                    let number = worker.number();
                    tracing::warn!(path = %self.workers.path(), number, ?reserved, "this worker number is skipped: its mark is far in the future");
                    // If it is in doubt, the session goes on with it.
                    drop(worker.release().await);
                }
                Err(error) => {
                    drop(worker.release().await);
                    return Err(error);
                }
            }
        }
    }

    /// Takes over the mark of a number that is ours, unless the clock is too far ahead or the mark is, the first time.
    async fn take_over(
        &self,
        worker: &WorkerId,
        server: ServerTime,
        poisoned: &mut BTreeSet<u32>,
    ) -> Result<TakeOver, ClaimError> {
        let now = self.clock.now();
        let by = server.ahead(now, Instant::now());
        let most = self.most_ahead;
        if by > most {
            return Err(ClaimError::ClockAhead { by, most });
        }
        let is_first_time = poisoned.insert(worker.number());
        let latest = server.latest(Instant::now()) + most + self.span;
        let path = below(self.workers.path(), &slots::mark_name(worker.number()));
        let writer = writer(&self.session);
        let until = now + self.span;
        let latest = is_first_time.then_some(latest);
        Mark::take_over(&self.session, path, writer, until, latest).await
    }

    fn generate(&self, worker: WorkerId, mark: Mark, floor: Option<SystemTime>) -> Snowflake {
        // The reservation is in whole milliseconds, and one before the epoch reserves nothing.
        let tick = |time: Option<SystemTime>| {
            let tick = time.and_then(|time| self.layout.tick(time));
            tick.unwrap_or_default()
        };
        let clock = Arc::clone(&self.clock);
        let core = Arc::new(Core::new(
            self.layout,
            worker.number(),
            move || clock.now(),
            Some(self.session.keep_trusted()),
            tick(floor),
            tick(Some(mark.reserved())),
        ));
        let mark = Arc::new(Mutex::new(mark));
        let keeping = keep(
            Arc::clone(&core),
            worker.place(),
            Arc::clone(&mark),
            self.span,
            self.most_ahead,
        );
        let generator = Generator::ticking_with(&self.session, core);
        Snowflake {
            generator: match self.patience {
                Some(patience) => generator.with_patience(patience),
                None => generator,
            },
            worker: Some(worker),
            mark,
            keeper: Some(Task::spawn_on(&self.session, keeping)),
        }
    }
}

impl fmt::Debug for Snowflakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snowflakes")
            .field("workers", &self.workers)
            .field("layout", &self.layout)
            .field("reserve", &self.span)
            .finish_non_exhaustive()
    }
}

/// A [`Generator`] whose worker number nobody else has, and whose time nobody had.
///
/// Clones of the generator may be handed to whoever makes ids; they end with this.
///
/// # Dropping
///
/// No id is given out any more, and the number is released in the background.
/// The time that is still reserved is not given back, as it is by [`release`](Self::release): the next one with the number
/// waits until it is over.
#[derive(Debug)]
#[must_use = "the worker number is released when this is dropped"]
pub struct Snowflake {
    generator: Generator,
    /// Until it is released.
    worker: Option<WorkerId>,
    mark: Arc<Mutex<Mark>>,
    /// The task that extends the reservation.
    keeper: Option<Task>,
}

impl Snowflake {
    /// Returns the generator, to be cloned.
    pub fn generator(&self) -> &Generator {
        &self.generator
    }

    /// Waits until no more ids are given out, for good.
    ///
    /// A short break of the connection is none, although there may be [no ids](crate::NextError::Untrusted) meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// [`Loss::SessionLost`].
    pub async fn lost(&self) -> Loss {
        self.generator.core().ended().await
    }

    /// Gives out no more ids, gives back the time that was reserved and not used, releases the number and waits until the
    /// ensemble has done it; at most for twice the operation timeout.
    ///
    /// # Errors
    ///
    /// When the number is not known to be released; the release then continues in the background, while the session
    /// lives.
    ///
    /// # Cancel safety
    ///
    /// Safe: no id is given out any more once it was polled, and the release continues in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; the number is released with the session.
    pub async fn release(mut self) -> Result<(), Error> {
        let core = Arc::clone(self.generator.core());
        let unused = core.stop(Loss::Released);
        // What it has asked for and not heard of is looked for below.
        self.keeper = None;
        let worker = self.worker.take();
        if let Some(tick) = unused {
            let mut mark = self.mark.lock().await;
            let patience = mark.session().operation_timeout();
            let given_back = mark.give_back(core.layout.moment(tick));
            // Dropped half-way it harms nobody: no id is given out any more.
            match timeout(patience, given_back).await {
                Ok(Ok(())) => {}
                failed => {
                    tracing::debug!(?failed, "the next one with this worker number has to wait");
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

impl Drop for Snowflake {
    fn drop(&mut self) {
        // Before the number is released, as it is when this is gone.
        self.generator.core().stop(Loss::Released);
    }
}

/// Extends the reservation until the number is lost, and stops the generator then.
async fn keep(
    core: Arc<Core>,
    place: Place,
    mark: Arc<Mutex<Mark>>,
    span: Duration,
    most_ahead: Duration,
) {
    let loss = tokio::select! {
        biased;
        loss = core.ended() => loss,
        loss = place.gone() => loss,
        loss = extend(&core, &mark, span, most_ahead) => loss,
    };
    core.stop(loss);
}

async fn extend(core: &Core, mark: &Mutex<Mark>, span: Duration, most_ahead: Duration) -> Loss {
    loop {
        let now = core.now();
        let mut mark = mark.lock().await;
        let left = mark.reserved().duration_since(now).unwrap_or_default();
        let early = left.saturating_sub(span / 2);
        let pause = if early.is_zero() {
            match mark.reserve(now, span, most_ahead).await {
                Ok(()) => {
                    core.reserve(core.layout.tick(mark.reserved()).unwrap_or_default());
                    continue;
                }
                Err(ReserveError::Changed) => return Loss::MarkChanged,
                Err(ReserveError::ClockAhead { by }) => {
                    tracing::warn!(
                        ?by,
                        "no more time is reserved for this worker: its clock is ahead of the servers'"
                    );
                    span / 4
                }
                Err(ReserveError::Failed(error)) if error.is_fatal() => return Loss::SessionLost,
                Err(ReserveError::Failed(error)) => {
                    tracing::warn!(%error, "the time reserved for this worker could not be extended yet");
                    span / 16
                }
            }
        } else {
            // The clock may jump: look again long before it would be too late.
            early.min(span / 8)
        };
        drop(mark);
        drop(timeout(pause.max(SHORTEST / 10), std::future::pending::<()>()).await);
    }
}

/// How far a clock may be ahead of the servers' by default.
const CLOCK_AHEAD: Duration = Duration::from_secs(60);
/// The least time that is reserved.
const SHORTEST: Duration = Duration::from_millis(100);
const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The most. The next process with the number of one that died waits as long.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
