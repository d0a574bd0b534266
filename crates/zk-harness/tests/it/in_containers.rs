//! Tests the differences of servers in containers. Each test needs a container engine.

use testcontainers::bollard::query_parameters::{
    ListContainersOptions, ListContainersOptionsBuilder,
};
use testcontainers::core::client::docker_client_instance;
use zk_harness::container::ContainerImage;
use zk_harness::fault::ClockShift;
use zk_harness::{Ensemble, ProcessState};

use crate::support::{child_directory, eventually, in_child, in_containers};

#[tokio::test]
async fn a_reconnected_server_has_another_port() {
    let ensemble = in_containers(3).start().await.unwrap();
    let before = ensemble.connect_string();
    let old = ensemble.leader().await.unwrap();
    old.disconnect().await.unwrap();
    ensemble.wait_quorum().await.unwrap();
    assert_ne!(ensemble.leader().await.unwrap().id(), old.id());
    assert_eq!(old.process_state(), ProcessState::Running);

    old.reconnect().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    assert_ne!(ensemble.connect_string(), before);
    eventually("the log of the container is kept", || {
        old.log_tail(5000).contains("LEADING") && old.log_tail(5000).contains("FOLLOWING")
    });
    ensemble.down().await.unwrap();
}

/// Published ports bypass many firewalls, and the servers permit everything to everyone.
#[tokio::test]
async fn the_ports_of_servers_are_published_on_loopback_alone() {
    let ensemble = in_containers(1).start().await.unwrap();
    let owner = format!("{}:", std::process::id());
    let docker = docker_client_instance().await.unwrap();
    let mut published = 0;
    for container in docker
        .list_containers(None::<ListContainersOptions>)
        .await
        .unwrap()
    {
        let labels = container.labels.unwrap_or_default();
        if !labels
            .get("zk-harness.owner")
            .is_some_and(|by| by.starts_with(&owner))
        {
            continue;
        }
        let ports = container.ports.unwrap_or_default();
        for port in ports.iter().filter(|port| port.public_port.is_some()) {
            assert_eq!(port.ip.as_deref(), Some("127.0.0.1"), "{port:?}");
            published += 1;
        }
    }
    assert!(published > 0);
    ensemble.down().await.unwrap();
}

/// Returns the network of each container that a process has created.
async fn containers_of(pid: u32) -> Vec<String> {
    let docker = docker_client_instance().await.unwrap();
    let options = ListContainersOptionsBuilder::new().all(true).build();
    let mut networks = Vec::new();
    for container in docker.list_containers(Some(options)).await.unwrap() {
        let labels = container.labels.unwrap_or_default();
        let owner = labels.get("zk-harness.owner").map_or("", String::as_str);
        if owner.starts_with(&format!("{pid}:")) {
            let all = container.network_settings.unwrap().networks.unwrap();
            networks.extend(all.into_keys());
        }
    }
    networks
}

async fn has_network(name: &str) -> bool {
    let docker = docker_client_instance().await.unwrap();
    docker.inspect_network(name, None).await.is_ok()
}

#[tokio::test]
async fn the_next_start_removes_the_containers_of_a_killed_process() {
    if let Some(note) = child_directory() {
        let _ensemble = in_containers(1).start().await.unwrap();
        std::fs::write(&note, "").unwrap();
        // The parent kills it here, so that nothing is dropped.
        return std::future::pending().await;
    }
    let directory = tempfile::tempdir().unwrap();
    let note = directory.path().join("note");
    let test = "in_containers::the_next_start_removes_the_containers_of_a_killed_process";
    let mut child = in_child(test, &note).spawn().unwrap();
    eventually("the child has an ensemble", || note.exists());
    let networks = containers_of(child.id()).await;
    assert_eq!(networks.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(containers_of(child.id()).await, networks);

    let ensemble = in_containers(1).start().await.unwrap();
    assert_eq!(containers_of(child.id()).await, [""; 0]);
    assert!(!has_network(&networks[0]).await, "it is left over");

    let own = containers_of(std::process::id()).await;
    assert_eq!(own.len(), 1);
    drop(ensemble);
    assert_eq!(containers_of(std::process::id()).await, [""; 0]);
    assert!(!has_network(&own[0]).await, "it is left over");
}

#[tokio::test]
async fn faults_that_need_a_process_are_refused() {
    let ensemble = in_containers(1).start().await.unwrap();
    let server = &ensemble.servers()[0];
    assert_eq!(
        server.fill_disk().unwrap_err().to_string(),
        "a full disk is not possible here: the server runs in a container; start the ensemble with processes"
    );
    let moved = server.shift_clock(ClockShift::Ahead(1));
    assert_eq!(
        moved.unwrap_err().to_string(),
        "a clock that jumps is not possible here: the server runs in a container; start the ensemble with processes"
    );
    assert_eq!(
        server.resume().await.unwrap_err().to_string(),
        "cannot resume server 1: it runs"
    );
    server.pause().await.unwrap();
    assert_eq!(server.process_state(), ProcessState::Paused);
    server.kill().await.unwrap();
    assert_eq!(server.process_state(), ProcessState::Stopped);
    ensemble.down().await.unwrap();

    let missing = Ensemble::builder()
        .servers(1)
        .containers(ContainerImage::Named("zk-harness-no-such-image:0".into()));
    let error = missing.start().await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start the container of server 1");
}

#[tokio::test]
async fn a_detached_ensemble_stays_and_can_be_attached_to() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("ensemble");
    let test = "in_containers::child_detaches_an_ensemble";
    let child = in_child(test, &directory).spawn().unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    // The next start removes stale containers, but not detached ones.
    in_containers(1)
        .start()
        .await
        .unwrap()
        .down()
        .await
        .unwrap();
    let networks = containers_of(pid).await;
    assert_eq!(networks.len(), 1);

    let ensemble = Ensemble::attach(&directory).unwrap();
    ensemble.wait_serving().await.unwrap();
    let server = &ensemble.servers()[0];
    server.kill().await.unwrap();
    drop(ensemble);
    let ensemble = Ensemble::attach(&directory).unwrap();
    let server = &ensemble.servers()[0];
    assert_eq!(server.process_state(), ProcessState::Stopped);
    server.start().unwrap();
    ensemble.wait_serving().await.unwrap();
    // Over both starts.
    let starts = server.log_tail(5000).matches("binding to port").count();
    assert_eq!(starts, 2, "{}", server.log_tail(5000));
    ensemble.down().await.unwrap();
    assert_eq!(containers_of(pid).await, [""; 0]);
    assert!(!has_network(&networks[0]).await, "it is left over");
    assert!(!directory.exists());
}

/// Not a test: the process that the test above starts.
#[tokio::test]
async fn child_detaches_an_ensemble() {
    let Some(directory) = child_directory() else {
        return;
    };
    let builder = in_containers(1).directory(directory);
    builder.start().await.unwrap().detach().unwrap();
}

#[tokio::test]
async fn containers_of_a_removed_directory_are_stale() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("ensemble");
    let test = "in_containers::child_detaches_an_ensemble";
    let mut child = in_child(test, &directory).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(containers_of(child.id()).await.len(), 1);
    let ensemble = in_containers(1).start().await.unwrap();
    assert_eq!(containers_of(child.id()).await, [""; 0]);
    ensemble.down().await.unwrap();
}
