//! Configuration on real servers.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_sim::wait::soon;

mod auto_traits;
mod faults;
mod readers;
#[path = "../shared/scenario.rs"]
mod scenario;

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

/// Connects with timeouts that outlast an election on a busy machine.
async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(LONG)
        .operation_timeout(LONG)
        .connect_timeout(2 * LONG)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

const LONG: Duration = Duration::from_secs(30);
