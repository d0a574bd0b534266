//! What `cargo xtask test` runs on real servers: each recipe once, what holders keep over a failover, and a lock under
//! faults of the network.

#![cfg(test)]

mod failover;
mod recipes;
mod sweep;

use std::time::Duration;

use zk_core::Session;
use zk_harness::{DataStore, Ensemble};

/// For what takes moments on an idle machine.
const SOON: Duration = Duration::from_secs(60);

/// Starts three servers.
async fn three_servers() -> Ensemble {
    Ensemble::builder()
        .servers(3)
        .data(DataStore::Memory)
        .start()
        .await
        .expect("the servers start")
}

async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .connect()
        .await
        .expect("a session is granted")
}

async fn soon<T>(what: &str, wanted: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(SOON, wanted).await else {
        panic!("waited {SOON:?} for this: {what}");
    };
    value
}
