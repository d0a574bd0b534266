//! Measures the load of a workload on a server, from the server's own counters, and the CPU time of all servers.

use anyhow::Context as _;
use zk_harness::Server;

use crate::other_work::cpu_micros_of;

/// The average load of one operation on the server that the clients are connected to, and the CPU time of all servers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Traffic {
    /// Packets received.
    pub received: f64,
    /// Packets sent, including watch events.
    pub sent: f64,
    /// Watches that fired.
    pub fired: f64,
    /// Bytes received.
    pub bytes_in: f64,
    /// Bytes of replies, without watch events.
    pub bytes_out: f64,
    /// The CPU time of all servers, in microseconds.
    pub servers_cpu_micros: f64,
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted([f64; 6]);

impl Counted {
    /// Reads the counters of one server, and the CPU time of all.
    pub(crate) async fn now(server: &Server, all: &[Server]) -> anyhow::Result<Self> {
        let mntr = server.mntr().await?;
        let number = |key: &str| mntr.get(key).and_then(|value| value.parse::<f64>().ok());
        let fired = FIRED.iter().filter_map(|key| number(key)).sum();
        Ok(Self([
            number("zk_packets_received").context("the server reports no packet counters")?,
            number("zk_packets_sent").context("the server reports no packet counters")?,
            fired,
            number("zk_bytes_received_count").unwrap_or_default(),
            number("zk_response_bytes").unwrap_or_default(),
            cpu_micros_of(all.iter().filter_map(Server::pid)),
        ]))
    }

    /// Returns the load per operation since `before`.
    pub(crate) fn since(self, before: Self, operations: u64) -> Traffic {
        #[expect(clippy::cast_precision_loss, reason = "no round has 2^53 operations")]
        let each = |at: usize| (self.0[at] - before.0[at]) / operations.max(1) as f64;
        Traffic {
            received: each(0),
            sent: each(1),
            fired: each(2),
            bytes_in: each(3),
            bytes_out: each(4),
            servers_cpu_micros: each(5),
        }
    }
}

/// The counters of fired watches, by event.
const FIRED: [&str; 4] = [
    "zk_sum_node_created_watch_count",
    "zk_sum_node_deleted_watch_count",
    "zk_sum_node_changed_watch_count",
    "zk_sum_node_children_watch_count",
];
