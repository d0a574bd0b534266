//! Measures the time, the CPU time and the allocations of a part of the program.

use std::fs;
use std::time::{Duration, Instant};

use zk_bench::wire::{BEGIN_MARK, END_MARK, Load};
use zk_bench::{Latencies, cpu_time};

use crate::ALLOCATOR;

/// Measures since its creation.
pub(crate) struct Meter {
    began: Instant,
    cpu: Duration,
    allocations: usize,
}

impl Meter {
    /// Starts measuring.
    pub(crate) fn start() -> Self {
        mark(BEGIN_MARK);
        Self {
            allocations: allocations(),
            cpu: cpu_time(),
            began: Instant::now(),
        }
    }

    /// Returns what was measured; the latencies of each loop are in nanoseconds.
    pub(crate) fn stop(self, loops: &[Vec<u64>]) -> Load {
        let elapsed = self.began.elapsed();
        let cpu = cpu_time().saturating_sub(self.cpu);
        let allocations = allocations() - self.allocations;
        mark(END_MARK);
        let mut latencies = Latencies::default();
        for nanos in loops.iter().flatten() {
            latencies.record(Duration::from_nanos(*nanos));
        }
        let micros = |percent| latencies.percentile(percent).as_secs_f64() * 1e6;
        Load {
            operations: latencies.len(),
            seconds: elapsed.as_secs_f64(),
            p50_micros: micros(50.0),
            p99_micros: micros(99.0),
            cpu_seconds: cpu.as_secs_f64(),
            allocations: u64::try_from(allocations).ok(),
        }
    }
}

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

/// Lets `strace` see where the measurement begins and ends.
fn mark(file: &str) {
    drop(fs::metadata(file));
}
