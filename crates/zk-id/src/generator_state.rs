//! Takes ids from the sequence of a worker, and opens its time windows as the clock policy decides.

use std::ops::{ControlFlow, Range};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use zk_core::SessionLease;

use crate::atomic_sequence::AtomicSequence;
use crate::clock::Clock;
use crate::clock_policy::{ClockDecision, ClockInput, decide};
use crate::coarse_clock;
use crate::error::{NextError, WorkerLoss};
use crate::id::Id;
use crate::layout::{Encoding, Layout};

/// The state that all clones of a generator share.
#[derive(Debug)]
pub(crate) struct GeneratorState {
    // The fields that each id needs come first.
    sequence: AtomicSequence,
    pub(crate) encoding: Encoding,
    pub(crate) layout: Layout,
    pub(crate) worker: u32,
    window: Mutex<WindowState>,
    clock: Box<dyn Clock>,
    /// Wakes the ticker when a window was opened.
    opened: Notify,
    /// Notifies waiters that more time was reserved, or that the generator stopped.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct WindowState {
    /// The first time unit of the epoch that is not reserved.
    reserved: u64,
    /// The end of the window that was opened last.
    end: u64,
    /// The next position at the last tick, or when the ticker was woken.
    last_seen: u64,
    has_ticker: bool,
    is_ticking: bool,
    /// The proof that the session with the worker number is alive, until the generator stops. A fixed worker number needs
    /// none.
    session_lease: Option<SessionLease>,
    loss: Option<WorkerLoss>,
}

impl GeneratorState {
    /// Creates the state of a generator that issues nothing before the time unit `start` of the epoch, and nothing
    /// from `reserved` on.
    pub(crate) fn new(
        layout: Layout,
        worker: u32,
        clock: impl Clock,
        session_lease: Option<SessionLease>,
        start: u64,
        reserved: u64,
    ) -> Self {
        let ticks = layout.ticks();
        Self {
            encoding: layout.encoding(worker),
            layout,
            worker,
            sequence: AtomicSequence::new(start.min(ticks) << layout.sequence_bits()),
            window: Mutex::new(WindowState {
                reserved: reserved.min(ticks),
                end: 0,
                last_seen: 0,
                has_ticker: false,
                is_ticking: false,
                session_lease,
                loss: None,
            }),
            clock: Box::new(clock),
            opened: Notify::new(),
            changes: watch::Sender::new(()),
        }
    }

    /// Takes one id.
    ///
    /// While a window is open, for about a millisecond, this costs a read of the coarse clock and one atomic operation.
    #[inline]
    pub(crate) fn take_one(&self) -> Result<Id, NextError> {
        let taken = match self.sequence.take_one(coarse_clock::now()) {
            Some(taken) => taken,
            None => self.take_from_new_window(1)?.start,
        };
        Ok(self.encoding.id(taken))
    }

    /// Takes up to `max` positions, at least one.
    #[inline]
    pub(crate) fn take(&self, max: u64) -> Result<Range<u64>, NextError> {
        match self.sequence.take(max, coarse_clock::now()) {
            Some(taken) => Ok(taken),
            None => self.take_from_new_window(max),
        }
    }

