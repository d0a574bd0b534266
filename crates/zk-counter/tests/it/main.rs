//! Counters and shared values on real servers.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;

mod auto_traits;
mod basic;

/// Starts servers, runs the test against them and takes them down.
async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder()
        .servers(servers)
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
        .session_timeout(Duration::from_secs(10))
        .connect_timeout(Duration::from_secs(60))
        .connect()
        .await
        .expect("the ensemble grants a session")
}
