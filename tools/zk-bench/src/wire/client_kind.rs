//! The clients that are measured.
//!
//! Pure: no I/O and no clock.

use std::str::FromStr;

use anyhow::Context as _;

use super::workload::{Operation, Workload};

/// A client that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the program has code for each")]
pub enum ClientKind {
    /// Hand-written frames over `std::net::TcpStream`, one thread for each session: the least that a client can cost.
    BlockingSocket,
    /// The crate `zk-wire`.
    ZkWire,
    /// A session of `zk-core` on `zk-wire`.
    ZkCore,
    /// The crate `zookeeper-client`.
    ZookeeperClient,
    /// ZooKeeper's own client.
    Java,
}

impl ClientKind {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 5] = [
        Self::BlockingSocket,
        Self::ZkWire,
        Self::ZkCore,
        Self::ZookeeperClient,
        Self::Java,
    ];

    /// Returns the name in reports and on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockingSocket => "blocking socket",
            Self::ZkWire => "zk-wire",
            Self::ZkCore => "zk-core on zk-wire",
            Self::ZookeeperClient => "zookeeper-client",
            Self::Java => "Java client",
        }
    }

    /// Returns whether it is measured in a workload: `zk-core` only where it shows what a single call costs.
    pub fn does(self, workload: Workload) -> bool {
        let is_one_call = workload.is_serial() && workload.is_small();
        self != Self::ZkCore || (workload.operation == Operation::Get && is_one_call)
    }
}

impl FromStr for ClientKind {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.with_context(|| format!("{name} is no client"))
    }
}
