//! Barriers on real servers.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_harness::{DataStore, Ensemble};

mod auto_traits;
mod barrier;
#[path = "../shared/history.rs"]
mod history;
mod rounds;

/// Starts servers, runs the test against them, and stops them.
async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder()
        .servers(servers)
        .data(DataStore::Memory)
        .proxied(true)
        .start()
        .await
        .expect("the servers start");
    test(&ensemble).await;
    ensemble.down().await.expect("the servers go down");
}

/// Connects with the defaults of the tests.
async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(30))
        .operation_timeout(Duration::from_secs(60))
        .connect_timeout(Duration::from_secs(60))
        .connect()
        .await
        .expect("the ensemble grants a session")
}

/// Waits at most a minute for an event.
async fn soon<T>(what: &str, happening: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(Duration::from_secs(60), happening).await;
    happened.unwrap_or_else(|_| panic!("waited a minute for this: {what}"))
}