    /// Opens the window that the clock allows and takes from it.
    #[cold]
    #[inline(never)]
    fn take_from_new_window(&self, max: u64) -> Result<Range<u64>, NextError> {
        let mut window = self.window();
        loop {
            let next = self.sequence.next();
            let now = self.open_window(&mut window, next)?;
            let taken = self.sequence.take(max, now);
            if !window.has_ticker {
                // Without a ticker, no task would close the window at the end of the millisecond.
                self.sequence.close_window();
            } else if !window.is_ticking {
                window.is_ticking = true;
                window.last_seen = next;
                self.opened.notify_one();
            }
            // Other threads may have taken the whole window; the next decision then differs.
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    /// Opens the window that the clock allows, if the worker number is held. Returns the coarse time of the opening.
    fn open_window(&self, window: &mut WindowState, next: u64) -> Result<u64, NextError> {
        let opened = coarse_clock::now();
        if let Some(loss) = window.loss {
            return Err(NextError::Lost(loss));
        }
        if !window.is_valid() {
            return Err(NextError::SessionLeaseExpired);
        }
        // A clock before 1970 counts as a clock at 1970, which is behind.
        let now = self.now().duration_since(SystemTime::UNIX_EPOCH);
        let input = ClockInput {
            now: now.unwrap_or_default(),
            next,
            has_waiters: window.end > 0 && next >= window.end,
            reserved: window.reserved,
        };
        match decide(&self.layout, &input) {
            ClockDecision::Open { start, end } => {
                self.sequence.open_window(start, end, opened + WINDOW_NANOS);
                window.end = end;
                Ok(opened)
            }
            ClockDecision::TimeUnitExhausted { wait } => Err(NextError::TimeUnitExhausted { wait }),
            ClockDecision::ClockBehind { by } => Err(NextError::ClockBehind { by }),
            ClockDecision::Unreserved => Err(NextError::Unreserved),
            ClockDecision::TimeExhausted => Err(NextError::TimeExhausted {
                end: self.layout.end(),
            }),
        }
    }

    /// Takes up to `max` positions. Waits for them at most `max_wait`, and only if waiting can help.
    pub(crate) async fn wait_and_take(
        &self,
        max: u64,
        max_wait: Duration,
    ) -> Result<Range<u64>, NextError> {
        let mut changes = self.changes.subscribe();
        let since = Instant::now();
        loop {
            changes.mark_unchanged();
            let error = match self.take(max) {
                Ok(taken) => return Ok(taken),
                Err(error) => error,
            };
            let pause = pause_after(error, max_wait.saturating_sub(since.elapsed()))?;
            drop(timeout(pause, changes.changed()).await);
        }
    }

    /// Takes one id like [`wait_and_take`](Self::wait_and_take), and blocks the thread meanwhile.
    pub(crate) fn block_and_take(&self, max_wait: Duration) -> Result<Id, NextError> {
        let mut changes = self.changes.subscribe();
        let since = Instant::now();
        let waker = Waker::from(Arc::new(UnparkThread(thread::current())));
        loop {
            changes.mark_unchanged();
            let error = match self.take_one() {
                Ok(id) => return Ok(id),
                Err(error) => error,
            };
            let pause = pause_after(error, max_wait.saturating_sub(since.elapsed()))?;
            let changed = pin!(changes.changed());
            if changed.poll(&mut Context::from_waker(&waker)).is_pending() {
                // It may return early, which costs another attempt.
                thread::park_timeout(pause);
            }
        }
    }

    /// Allows ids before the time unit `reserved` of the epoch.
    pub(crate) fn reserve(&self, reserved: u64) {
        let mut window = self.window();
        window.reserved = window.reserved.max(reserved.min(self.layout.ticks()));
        drop(window);
        self.changes.send_replace(());
    }

    /// Stops the generator for good. The first call returns the first time unit without an id.
    pub(crate) fn stop(&self, loss: WorkerLoss) -> Option<u64> {
        let mut window = self.window();
        if window.loss.is_some() {
            return None;
        }
        window.loss = Some(loss);
        // Clones of the generator may outlive the worker number.
        window.session_lease = None;
        let next = self.sequence.close();
        drop(window);
        self.changes.send_replace(());
        Some(next.div_ceil(u64::from(self.layout.ids_per_unit())))
    }

    /// Waits until the generator has stopped, and returns why.
    pub(crate) async fn stopped(&self) -> WorkerLoss {
        let mut changes = self.changes.subscribe();
        loop {
            let loss = self.window().loss;
            if let Some(loss) = loss {
                return loss;
            }
            // Never an error: `self` owns the sender.
            drop(changes.changed().await);
        }
    }

    /// Returns the time on the clock.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Opens the window of each millisecond, for as long as ids are taken.
    pub(crate) async fn tick(&self) {
        self.window().has_ticker = true;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.opened.notified().await;
            ticks.reset();
            loop {
                ticks.tick().await;
                if self.on_tick().is_break() {
                    break;
                }
            }
        }
    }

    /// Opens the next window. Breaks if no id was taken since the last tick.
    fn on_tick(&self) -> ControlFlow<()> {
        let mut window = self.window();
        let next = self.sequence.next();
        if next == window.last_seen {
            self.sequence.close_window();
            window.end = 0;
            window.is_ticking = false;
            return ControlFlow::Break(());
        }
        window.last_seen = next;
        if self.open_window(&mut window, next).is_err() {
            self.sequence.close_window();
        }
        ControlFlow::Continue(())
    }

    fn window(&self) -> MutexGuard<'_, WindowState> {
        // The state is consistent at every moment, also after a panic.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WindowState {
    /// Returns whether the worker number is certainly held until a window that is opened now has expired.
    fn is_valid(&self) -> bool {
        let Some(session_lease) = &self.session_lease else {
            return true;
        };
        let expired = Instant::now().into_std() + LEASE_MARGIN;
        session_lease
            .valid_until()
            .is_some_and(|until| expired < until)
    }
}

/// Returns how long to pause before the next attempt, or the error if waiting for `left` cannot help.
fn pause_after(error: NextError, left: Duration) -> Result<Duration, NextError> {
    if left.is_zero() {
        return Err(error);
    }
    match error {
        NextError::TimeUnitExhausted { wait: by } | NextError::ClockBehind { by } if by <= left => {
            Ok(by.min(CLOCK_POLL))
        }
        NextError::Unreserved | NextError::SessionLeaseExpired => Ok(ENSEMBLE_POLL.min(left)),
        _ => Err(error),
    }
}

/// Wakes a thread that is parked.
struct UnparkThread(Thread);

impl Wake for UnparkThread {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// How often the ticker opens a window.
const TICK: Duration = Duration::from_millis(1);

/// The nanoseconds of the coarse clock after which a window expires, even if the ticker is late or gone.
const WINDOW_NANOS: u64 = 1_000_000;

/// How long the worker number must be held from the opening of a window on.
///
/// This is longer than a window can be open: [`WINDOW_NANOS`] and the 10 ms by which the coarse clock may be late.
const LEASE_MARGIN: Duration = Duration::from_millis(20);

/// How often a caller that waits for the clock reads it again: it may have been corrected.
const CLOCK_POLL: Duration = Duration::from_millis(250);

/// How often a caller that waits for the ensemble tries again.
const ENSEMBLE_POLL: Duration = Duration::from_millis(20);
