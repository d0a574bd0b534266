//! Elections on real servers.

#![cfg(test)]

use std::path::PathBuf;
use std::time::Duration;

use zk_core::Session;
use zk_harness::Ensemble;
use zk_leader::{LatchParticipant, LeaderLease, ParticipantState};
use zk_sim::wait::soon;

mod auto_traits;
mod basic;
mod breadcrumb;
mod examples;
mod failover;
mod processes;
mod step_down;

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

async fn leading(participant: &LatchParticipant) -> LeaderLease {
    let lease = soon("it leads", participant.leading()).await;
    lease.expect("it stays in the race")
}

async fn until_waiting(participant: &LatchParticipant) {
    let mut changes = participant.handle().changes();
    soon("it waits", async {
        while !matches!(changes.next().await, Some(ParticipantState::Waiting { .. })) {}
    })
    .await;
}

const LONG: Duration = Duration::from_secs(30);

/// Where cargo puts the example: beside the directory of the test programs.
fn example() -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    let target = this.parent().and_then(|deps| deps.parent());
    let target = target.expect("tests are in a target directory");
    let path = target.join("examples").join("leader");
    assert!(
        path.exists(),
        "{} is not there: run all targets of this crate, or `cargo build --examples` first",
        path.display()
    );
    path
}
