//! Tests the differences of servers in containers. Each test needs a container engine.

use std::path::Path;

use testcontainers::bollard::query_parameters::ListContainersOptionsBuilder;
use testcontainers::core::client::docker_client_instance;

use crate::support::{Backend, EnsembleDir};

/// Returns the names of the containers of the ensembles below a directory, running or not.
pub(crate) fn of(ensembles: &Path) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let listed = runtime.block_on(async {
        let docker = docker_client_instance().await.unwrap();
        let options = ListContainersOptionsBuilder::new().all(true).build();
        docker.list_containers(Some(options)).await.unwrap()
    });
    let is_below = |state: &String| Path::new(state).starts_with(ensembles);
    let own = listed.into_iter().filter(|container| {
        let labels = container.labels.as_ref();
        labels
            .and_then(|labels| labels.get("zk-harness.state"))
            .is_some_and(is_below)
    });
    own.flat_map(|container| container.names.unwrap_or_default())
        .map(|name| name.trim_start_matches('/').to_owned())
        .collect()
}

#[test]
fn status_shows_the_container_instead_of_a_process() {
    let dir = EnsembleDir::on(Backend::Containers);
    dir.up(&["--servers", "1"]);
    let containers = of(&dir.ensembles());
    let [name] = containers.as_slice() else {
        panic!("{containers:?}");
    };
    let status = dir.status("default");
    let server = &status["servers"][0];
    assert_eq!(server["container"], name.as_str());
    assert_eq!(server["pid"], serde_json::Value::Null);
    let text = dir.ok(&["status"]);
    assert!(
        text.contains(name) && text.contains(" in containers, its server serves\n"),
        "{text}"
    );
    assert!(dir.ok(&["list"]).contains("1 of 1"));

    // A stopped container has no port, so it is not in the connection string.
    dir.ok(&["kill", "1"]);
    let status = dir.status("default");
    assert_eq!(status["servers"][0]["client_port"], serde_json::Value::Null);
    assert_eq!(dir.ok(&["env", "--format", "value"]), "\n");
    let text = dir.run(&["status"]).out;
    assert!(text.contains(" stopped            -  "), "{text}");
}

#[test]
fn unsupported_options_are_refused_with_the_remedy() {
    let dir = EnsembleDir::on(Backend::Containers);
    let refused = |args: &[&str]| {
        let args = [&["up", "--backend", "containers", "--servers", "1"], args].concat();
        let error = dir.fails(&args);
        error
            .lines()
            .find(|line| line.starts_with("error: "))
            .map(str::to_owned)
    };
    for (args, expected) in [
        (
            &["--data", "memory"][..],
            "error: data = memory: not supported with containers; set it to \"disk\"",
        ),
        (
            &["--proxied"],
            "error: proxied = true: not supported with containers; omit fault proxies and links",
        ),
        (
            &["--movable-clock"],
            "error: movable_clock = true: not supported with containers; omit it",
        ),
    ] {
        assert_eq!(refused(args).as_deref(), Some(expected));
    }
    assert!(!dir.ensembles().exists(), "something was left behind");

    dir.up(&["--servers", "1"]);
    for (args, expected) in [
        (
            &["partition", "1"][..],
            "error: the servers of the ensemble default run in containers, which have no fault proxies; take it down, and start it with `up --backend processes --proxied`\n",
        ),
        (
            &["fill-disk", "1"],
            "error: a full disk is not possible here: the server runs in a container; start the ensemble with processes\n",
        ),
        (
            &["clock", "1", "--ahead", "1h"],
            "error: a clock that jumps is not possible here: the server runs in a container; start the ensemble with processes\n",
        ),
        (
            &["up", "--backend", "processes"],
            "error: the ensemble default already exists with other settings: its servers run in containers; take it down first, or choose another --name\n",
        ),
    ] {
        assert_eq!(dir.fails(args), expected);
    }
    dir.up(&[]);
}

#[test]
fn up_does_not_remove_the_containers_of_other_ensembles() {
    let dir = EnsembleDir::on(Backend::Containers);
    dir.up(&["--servers", "1", "--name", "one"]);
    dir.up(&["--servers", "1", "--name", "two"]);
    dir.ok(&["status", "--name", "one"]);
    assert_eq!(of(&dir.ensembles()).len(), 2);
    dir.ok(&["down", "--all"]);
    assert_eq!(dir.left(), 0);
}

#[test]
fn an_ensemble_with_removed_containers_can_be_taken_down() {
    let dir = EnsembleDir::on(Backend::Containers);
    dir.up(&["--servers", "1"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let docker = docker_client_instance().await.unwrap();
        let options =
            testcontainers::bollard::query_parameters::RemoveContainerOptionsBuilder::new()
                .force(true)
                .build();
        let name = of_one(&dir);
        docker.remove_container(&name, Some(options)).await.unwrap();
    });
    let error = dir.fails(&["up"]);
    assert!(
        error.contains("cannot start the container of server 1")
            && error.contains("the container and its data were removed; take the ensemble down"),
        "{error}"
    );
    dir.ok(&["down"]);
    assert!(!dir.ensembles().exists());
}

/// Returns the name of the only container.
fn of_one(dir: &EnsembleDir) -> String {
    let status = dir.status("default");
    let name = status["servers"][0]["container"].as_str();
    name.expect("it is in a container").to_owned()
}
