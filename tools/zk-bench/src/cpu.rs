//! Reads the CPU time of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the user and system time of all threads of this process, including those that have ended.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use std::hint;
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_uses_cpu_time() {
        let before = cpu_time();
        let limit = Instant::now();
        while cpu_time() < before + Duration::from_millis(5) {
            hint::black_box(limit);
            assert!(
                limit.elapsed() < Duration::from_secs(30),
                "30 s of work used no CPU time"
            );
        }
    }
}
