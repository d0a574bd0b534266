//! Registering and following on real servers.

#![cfg(test)]

use std::path::PathBuf;
use std::time::Duration;

use zk_core::Session;
use zk_discovery::{Instance, Registry};
use zk_harness::Ensemble;

mod auto_traits;
mod servers;

/// Connects with the defaults of the tests.
async fn connect(ensemble: &Ensemble) -> Session {
    let connecting = Session::builder(ensemble.connect_string())
        .session_timeout(Duration::from_secs(60))
        .connect_timeout(Duration::from_secs(60))
        .operation_timeout(Duration::from_secs(60))
        .connect();
    connecting.await.expect("the ensemble grants a session")
}

fn registry(session: &Session) -> Registry {
    Registry::new(session, "/services").expect("a good path")
}

fn instance(id: &str) -> Instance<String> {
    Instance::builder("orders", "payload".to_owned())
        .id(id)
        .address("10.0.0.7")
        .build()
        .expect("a good instance")
}

/// Waits at most a minute for something that is to happen.
async fn soon<T>(what: &str, happening: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(Duration::from_secs(60), happening).await;
    happened.unwrap_or_else(|_| panic!("waited a minute for this: {what}"))
}

/// Where cargo puts the example: beside the directory of the test programs.
fn example() -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    let target = this.parent().and_then(|deps| deps.parent());
    let target = target.expect("tests are in a target directory");
    let path = target.join("examples").join("serve");
    assert!(
        path.exists(),
        "{} is not there: run all targets of this crate, or `cargo build --examples` first",
        path.display()
    );
    path
}
