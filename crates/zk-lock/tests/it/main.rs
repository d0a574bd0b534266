//! Locks on real servers.

#![cfg(test)]

use zk_core::Session;
use zk_harness::Ensemble;
use zk_sim::wait::{soon, until as eventually};
use zk_testkit::servers::{LONG, connect, names, with_started};

mod again;
mod auto_traits;
mod basic;
mod blocking;
mod cohort;
mod examples;
mod failover;
mod hbase;
mod kinds;
mod limits;
mod loss;
mod queue;
mod revoke;
mod run;
mod rw;
#[path = "../shared/again.rs"]
mod shared_again;
mod uncontended;
mod yielding;

/// Starts one server, runs the test against it and takes it down.
async fn with_ensemble(test: impl AsyncFnOnce(&Ensemble)) {
    with_servers(1, test).await;
}

/// Starts servers, runs the test against them and takes them down.
async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    with_started(Ensemble::builder().servers(servers), test).await;
}

/// Waits until `count` contenders are in the queue at `path`.
async fn until_enlisted(session: &Session, path: &str, count: usize) {
    eventually(&format!("{count} contenders below {path}"), async || {
        names(session, path).await.len() == count
    })
    .await;
}
