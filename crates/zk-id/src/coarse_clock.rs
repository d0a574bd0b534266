//! A cheap monotonic clock, read for each id. It may be late by 10 ms, and a read costs about as much as an id.

/// Returns the nanoseconds since a fixed moment in the past.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now() -> u64 {
    // The kernel sets it at each timer interrupt, at least every 10 ms, whether or not any of our tasks runs.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the nanoseconds since a fixed moment in the past.
#[cfg(not(target_os = "linux"))]
#[inline]
pub(crate) fn now() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let since = START.elapsed();
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}
