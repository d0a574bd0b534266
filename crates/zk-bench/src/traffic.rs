//! What a workload costs the server, by the server's own counters.

use anyhow::Context as _;
use serde::Deserialize;
use serde::Serialize;
use zk_harness::Server;

/// What one operation cost the server, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Traffic {
    /// Packets that it received.
    pub received: f64,
    /// Packets that it sent, events included.
    pub sent: f64,
    /// Watches that fired.
    pub fired: f64,
    /// Bytes that it received.
    pub bytes_in: f64,
    /// Bytes that it answered, without events.
    pub bytes_out: f64,
}

/// The server's counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted([f64; 5]);

impl Counted {
    pub(crate) async fn now(server: &Server) -> anyhow::Result<Self> {
        let mntr = server.mntr().await?;
        let number = |key: &str| mntr.get(key).and_then(|value| value.parse::<f64>().ok());
        let fired = FIRED.iter().filter_map(|key| number(key)).sum();
        Ok(Self([
            number("zk_packets_received").context("the server does not count packets")?,
            number("zk_packets_sent").context("the server does not count packets")?,
            fired,
            number("zk_bytes_received_count").unwrap_or_default(),
            number("zk_response_bytes").unwrap_or_default(),
        ]))
    }

    /// What so many operations cost since an earlier moment.
    pub(crate) fn since(self, before: Self, operations: u64) -> Traffic {
        #[expect(clippy::cast_precision_loss, reason = "no round has 2^53 operations")]
        let each = |at: usize| (self.0[at] - before.0[at]) / operations.max(1) as f64;
        Traffic {
            received: each(0),
            sent: each(1),
            fired: each(2),
            bytes_in: each(3),
            bytes_out: each(4),
        }
    }
}

/// Sums of watches that fired, by what happened to the node.
const FIRED: [&str; 4] = [
    "zk_sum_node_created_watch_count",
    "zk_sum_node_deleted_watch_count",
    "zk_sum_node_changed_watch_count",
    "zk_sum_node_children_watch_count",
];
