//! Tests that servers can be stopped, killed, restarted, paused and resumed, and how the ensemble reacts.

use std::time::Duration;

use zk_harness::{Ensemble, Error, Health, ProcessState, Role};

use crate::support::{in_memory, on_each_backend, processes_of};

on_each_backend! {
    a_killed_leader_is_replaced_and_restarts_as_follower: 3,
    a_minority_reports_that_it_does_not_serve: 3,
    a_paused_leader_is_replaced_and_follows_when_resumed: 3,
    data_survives_a_kill_of_all_servers: 3,
}

async fn a_killed_leader_is_replaced_and_restarts_as_follower(ensemble: Ensemble) {
    let old = ensemble.leader().await.unwrap();
    old.kill().await.unwrap();
    assert_eq!(old.process_state(), ProcessState::Stopped);
    ensemble.wait_quorum().await.unwrap();
    let new = ensemble.leader().await.unwrap();
    assert_ne!(new.id(), old.id());
    assert!(matches!(
        ensemble.status().await.health,
        Health::Degraded { .. }
    ));

    old.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    let status = ensemble.status().await;
    assert!(
        matches!(status.health, Health::AllServing { .. }),
        "{}",
        status.seen()
    );
    let back = status
        .servers
        .iter()
        .find(|server| server.id == old.id())
        .unwrap();
    assert_eq!(back.role, Some(Role::Follower));
    ensemble.down().await.unwrap();
}

async fn a_minority_reports_that_it_does_not_serve(ensemble: Ensemble) {
    ensemble.server(1).unwrap().kill().await.unwrap();
    ensemble.server(2).unwrap().stop().await.unwrap();
    // The survivor notices within the sync limit.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let seen = loop {
        match ensemble.leader().await {
            Err(Error::NoQuorum { seen }) if seen.contains("does not serve requests") => {
                break seen;
            }
            other => assert!(
                tokio::time::Instant::now() < deadline,
                "still {other:?} after a minute"
            ),
        }
    };
    assert!(
        seen.contains("server 1: its process does not run"),
        "{seen}"
    );
    assert!(ensemble.server(3).unwrap().srvr().await.is_err());
    let alone = ensemble.server(3).unwrap().four_letter("ruok").await;
    assert_eq!(alone.unwrap(), "imok");

    ensemble.server(1).unwrap().start().unwrap();
    ensemble.wait_quorum().await.unwrap();
    ensemble.server(2).unwrap().restart().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    ensemble.down().await.unwrap();
}

async fn a_paused_leader_is_replaced_and_follows_when_resumed(ensemble: Ensemble) {
    let old = ensemble.leader().await.unwrap();
    old.pause().await.unwrap();
    assert_eq!(old.process_state(), ProcessState::Paused);
    ensemble.wait_quorum().await.unwrap();
    assert_ne!(ensemble.leader().await.unwrap().id(), old.id());
    old.resume().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    assert_ne!(ensemble.leader().await.unwrap().id(), old.id());
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn an_action_in_the_wrong_state_is_refused_with_a_reason() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = &ensemble.servers()[0];
    let text = |result: Result<(), Error>| result.unwrap_err().to_string();
    let pid = server.pid().unwrap();
    assert_eq!(
        text(server.start()),
        format!("cannot start server 1: it already runs (process {pid})")
    );
    assert_eq!(
        text(server.resume().await),
        "cannot resume server 1: it runs"
    );
    server.pause().await.unwrap();
    assert_eq!(
        text(server.pause().await),
        "cannot pause server 1: it is already paused"
    );
    assert_eq!(
        text(server.stop().await),
        "cannot stop server 1: it is paused; resume it first, or kill it"
    );
    assert_eq!(
        text(server.start()),
        format!("cannot start server 1: it is paused; resume it (process {pid})")
    );
    server.kill().await.unwrap();
    assert_eq!(
        text(server.kill().await),
        "cannot kill server 1: it does not run; start it first"
    );
    assert_eq!(
        text(server.stop().await),
        "cannot stop server 1: it does not run; start it first"
    );
    assert_eq!(
        text(server.pause().await),
        "cannot pause server 1: it does not run; start it first"
    );
    server.restart().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    assert_ne!(server.pid(), Some(pid));
    assert_eq!(
        ensemble.server(9).unwrap_err().to_string(),
        "there is no server 9; this ensemble has server 1 only"
    );
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn a_server_can_be_killed_right_after_its_start() {
    let ensemble = in_memory(1).start().await.unwrap();
    let server = &ensemble.servers()[0];
    server.kill().await.unwrap();
    for _ in 0..20 {
        server.start().unwrap();
        assert_eq!(server.process_state(), ProcessState::Running);
        assert!(matches!(server.start(), Err(Error::WrongState { .. })));
        server.kill().await.unwrap();
        assert_eq!(processes_of(ensemble.directory()), 0);
    }
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn the_port_is_free_after_a_kill_and_after_down() {
    for _ in 0..3 {
        let ensemble = in_memory(1).start().await.unwrap();
        let server = &ensemble.servers()[0];
        let address = server.client_address();
        server.kill().await.unwrap();
        assert!(std::net::TcpListener::bind(address).is_ok(), "killed");
        server.start().unwrap();
        ensemble.wait_serving().await.unwrap();
        ensemble.down().await.unwrap();
        assert!(std::net::TcpListener::bind(address).is_ok(), "down");
    }
}

async fn data_survives_a_kill_of_all_servers(ensemble: Ensemble) {
    let before = ensemble.leader().await.unwrap().srvr().await.unwrap().zxid;
    for server in ensemble.servers() {
        server.kill().await.unwrap();
    }
    ensemble.start_stopped().unwrap();
    ensemble.wait_serving().await.unwrap();
    let after = ensemble.leader().await.unwrap().srvr().await.unwrap().zxid;
    assert!(
        after > before,
        "the zxid went back from {before:#x} to {after:#x}"
    );
    ensemble.down().await.unwrap();
}
