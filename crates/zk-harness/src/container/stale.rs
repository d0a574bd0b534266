//! Containers that a killed process has left behind.
//!
//! Each container carries the id of the process that made it, since when that process runs, and where such a number means
//! anything: a number that was given to somebody else meanwhile is told apart, and so is one of another machine, or of
//! another container on this machine, that shares the engine. What was made there is left to those who can see whether
//! its maker lives.
//!
//! The containers of a detached ensemble outlive their maker on purpose. Each container carries the ensemble's directory
//! and name, too: as long as the file there that says how the ensemble was started names it, its containers are not left
//! behind.

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

/// The labels of a container of this process.
pub(super) fn labels(plan: &Plan) -> Vec<(String, String)> {
    let owner = place()
        .and_then(|place| owner(std::process::id(), &place))
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

/// Removes containers, and their networks, whose makers are gone.
///
/// What cannot be removed is told in the log: it is no reason not to start.
pub(super) async fn sweep(docker: &Docker) {
    let Some(place) = place() else {
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
            tracing::warn!(%error, "containers that were left behind cannot be looked for");
            return;
        }
    };
    for container in listed {
        let labels = container.labels.unwrap_or_default();
        let label = |name: &str| labels.get(name).map_or("", String::as_str);
        let is_left_behind =
            is_dead(label(OWNER), &place) && !is_detached(label(STATE).as_ref(), label(ENSEMBLE));
        let Some(id) = container.id.filter(|_| is_left_behind) else {
            continue;
        };
        let networks = container.network_settings.and_then(|all| all.networks);
        let options = RemoveContainerOptionsBuilder::new()
            .force(true)
            .v(true)
            .build();
        if let Err(error) = docker.remove_container(&id, Some(options)).await {
            tracing::warn!(%error, id, "a container that was left behind was not removed");
        }
        for network in networks.unwrap_or_default().into_keys() {
            if network.starts_with(PREFIX) {
                // Fails until the last of its containers is gone.
                drop(docker.remove_network(&network).await);
            }
        }
    }
}

/// Whether the file that says how an ensemble was started is there and names this one.
///
/// A file that cannot be read, such as another user's, may do so.
fn is_detached(state: &Path, ensemble: &str) -> bool {
    match fs::read_to_string(state) {
        Ok(text) => text.contains(&format!("\"{ensemble}\"")),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Where process ids mean something: this start of the machine, and the namespace of process ids on it.
fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}:{}", boot.trim(), namespace.display()))
}

/// A process's id, when it was started in ticks since the machine was, and where.
fn owner(pid: u32, place: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the program's name, which may hold spaces and parentheses, the start is the twentieth field.
    let started = stat.rsplit_once(") ")?.1.split(' ').nth(19)?;
    Some(format!("{pid}:{started}:{place}"))
}

/// Whether a process of this place made it, and is gone.
fn is_dead(maker: &str, place: &str) -> bool {
    let mut parts = maker.splitn(3, ':');
    let pid = parts.next().and_then(|pid| pid.parse().ok());
    let is_here = parts.nth(1) == Some(place);
    is_here && pid.is_some_and(|pid| owner(pid, place).as_deref() != Some(maker))
}

const OWNER: &str = "zk-harness.owner";
const STATE: &str = "zk-harness.state";
const ENSEMBLE: &str = "zk-harness.ensemble";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_its_start_and_its_place() {
        let place = place().unwrap();
        let own = owner(std::process::id(), &place).unwrap();
        assert!(!is_dead(&own, &place), "{own}");
        let number = std::process::id();
        assert!(is_dead(&format!("{number}:0:{place}"), &place));
        assert!(is_dead(&format!("4294967295:7:{place}"), &place));
        // Whoever made these cannot be seen from here.
        for other in ["", "1", "1:7", "x:y:z", "4294967295:7:another"] {
            assert!(!is_dead(other, &place), "{other}");
        }
    }

    // covers: H4
    #[test]
    fn an_ensemble_is_detached_while_its_file_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("ensemble.json");
        assert!(!is_detached(&state, "zk-harness-1"), "there is no file");
        fs::write(&state, r#"{"containers": "zk-harness-1"}"#).unwrap();
        assert!(is_detached(&state, "zk-harness-1"));
        // The directory is that of another ensemble by now.
        assert!(!is_detached(&state, "zk-harness-2"));
        // Here it is no file; of another user's it is no more known.
        assert!(is_detached(directory.path(), "zk-harness-1"));
        // Containers without these labels.
        assert!(!is_detached(Path::new(""), ""));
    }
}
