//! Caches on real servers.

#![cfg(test)]

use std::path::PathBuf;
use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_sim::wait::{pass, soon};

mod auto_traits;
mod basic;
mod kinds;
mod nemesis;
mod processes;
#[path = "../support/replay.rs"]
mod replay;
#[path = "../support/words.rs"]
mod words;

/// Connects with the defaults of the tests.
async fn connect(ensemble: &Ensemble) -> Session {
    connect_for(ensemble, Duration::from_secs(30)).await
}

/// Connects with a session timeout.
async fn connect_for(ensemble: &Ensemble, timeout: Duration) -> Session {
    let connecting = Session::builder(ensemble.connect_string())
        .session_timeout(timeout)
        .connect_timeout(Duration::from_secs(60))
        .operation_timeout(Duration::from_secs(60))
        .connect();
    connecting.await.expect("the ensemble grants a session")
}

/// Returns the path of the example that cargo built beside the test programs.
fn example() -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    let target = this.parent().and_then(|deps| deps.parent());
    let target = target.expect("tests are in a target directory");
    let path = target.join("examples").join("follow");
    assert!(
        path.exists(),
        "{} does not exist: run all targets of this crate, or `cargo build --examples` first",
        path.display()
    );
    path
}
