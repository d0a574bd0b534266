//! Measures Curator's lock.

use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use super::curator::Curator;
use super::run;

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

impl Curator {
    /// Measures one workload of Curator's `InterProcessMutex` on nodes below `path`, in a Java process with the flags
    /// Java has by itself, with this number of sessions or threads.
    ///
    /// It runs for `warm_up` before it is measured, because Java compiles what runs often, and is then measured for
    /// `measure`, and until it has come to fifty operations.
    ///
    /// # Errors
    ///
    /// Curator failed, or it took 90 s longer than it should.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its sessions end after their timeout.
    pub async fn measure(
        &self,
        connect: &str,
        path: &str,
        workload: Workload,
        contenders: u32,
        [warm_up, measure]: [Duration; 2],
    ) -> anyhow::Result<Measured> {
        let mut command = self.program(&[], "Bench")?;
        command.args([connect, path]);
        for millis in [warm_up, measure].map(|time| time.as_millis()) {
            command.arg(millis.to_string());
        }
        let contenders = contenders.to_string();
        command.args([&contenders, &contenders, workload.name()]);
        let within = warm_up + measure + MAX_WAIT;
        let printed = run::output(&mut command, "measuring Curator", within).await?;
        serde_json::from_str(&printed).with_context(|| format!("not understood: {printed}"))
    }
}

/// For starting Java and connecting, beside the time of the workload.
const MAX_WAIT: Duration = Duration::from_secs(90);
