//! The clock that all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds of the host's monotonic clock (`CLOCK_MONOTONIC`).
///
/// Moments of different processes on one host compare; on Linux `System.nanoTime()` of the usual Java reads the same
/// clock. [`std::time::Instant`] does not tell its origin.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    // The host would have to be up for 500 years.
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
