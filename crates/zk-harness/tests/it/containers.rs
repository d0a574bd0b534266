//! What is different with servers in containers.

use testcontainers::bollard::query_parameters::ListContainersOptionsBuilder;
use testcontainers::core::client::docker_client_instance;
use zk_harness::container::ContainerImage;
use zk_harness::{DataStore, Ensemble, ProcessState, ServerSpec};

use crate::support::{child_directory, eventually, in_child, in_containers};

// covers: H4 H7
#[tokio::test]
async fn a_server_off_its_network_is_succeeded_and_comes_back_at_another_port() {
    let Some(builder) = in_containers(3).await else {
        return;
    };
    let ensemble = builder.start().await.unwrap();
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

/// The networks of the containers that a process has made, a name for each container.
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

// covers: H4
#[tokio::test]
async fn containers_and_network_go_with_the_ensemble_and_after_a_kill_with_the_next_one() {
    let Some(builder) = in_containers(1).await else {
        return;
    };
    if let Some(note) = child_directory() {
        let _ensemble = builder.start().await.unwrap();
        std::fs::write(&note, "").unwrap();
        // To be killed here, so that nothing is dropped.
        return std::future::pending().await;
    }
    let directory = tempfile::tempdir().unwrap();
    let note = directory.path().join("note");
    let test = "containers::containers_and_network_go_with_the_ensemble_and_after_a_kill_with_the_next_one";
    let mut child = in_child(test, &note).spawn().unwrap();
    eventually("the child has an ensemble", || note.exists());
    let networks = containers_of(child.id()).await;
    assert_eq!(networks.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(containers_of(child.id()).await, networks);

    let ensemble = builder.start().await.unwrap();
    assert_eq!(containers_of(child.id()).await, [""; 0]);
    assert!(!has_network(&networks[0]).await, "it is left over");

    let own = containers_of(std::process::id()).await;
    assert_eq!(own.len(), 1);
    drop(ensemble);
    assert_eq!(containers_of(std::process::id()).await, [""; 0]);
    assert!(!has_network(&own[0]).await, "it is left over");
}

// covers: H4
#[tokio::test]
async fn what_containers_cannot_do_is_refused() {
    let refused = async |builder: zk_harness::EnsembleBuilder| {
        let builder = builder.containers(ContainerImage::Debian);
        builder.start().await.unwrap_err().to_string()
    };
    assert_eq!(
        refused(Ensemble::builder().data(DataStore::Memory)).await,
        "data = memory: data in memory is for servers that are processes; leave it out with containers"
    );
    assert_eq!(
        refused(Ensemble::builder().server(ServerSpec::new(1).with_client_port(5))).await,
        "server[0].client_port = 5: a port of one's own is for servers that are processes; leave it out with containers"
    );
    let Some(builder) = in_containers(1).await else {
        return;
    };
    let ensemble = builder.start().await.unwrap();
    let server = &ensemble.servers()[0];
    assert_eq!(
        server.fill_disk().unwrap_err().to_string(),
        "a full disk cannot be made here: the server runs in a container; it needs a process"
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
