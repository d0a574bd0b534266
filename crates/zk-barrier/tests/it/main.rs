//! Barriers on real servers.

#![cfg(test)]

use zk_harness::{DataStore, Ensemble};
use zk_sim::wait::soon;
use zk_testkit::servers::{connect, with_started};

mod auto_traits;
mod barrier;
#[path = "../shared/history.rs"]
mod history;
mod rounds;

/// Starts servers that keep their data in memory, runs the test against them and takes them down.
async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder().servers(servers).proxied(true);
    with_started(ensemble.data(DataStore::Memory), test).await;
}
