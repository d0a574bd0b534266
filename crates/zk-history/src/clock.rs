//! Reads the monotonic clock, which all processes of a host share.

use rustix::time::{ClockId, clock_gettime};

/// Returns the current time in nanoseconds of the host's monotonic clock (`CLOCK_MONOTONIC`).
///
/// Times of different processes on one host are comparable; on Linux, `System.nanoTime()` of the JDK reads the same
/// clock. [`std::time::Instant`] does not expose its origin.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
    // The host would have to be up for 500 years.
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
