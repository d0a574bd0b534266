//! Locks on real servers.

#![cfg(test)]

use std::time::Duration;

use zk_core::{NodePath, Session};
use zk_harness::Ensemble;
use zk_sim::wait::{pass, soon};

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

async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = Ensemble::builder()
        .servers(servers)
        .start()
        .await
        .expect("the servers start");
    test(&ensemble).await;
    ensemble.down().await.expect("the servers go down");
}

/// Connects. The session outlasts an election, and its lease a pause of the machine.
async fn connect(ensemble: &Ensemble) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(LONG)
        .operation_timeout(LONG)
        .connect_timeout(2 * LONG)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

/// Polls `condition` until it holds, for at most half a minute.
async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    soon(what, async {
        while !condition().await {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Waits until `count` contenders are in the queue at `path`.
async fn until_enlisted(session: &Session, path: &str, count: usize) {
    eventually(&format!("{count} contenders below {path}"), async || {
        names(session, path).await.len() == count
    })
    .await;
}

/// The children of `path` now; none if it does not exist.
async fn names(session: &Session, path: &str) -> Vec<String> {
    let path = NodePath::parse(path).expect("tests use good paths");
    session
        .sync(&path)
        .with_quorum()
        .await
        .expect("the server catches up");
    match session.list(&path).await {
        Ok((names, _)) => names,
        Err(error) if error.is_no_node() => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

const LONG: Duration = Duration::from_secs(30);
