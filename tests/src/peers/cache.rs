//! Measures Curator's cache.

use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::curator::Curator;
use super::run;

/// The size of a cache workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a benchmark makes these")]
pub struct CacheCourse {
    /// How many nodes there are below the directories.
    pub nodes: usize,
    /// How many directories there are; node i is `d(i % directories)/n(i)`.
    pub directories: usize,
    /// How often a Java cache is loaded before the load that counts.
    pub warm_ups: usize,
    /// How many changes are made one after the other.
    pub sets: usize,
    /// How many changes are made at once, each to another node.
    pub burst: usize,
    /// How many of these are on their way at a time.
    pub in_flight: usize,
    /// How many values are read out of the cache.
    pub reads: usize,
}

impl CacheCourse {
    /// The path of a node below `root`.
    pub fn path(&self, root: &str, node: usize) -> String {
        format!("{root}/d{}/n{node}", node % self.directories)
    }
}

/// The measurements of one cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "a benchmark makes these")]
pub struct CacheFigures {
    /// The time from the start until everything is cached.
    pub load_millis: f64,
    /// From just before another session sets a node until the listener is notified: the median.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// Events per second while many changes are made.
    pub events_per_second: f64,
    /// The time to read a cached value.
    pub read_nanos: f64,
}

/// Measures Curator's `CuratorCache` of the nodes at `root`, in a Java process with the flags Java has by itself.
///
/// # Errors
///
/// Curator failed, or it took longer than ten minutes.
///
/// # Cancel safety
///
/// The process is killed; its sessions end after their timeout.
pub async fn measure_cache(
    curator: &Curator,
    connect: &str,
    root: &str,
    course: CacheCourse,
) -> anyhow::Result<CacheFigures> {
    let mut command = curator.program(&[], "CacheBench")?;
    command.args([connect, root]);
    for number in [
        course.nodes,
        course.directories,
        course.warm_ups,
        course.sets,
        course.burst,
        course.reads,
        course.in_flight,
    ] {
        command.arg(number.to_string());
    }
    let printed = run::output(&mut command, "measuring Curator's cache", MAX_WAIT).await?;
    serde_json::from_str(&printed).with_context(|| format!("not understood: {printed}"))
}

const MAX_WAIT: Duration = Duration::from_secs(600);
