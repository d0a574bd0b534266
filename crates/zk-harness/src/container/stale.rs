//! Removes the containers of processes that were killed.
//!
//! A label of each container has the id of the process that created it, its start time, and its boot and process id
//! namespace. The start time detects a reused id. Containers of other machines and namespaces that share the engine are
//! not removed, because it is unknown here whether their creators run.
//!
//! The containers of a detached ensemble outlive their creator on purpose. Further labels have the ensemble's state file
//! and name: while that file contains the name, the containers are not stale.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use testcontainers::bollard::Docker;
use testcontainers::bollard::query_parameters::{
    ListContainersOptionsBuilder, RemoveContainerOptionsBuilder,
};

use super::PREFIX;
use crate::config::Plan;

/// Returns the labels of a container that this process creates.
pub(super) fn labels(plan: &Plan) -> Vec<(String, String)> {
    let owner = namespace()
        .and_then(|namespace| owner_label(std::process::id(), &namespace))
        .unwrap_or_default();
    let state = plan.state_file().to_string_lossy().into_owned();
    [
        (OWNER, owner),
        (STATE, state),
        (ENSEMBLE, plan.host_prefix()),
    ]
    .map(|(label, value)| (label.to_owned(), value))
    .to_vec()
}

/// Removes stale containers and their networks.
///
/// A failure is only logged, because it does not prevent a start.
pub(super) async fn remove(docker: &Docker) {
    let Some(namespace) = namespace() else {
        return;
    };
    let filters = HashMap::from([("label".to_owned(), vec![OWNER.to_owned()])]);
    let options = ListContainersOptionsBuilder::new()
        .all(true)
        .filters(&filters)
        .build();
    let listed = match docker.list_containers(Some(options)).await {
        Ok(listed) => listed,
        Err(error) => {
            tracing::warn!(%error, "cannot list stale containers");
            return;
        }
    };
    for container in listed {
        let labels = container.labels.unwrap_or_default();
        let label = |name: &str| labels.get(name).map_or("", String::as_str);
        let is_stale = is_dead(label(OWNER), &namespace)
            && !is_detached(label(STATE).as_ref(), label(ENSEMBLE));
        let Some(id) = container.id.filter(|_| is_stale) else {
            continue;
        };
        let networks = container.network_settings.and_then(|all| all.networks);
        let options = RemoveContainerOptionsBuilder::new()
            .force(true)
            .v(true)
            .build();
        if let Err(error) = docker.remove_container(&id, Some(options)).await {
            tracing::warn!(%error, id, "cannot remove a stale container");
        }
        for network in networks.unwrap_or_default().into_keys() {
            if network.starts_with(PREFIX) {
                // It fails until the last of its containers is removed.
                drop(docker.remove_network(&network).await);
            }
        }
    }
}

/// Returns whether the state file contains the ensemble's name, or may do so because it cannot be read.
fn is_detached(state: &Path, ensemble: &str) -> bool {
    match fs::read_to_string(state) {
        Ok(text) => text.contains(&format!("\"{ensemble}\"")),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Returns the boot id and the process id namespace, within which process ids are unique.
fn namespace() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let pid_namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}:{}", boot.trim(), pid_namespace.display()))
}

/// Returns the owner label of a process: its id, its start time in ticks since boot, and its namespace.
fn owner_label(pid: u32, namespace: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The start time is the twentieth field after the program's name, which may contain spaces and parentheses.
    let started = stat.rsplit_once(") ")?.1.split(' ').nth(19)?;
    Some(format!("{pid}:{started}:{namespace}"))
}

/// Returns whether the creator belongs to this namespace and has ended.
fn is_dead(creator: &str, namespace: &str) -> bool {
    let mut parts = creator.splitn(3, ':');
    let pid = parts.next().and_then(|pid| pid.parse().ok());
    let is_same_namespace = parts.nth(1) == Some(namespace);
    is_same_namespace
        && pid.is_some_and(|pid| owner_label(pid, namespace).as_deref() != Some(creator))
}

const OWNER: &str = "zk-harness.owner";
const STATE: &str = "zk-harness.state";
const ENSEMBLE: &str = "zk-harness.ensemble";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_id_start_and_namespace() {
        let namespace = namespace().unwrap();
        let own = owner_label(std::process::id(), &namespace).unwrap();
        assert!(!is_dead(&own, &namespace), "{own}");
        let number = std::process::id();
        assert!(is_dead(&format!("{number}:0:{namespace}"), &namespace));
        assert!(is_dead(&format!("4294967295:7:{namespace}"), &namespace));
        // The creators of these are unknown here.
        for other in ["", "1", "1:7", "x:y:z", "4294967295:7:another"] {
            assert!(!is_dead(other, &namespace), "{other}");
        }
    }

    #[test]
    fn an_ensemble_is_detached_while_its_file_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("ensemble.json");
        assert!(!is_detached(&state, "zk-harness-1"), "there is no file");
        fs::write(&state, r#"{"containers": "zk-harness-1"}"#).unwrap();
        assert!(is_detached(&state, "zk-harness-1"));
        // The state file is that of another ensemble.
        assert!(!is_detached(&state, "zk-harness-2"));
        // A directory cannot be read as a file, like the file of another user.
        assert!(is_detached(directory.path(), "zk-harness-1"));
        // Containers without these labels.
        assert!(!is_detached(Path::new(""), ""));
    }
}
