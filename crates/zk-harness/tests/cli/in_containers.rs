//! What is different with servers in containers. Each test needs a container engine.

use std::path::Path;

use testcontainers::bollard::query_parameters::ListContainersOptionsBuilder;
use testcontainers::core::client::docker_client_instance;

use crate::support::{Backend, Place};

/// The names of the containers of the ensembles below a directory, running or not.
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

// covers: H4
#[test]
fn status_names_the_container_instead_of_a_process() {
    let place = Place::on(Backend::Containers);
    place.up(&["--servers", "1"]);
    let containers = of(&place.ensembles());
    let [name] = containers.as_slice() else {
        panic!("{containers:?}");
    };
    let status = place.status("default");
    let server = &status["servers"][0];
    assert_eq!(server["container"], name.as_str());
    assert_eq!(server["pid"], serde_json::Value::Null);
    let text = place.ok(&["status"]);
    assert!(
        text.contains(name) && text.contains(" in containers, its server serves\n"),
        "{text}"
    );
    assert!(place.ok(&["list"]).contains("1 of 1"));

    // A container that is stopped has no port, and clients are sent to none.
    place.ok(&["kill", "1"]);
    let status = place.status("default");
    assert_eq!(status["servers"][0]["client_port"], serde_json::Value::Null);
    assert_eq!(place.ok(&["env", "--format", "value"]), "\n");
    let text = place.run(&["status"]).out;
    assert!(text.contains(" stopped            -  "), "{text}");
}

// covers: H4 H7
#[test]
fn what_needs_processes_is_refused_and_what_would_do_is_said() {
    let place = Place::on(Backend::Containers);
    let refused = |args: &[&str]| {
        let args = [&["up", "--backend", "containers", "--servers", "1"], args].concat();
        let said = place.fails(&args);
        said.lines()
            .find(|line| line.starts_with("error: "))
            .map(str::to_owned)
    };
    for (args, said) in [
        (
            &["--data", "memory"][..],
            "error: data = memory: data in memory is for servers that are processes; with containers set it to \"disk\"",
        ),
        (
            &["--proxied"],
            "error: proxied = true: fault proxies and links are for servers that are processes; leave them out with containers",
        ),
        (
            &["--movable-clock"],
            "error: movable_clock = true: a movable clock is for servers that are processes; leave it out with containers",
        ),
    ] {
        assert_eq!(refused(args).as_deref(), Some(said));
    }
    assert!(!place.ensembles().exists(), "something was left behind");

    place.up(&["--servers", "1"]);
    for (args, said) in [
        (
            &["partition", "1"][..],
            "error: the servers of the ensemble default run in containers, which have no fault proxies; take it down, and start it with `up --backend processes --proxied`\n",
        ),
        (
            &["fill-disk", "1"],
            "error: a full disk cannot be made here: the server runs in a container; it needs a process\n",
        ),
        (
            &["clock", "1", "--ahead", "1h"],
            "error: a clock that jumps cannot be made here: the server runs in a container; it needs a process\n",
        ),
        (
            &["up", "--backend", "processes"],
            "error: the ensemble default is there already, with other settings: its servers run in containers; take it down first, or choose another --name\n",
        ),
    ] {
        assert_eq!(place.fails(args), said);
    }
    place.up(&[]);
}

// covers: H3 H4
#[test]
fn the_next_up_leaves_those_that_are_up() {
    let place = Place::on(Backend::Containers);
    place.up(&["--servers", "1", "--name", "one"]);
    place.up(&["--servers", "1", "--name", "two"]);
    place.ok(&["status", "--name", "one"]);
    assert_eq!(of(&place.ensembles()).len(), 2);
    place.ok(&["down", "--all"]);
    assert_eq!(place.left(), 0);
}

// covers: H3 H4
#[test]
fn removed_containers_are_said_and_the_ensemble_goes_down() {
    let place = Place::on(Backend::Containers);
    place.up(&["--servers", "1"]);
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
        let name = of_one(&place);
        docker.remove_container(&name, Some(options)).await.unwrap();
    });
    let error = place.fails(&["up"]);
    assert!(
        error.contains("cannot start the container of server 1")
            && error.contains("it was removed, and its data with it; take the ensemble down"),
        "{error}"
    );
    place.ok(&["down"]);
    assert!(!place.ensembles().exists());
}

/// The name of the only container.
fn of_one(place: &Place) -> String {
    let status = place.status("default");
    let name = status["servers"][0]["container"].as_str();
    name.expect("it is in a container").to_owned()
}
