//! Measures Curator's lock.

use std::time::Duration;

use anyhow::Context as _;
use anyhow::ensure;
use serde::Deserialize;

use super::curator::Curator;
use super::run;

/// Measures Curator's `InterProcessMutex`, in a Java process with the flags Java has by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CuratorBench {
    /// Each workload runs this long before it is measured, because Java compiles what runs often.
    pub warm_up: Duration,
    /// Each workload is measured for this long, and until it has come to fifty operations.
    pub measure: Duration,
    /// Sessions of the workload [`Workload::Sessions`].
    pub sessions: u32,
    /// Threads of the workload [`Workload::Threads`].
    pub threads: u32,
    /// The only workload to be run, if not all.
    pub only: Option<Workload>,
}

/// What was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Workload {
    /// One thread acquires and releases; an operation is both together.
    Uncontended,
    /// Several sessions contend and hold the lock for no time; an operation is a hand-over, from just before the
    /// release until the next acquire has returned.
    Sessions,
    /// Several threads of one session do so.
    Threads,
}

impl Workload {
    const fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "uncontended",
            Self::Sessions => "sessions",
            Self::Threads => "threads",
        }
    }
}

/// The measurements of one workload.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// What was run.
    pub workload: Workload,
    /// How many sessions there were.
    pub sessions: u32,
    /// How many threads each session had.
    pub threads: u32,
    /// For how long it was measured.
    pub seconds: f64,
    /// Operations that ended in that time.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Half of the operations took no longer.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// How often the lock was acquired in all, also in the warm-up: what the servers had to do with.
    pub grants: u64,
}

const WORKLOADS: u32 = 3;

/// For starting Java and connecting, beside the time of the workloads.
const MAX_WAIT: Duration = Duration::from_secs(90);

impl CuratorBench {
    /// Five seconds for each workload after three of warm-up, eight sessions, eight threads.
    pub fn new() -> Self {
        Self {
            warm_up: Duration::from_secs(3),
            measure: Duration::from_secs(5),
            sessions: 8,
            threads: 8,
            only: None,
        }
    }

    /// Runs the three workloads one after the other, on nodes of their own below `path`.
    ///
    /// # Errors
    ///
    /// A field is zero, Curator failed, or it took 90 s longer than it should.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its sessions end after their timeout.
    pub async fn run(
        &self,
        curator: &Curator,
        connect: &str,
        path: &str,
    ) -> anyhow::Result<Vec<Measured>> {
        ensure!(
            !self.measure.is_zero() && self.sessions > 0 && self.threads > 0,
            "there is nothing to measure: {self:?}"
        );
        let mut command = curator.program(&[], "Bench")?;
        command.args([connect, path]);
        for millis in [self.warm_up.as_millis(), self.measure.as_millis()] {
            command.arg(millis.to_string());
        }
        for count in [self.sessions, self.threads] {
            command.arg(count.to_string());
        }
        if let Some(only) = self.only {
            command.arg(only.name());
        }
        let within = WORKLOADS * (self.warm_up + self.measure) + MAX_WAIT;
        let printed = run::output(&mut command, "measuring Curator", within).await?;
        printed
            .lines()
            .map(|line| {
                serde_json::from_str(line).with_context(|| format!("not understood: {line}"))
            })
            .collect()
    }
}

impl Default for CuratorBench {
    fn default() -> Self {
        Self::new()
    }
}
