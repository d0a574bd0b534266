//! Sessions and operations against real servers.

#![cfg(test)]

use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;

mod auto_traits;
mod operations;
mod sessions;

/// Starts one server, runs the test against it and takes it down.
async fn with_ensemble(test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder()
        .servers(1)
        .start()
        .await
        .expect("a server starts");
    test(&ensemble).await;
    ensemble.down().await.expect("the server goes down");
}

/// Connects with the defaults of the tests.
async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .connect()
        .await
        .expect("the server grants a session")
}

/// Asks until `condition` holds, for at most ten seconds.
async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let asked = tokio::time::timeout(Duration::from_secs(10), async {
        while !condition().await {}
    })
    .await;
    assert!(asked.is_ok(), "waited 10 s for this: {what}");
}
