//! What a client measures in one run.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

/// The measurements of one client in one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the program of the clients makes these"
)]
pub struct Load {
    /// The operations that were measured.
    pub operations: u64,
    /// The time they took.
    pub seconds: f64,
    /// Half of the operations took no longer.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// The CPU time of the whole process, in user and kernel mode.
    pub cpu_seconds: f64,
    /// The allocations of memory, reallocations included; `None` if they are not counted.
    pub allocations: Option<u64>,
}

impl Load {
    /// Returns the operations per second.
    pub fn rate(&self) -> f64 {
        precise(self.operations) / self.seconds
    }

    /// Returns the CPU time of an operation, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        self.cpu_seconds * 1e6 / precise(self.operations)
    }

    /// Returns the allocations of an operation.
    pub fn allocations_each(&self) -> Option<f64> {
        Some(precise(self.allocations?) / precise(self.operations))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run has fewer than 2^53 operations"
)]
pub(super) fn precise(count: u64) -> f64 {
    count as f64
}
