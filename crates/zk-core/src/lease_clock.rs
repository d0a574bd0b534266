//! The clock of lease proofs: the monotonic one, plus the time for which the machine was suspended, where that is known.
//!
//! On Linux the monotonic clock (`CLOCK_MONOTONIC`, which `Instant` reads) stands still while the machine is suspended,
//! and the ensemble goes on to count a session's timeout. `CLOCK_BOOTTIME` goes on as well, so the difference of the two
//! tells for how long the machine was suspended. No clock of a virtual machine tells for how long its host has paused it.

use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use std::sync::{Mutex, PoisonError};

#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

/// Reads the clock. Its instants compare with each other only.
pub(crate) fn now() -> Instant {
    // The order matters: if the machine is suspended in between, the time counts.
    let monotonic = tokio::time::Instant::now().into_std();
    monotonic + suspended()
}

/// Returns the instant of the monotonic clock that one of this clock stands for, unless the machine is suspended
/// before then.
pub(crate) fn to_monotonic(instant: Instant) -> Instant {
    let reached = || tokio::time::Instant::now().into_std();
    instant.checked_sub(suspended()).unwrap_or_else(reached)
}

/// Returns for how long the machine was suspended since the first call.
#[cfg(target_os = "linux")]
fn suspended() -> Duration {
    static SUSPENSIONS: Mutex<Suspensions> = Mutex::new(Suspensions::new());
    let read = |clock| {
        let time = clock_gettime(clock);
        let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
    };
    let boot = read(ClockId::Boottime);
    let monotonic = read(ClockId::Monotonic);
    let mut suspensions = SUSPENSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let total = suspensions.observe(boot, monotonic);
    #[cfg(test)]
    let total = total + tests::EXTRA.get();
    total
}

/// Returns zero: what the monotonic clock does during a suspension differs between systems.
#[cfg(not(target_os = "linux"))]
const fn suspended() -> Duration {
    Duration::ZERO
}

/// How far the clock that counts suspensions has moved from the one that does not.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Suspensions {
    /// The difference at the first observation.
    first: Option<Duration>,
    total: Duration,
}

#[cfg(target_os = "linux")]
impl Suspensions {
    const fn new() -> Self {
        Self {
            first: None,
            total: Duration::ZERO,
        }
    }

    /// Returns the total after the two clocks were read, `boot` first.
    fn observe(&mut self, boot: Duration, monotonic: Duration) -> Duration {
        // Time between the two reads makes it smaller, never larger.
        let difference = boot.saturating_sub(monotonic);
        let first = *self.first.get_or_insert(difference);
        let grown = difference.saturating_sub(first);
        // Less is the time between two reads.
        if grown > self.total + PRECISION {
            self.total = grown;
        }
        self.total
    }
}

#[cfg(target_os = "linux")]
const PRECISION: Duration = Duration::from_millis(1);

#[cfg(all(test, target_os = "linux"))]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// For how long the tests of this thread pretend that the machine was suspended.
        pub(crate) static EXTRA: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn only_suspensions_move_the_clocks_apart() {
        let mut suspensions = Suspensions::new();
        for (boot, monotonic, total) in [
            // It was suspended for 5 s before the first observation, which does not count.
            (ms(15_000), ms(10_000), ms(0)),
            (ms(20_000), ms(15_000), ms(0)),
            // Time passes between the two reads.
            (ms(21_000), ms(16_300), ms(0)),
            (ms(22_000), ms(17_000), ms(0)),
            // A suspension of a minute.
            (ms(83_000), ms(18_000), ms(60_000)),
            (ms(84_000), ms(19_400), ms(60_000)),
            // Another one, and time between the reads.
            (ms(95_000), ms(20_200), ms(69_800)),
            (ms(96_000), ms(21_000), ms(70_000)),
        ] {
            assert_eq!(suspensions.observe(boot, monotonic), total, "{boot:?}");
        }
    }

    #[test]
    fn an_instant_is_turned_into_the_one_at_which_it_is_reached() {
        let before = now();
        EXTRA.set(ms(60_000));
        assert!(now() >= before + ms(60_000));
        let in_a_second = now() + ms(1_000);
        let left = to_monotonic(in_a_second) - tokio::time::Instant::now().into_std();
        assert!(left <= ms(1_000) && left > ms(0), "{left:?}");
    }
}
