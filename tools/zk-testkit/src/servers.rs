//! Tests on real servers.

use std::path::PathBuf;
use std::time::Duration;

use zk_core::{NodePath, Session};
use zk_harness::{Ensemble, EnsembleBuilder};

/// Starts servers behind a proxy, runs the test against them and takes them down.
///
/// # Panics
///
/// If the servers do not start or do not go down.
///
/// # Cancel safety
///
/// The servers go down with the future, as with any ensemble that is dropped.
pub async fn with_servers(servers: usize, test: impl AsyncFnOnce(&Ensemble)) {
    with_started(Ensemble::builder().servers(servers).proxied(true), test).await;
}

/// Starts an ensemble, runs the test against it and takes it down.
///
/// # Panics
///
/// If the servers do not start or do not go down.
///
/// # Cancel safety
///
/// The servers go down with the future, as with any ensemble that is dropped.
pub async fn with_started(ensemble: EnsembleBuilder, test: impl AsyncFnOnce(&Ensemble)) {
    let ensemble = ensemble.start().await.expect("the servers start");
    test(&ensemble).await;
    ensemble.down().await.expect("the servers go down");
}

/// Connects with a session that outlasts an election, and whose lease outlasts a pause of the machine.
///
/// # Panics
///
/// If there is no session within a minute.
///
/// # Cancel safety
///
/// A session that was granted meanwhile ends by its timeout.
pub async fn connect(ensemble: &Ensemble) -> Session {
    connect_for(ensemble, LONG).await
}

/// Connects with a session timeout.
///
/// # Panics
///
/// If there is no session within a minute.
///
/// # Cancel safety
///
/// A session that was granted meanwhile ends by its timeout.
pub async fn connect_for(ensemble: &Ensemble, session_timeout: Duration) -> Session {
    Session::builder(ensemble.connect_string())
        .session_timeout(session_timeout)
        .operation_timeout(2 * LONG)
        .connect_timeout(2 * LONG)
        .connect()
        .await
        .expect("the ensemble grants a session")
}

/// Returns the children of `path`, on a server that has caught up; none if there is no such node.
///
/// # Panics
///
/// If the path is not one, or if the servers do not answer.
///
/// # Cancel safety
///
/// Cancel safe: it only reads.
pub async fn names(session: &Session, path: &str) -> Vec<String> {
    let path = NodePath::parse(path).expect("tests use good paths");
    let caught_up = session.sync(&path).with_quorum().await;
    caught_up.expect("the server catches up");
    match session.list(&path).await {
        Ok((names, _)) => names,
        Err(error) if error.is_no_node() => Vec::new(),
        Err(error) => panic!("{error}"),
    }
}

/// Returns the path of an example, which cargo puts beside the directory of the test programs.
///
/// # Panics
///
/// If the example is not built.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    let target = this.parent().and_then(|deps| deps.parent());
    let target = target.expect("tests are in a target directory");
    let path = target.join("examples").join(name);
    assert!(
        path.exists(),
        "{} does not exist: run all targets of this crate, or `cargo build --examples` first",
        path.display()
    );
    path
}

/// The session timeout of [`connect`].
pub const LONG: Duration = Duration::from_secs(30);
