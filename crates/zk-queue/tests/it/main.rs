//! Queues on real servers.

#![cfg(test)]

use zk_harness::{DataStore, Ensemble};
use zk_sim::wait::soon;
use zk_testkit::servers::{connect, with_started};

mod auto_traits;
mod basic;
mod cuts;
mod ids;
mod long;
mod stress;

/// Starts servers that keep their data in memory, runs the test against them and takes them down.
async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder().servers(servers);
    with_started(ensemble.data(DataStore::Memory), test).await;
}
