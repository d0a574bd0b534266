//! What caches report to the facade of the crate `metrics`.

use metrics::{Unit, describe_gauge, describe_histogram, gauge, histogram};
use tokio::time::Instant;

use crate::snapshot::{CacheState, Snapshot};

/// Gives the recorder of the process the units and descriptions of all metrics of this crate.
///
/// Call it once, after the recorder is installed. The metrics are reported without it, too.
/// Those of sessions are described by `zk_core::describe_metrics`.
///
/// | name | kind | unit | labels |
/// |---|---|---|---|
/// | `zk_caches` | gauge | caches that have not ended; clones of a handle are one cache | `state`: `loading`, `synchronized`, `stale` |
/// | `zk_cache_nodes` | gauge | nodes of these caches; a node in two caches counts twice | |
/// | `zk_cache_unsynchronized_duration_seconds` | histogram | seconds, until a cache is synchronised | `state`: `loading`, since its start; `stale`, since the connection broke or changes may have been missed |
///
/// The histogram has the times that are over. A cache that is out of date now is in the gauge.
/// Events that a slow consumer has not taken yet are not reported: a consumer can compare its snapshot with the newest.
///
/// No label contains a path, so the number of time series is bounded.
pub fn describe_metrics() {
    describe_gauge!(CACHES, Unit::Count, "Caches that have not ended");
    describe_gauge!(NODES, Unit::Count, "Nodes of caches that have not ended");
    describe_histogram!(
        UNSYNCHRONIZED_DURATION,
        Unit::Seconds,
        "Time until a cache is synchronised"
    );
}

/// What a cache has reported.
#[derive(Debug)]
pub(crate) struct ReportedCache {
    state: Option<&'static str>,
    nodes: usize,
    /// When the cache got into its state.
    since: Instant,
}

impl ReportedCache {
    pub(crate) fn new(first: &Snapshot) -> Self {
        let mut reported = Self {
            state: None,
            nodes: 0,
            since: Instant::now(),
        };
        reported.published(first);
        reported
    }

    /// Records how a new snapshot differs from the one before. The snapshot of a cache that has ended withdraws it.
    pub(crate) fn published(&mut self, snapshot: &Snapshot) {
        let state = label(snapshot.state());
        if state != self.state {
            let now = Instant::now();
            if let (Some(before), Some(SYNCHRONIZED)) = (self.state, state) {
                histogram!(UNSYNCHRONIZED_DURATION, "state" => before).record(now - self.since);
            }
            for (state, by) in [(self.state, -1.0), (state, 1.0)] {
                if let Some(state) = state {
                    gauge!(CACHES, "state" => state).increment(by);
                }
            }
            (self.state, self.since) = (state, now);
        }
        let nodes = state.map_or(0, |_| snapshot.len());
        if nodes != self.nodes {
            let by = count(nodes) - count(self.nodes);
            gauge!(NODES).increment(by);
            self.nodes = nodes;
        }
    }
}

/// Returns the label of a cache that has not ended.
const fn label(state: CacheState) -> Option<&'static str> {
    match state {
        CacheState::Loading => Some("loading"),
        CacheState::Synchronized => Some(SYNCHRONIZED),
        CacheState::Stale => Some("stale"),
        CacheState::Ended => None,
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a cache has fewer than 2^52 nodes"
)]
const fn count(nodes: usize) -> f64 {
    nodes as f64
}

const SYNCHRONIZED: &str = "synchronized";
const CACHES: &str = "zk_caches";
const NODES: &str = "zk_cache_nodes";
const UNSYNCHRONIZED_DURATION: &str = "zk_cache_unsynchronized_duration_seconds";
