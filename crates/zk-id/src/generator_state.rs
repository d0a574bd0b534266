//! What a generator is made of: the line of positions, and the gate that opens windows on it.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior;
use tokio::time::timeout;
use zk_core::Trusted;

use crate::atomic_sequence::Line;
use crate::clock::AnyClock;
use crate::clock::Clock;
use crate::clock_policy::Known;
use crate::clock_policy::Pace;
use crate::clock_policy::pace;
use crate::coarse_clock;
use crate::error::Loss;
use crate::error::NextError;
use crate::id::Id;
use crate::layout::Layout;
use crate::layout::Stamp;

#[derive(Debug)]
pub(crate) struct Core {
    // What each id needs comes first.
    line: Line,
    pub(crate) stamp: Stamp,
    pub(crate) layout: Layout,
    pub(crate) worker: u32,
    gate: Mutex<Gate>,
    clock: AnyClock,
    /// Says that the session which has the worker number is alive; a fixed worker number needs none.
    trusted: Option<Trusted>,
    /// Tells the ticker that a window is open.
    opened: Notify,
    /// Tells those who wait that more is reserved, or that it is over.
    changes: watch::Sender<()>,
}

#[derive(Debug)]
struct Gate {
    /// The first millisecond of the epoch that is not reserved.
    reserved: u64,
    /// The end of the window that was opened last.
    end: u64,
    /// The next position when the gate was passed last.
    seen: u64,
    has_ticker: bool,
    is_ticking: bool,
    lost: Option<Loss>,
}

/// Whether the ticker is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Demand {
    Some,
    None,
}

impl Core {
    /// Makes the core of a generator that gives out nothing before the millisecond `floor` of the epoch, and nothing from
    /// `reserved` on.
    pub(crate) fn new(
        layout: Layout,
        worker: u32,
        clock: impl Clock,
        trusted: Option<Trusted>,
        floor: u64,
        reserved: u64,
    ) -> Self {
        let ticks = layout.ticks();
        Self {
            stamp: layout.stamp(worker),
            layout,
            worker,
            line: Line::new(floor.min(ticks) << layout.sequence_bits()),
            gate: Mutex::new(Gate {
                reserved: reserved.min(ticks),
                end: 0,
                seen: 0,
                has_ticker: false,
                is_ticking: false,
                lost: None,
            }),
            clock: AnyClock(Box::new(clock)),
            trusted,
            opened: Notify::new(),
            changes: watch::Sender::new(()),
        }
    }

    /// Takes one id: by a look at the coarse clock and one atomic step while a window is open, which it is for about a
    /// millisecond.
    #[inline]
    pub(crate) fn take_one(&self) -> Result<Id, NextError> {
        let taken = match self.line.take_one(coarse_clock::now()) {
            Some(taken) => taken,
            None => self.pass(1)?.start,
        };
        Ok(self.stamp.id(taken))
    }

    /// Takes up to `most` positions, at least one.
    #[inline]
    pub(crate) fn take(&self, most: u64) -> Result<Range<u64>, NextError> {
        match self.line.take(most, coarse_clock::now()) {
            Some(taken) => Ok(taken),
            None => self.pass(most),
        }
    }

    /// Looks at the clock and takes from the window that it allows.
    #[cold]
    #[inline(never)]
    fn pass(&self, most: u64) -> Result<Range<u64>, NextError> {
        let mut gate = self.gate();
        loop {
            let next = self.line.next();
            let now = self.open(&mut gate, next)?;
            let taken = self.line.take(most, now);
            if !gate.has_ticker {
                // Nobody would notice that the millisecond is over.
                self.line.shut();
            } else if !gate.is_ticking {
                gate.is_ticking = true;
                gate.seen = next;
                self.opened.notify_one();
            }
            // Others have taken all of it already: then the clock has another answer now.
            if let Some(taken) = taken {
                return Ok(taken);
            }
        }
    }

