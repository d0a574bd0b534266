//! The clock that Rust and Java processes of one host share.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the origin of the host's monotonic clock.
///
/// On Linux `System.nanoTime()` of the usual Java reads the same clock, so that moments of Rust and Java processes on
/// one host compare; [`std::time::Instant`] does not tell its origin.
pub fn monotonic() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}
