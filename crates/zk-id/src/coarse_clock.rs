//! A monotonic clock for each id: it may be late by a few milliseconds, and costs about as much as an id.

/// Returns the nanoseconds since some moment in the past.
#[cfg(target_os = "linux")]
#[inline]
pub(crate) fn now() -> u64 {
    // The kernel sets it each timer interrupt, every 10 ms at the least, whether or not any task of ours is scheduled.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Returns the nanoseconds since some moment in the past.
#[cfg(not(target_os = "linux"))]
#[inline]
pub(crate) fn now() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    let since = START.elapsed();
    since.as_secs() * 1_000_000_000 + u64::from(since.subsec_nanos())
}