    /// Opens the window that the clock allows, if the worker number is ours; returns since when, by the coarse clock.
    fn open(&self, gate: &mut Gate, next: u64) -> Result<u64, NextError> {
        let since = coarse_clock::now();
        if let Some(loss) = gate.lost {
            return Err(NextError::Lost(loss));
        }
        if !self.is_trusted() {
            return Err(NextError::Untrusted);
        }
        // A clock before 1970 is as one that is there: behind.
        let now = self.now().duration_since(SystemTime::UNIX_EPOCH);
        let known = Known {
            now: now.unwrap_or_default(),
            next,
            is_pressed: gate.end > 0 && next >= gate.end,
            reserved: gate.reserved,
        };
        match pace(&self.layout, &known) {
            Pace::Open { floor, end } => {
                self.line.open(floor, end, since + OPEN_FOR);
                gate.end = end;
                Ok(since)
            }
            Pace::UsedUp { wait } => Err(NextError::UsedUp { wait }),
            Pace::Behind { by } => Err(NextError::ClockBehind { by }),
            Pace::Unreserved => Err(NextError::Unreserved),
            Pace::Over => Err(NextError::TimeExhausted {
                end: self.layout.end(),
            }),
        }
    }

    /// Tells whether the worker number will be ours until a window that is opened now is shut.
    fn is_trusted(&self) -> bool {
        let Some(trusted) = &self.trusted else {
            return true;
        };
        let shut = Instant::now().into_std() + WINDOW;
        trusted.until().is_some_and(|until| shut < until)
    }

    /// Takes up to `most` positions, and waits for them for as long as it makes sense, at most for `patience`.
    pub(crate) async fn wait_and_take(
        &self,
        most: u64,
        patience: Duration,
    ) -> Result<Range<u64>, NextError> {
        let mut changes = self.changes.subscribe();
        let since = Instant::now();
        loop {
            changes.mark_unchanged();
            let error = match self.take(most) {
                Ok(taken) => return Ok(taken),
                Err(error) => error,
            };
            let left = patience.saturating_sub(since.elapsed());
            let wait = match error {
                NextError::UsedUp { wait } => wait,
                NextError::ClockBehind { by } if by <= left => by.min(LOOK_AT_CLOCK),
                NextError::Unreserved | NextError::Untrusted => LOOK_AGAIN,
                _ => return Err(error),
            };
            if left.is_zero() {
                return Err(error);
            }
            let waited = changes.changed();
            drop(timeout(wait.min(left), waited).await);
        }
    }

    /// Lets ids be given out up to this millisecond of the epoch.
    pub(crate) fn reserve(&self, reserved: u64) {
        let mut gate = self.gate();
        gate.reserved = gate.reserved.max(reserved.min(self.layout.ticks()));
        drop(gate);
        self.changes.send_replace(());
    }

    /// Gives out nothing any more; answers the first millisecond of which nothing was given out, the first time.
    pub(crate) fn stop(&self, loss: Loss) -> Option<u64> {
        let mut gate = self.gate();
        if gate.lost.is_some() {
            return None;
        }
        gate.lost = Some(loss);
        let next = self.line.close();
        drop(gate);
        self.changes.send_replace(());
        Some(next.div_ceil(u64::from(self.layout.ids_per_millisecond())))
    }

    /// Waits until nothing is given out any more, and answers why.
    pub(crate) async fn ended(&self) -> Loss {
        let mut changes = self.changes.subscribe();
        loop {
            let lost = self.gate().lost;
            if let Some(loss) = lost {
                return loss;
            }
            // The sender is ours.
            drop(changes.changed().await);
        }
    }

    /// Returns what the clock tells.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.0.now()
    }

    /// Opens the window of each millisecond, for as long as somebody takes from it.
    pub(crate) async fn tick(&self) {
        self.gate().has_ticker = true;
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.opened.notified().await;
            ticks.reset();
            loop {
                ticks.tick().await;
                if self.follow() == Demand::None {
                    break;
                }
            }
        }
    }

    fn follow(&self) -> Demand {
        let mut gate = self.gate();
        let next = self.line.next();
        if next == gate.seen {
            self.line.shut();
            gate.end = 0;
            gate.is_ticking = false;
            return Demand::None;
        }
        gate.seen = next;
        if self.open(&mut gate, next).is_err() {
            self.line.shut();
        }
        Demand::Some
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        // What is behind it is whole at every moment.
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How often windows are opened and shut.
const TICK: Duration = Duration::from_millis(1);

/// After how many nanoseconds of the coarse clock nothing is taken from a window any more, also if the task that would have
/// shut it is late or gone.
const OPEN_FOR: u64 = 1_000_000;

/// For how long the worker number must be ours when a window is opened: longer than it can be open, which is [`OPEN_FOR`] and
/// the 10 ms that the coarse clock may be late.
const WINDOW: Duration = Duration::from_millis(20);

/// After which time who waits for a clock looks at it again: it may have been set right.
const LOOK_AT_CLOCK: Duration = Duration::from_millis(250);

/// After which time who waits for the ensemble looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
