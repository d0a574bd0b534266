//! Tests the life of named ensembles, from `up` to `down`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::{Backend, EnsembleDir, eventually, on_each_backend, processes_below};

on_each_backend! {
    an_ensemble_outlives_the_command_and_its_leader,
    a_kept_ensemble_restarts_with_its_data,
    logs_are_shown_and_followed_until_down,
}

fn leader(status: &serde_json::Value) -> Option<u64> {
    let servers = status["servers"].as_array().unwrap();
    servers
        .iter()
        .find(|server| server["role"] == "leader")
        .and_then(|server| server["id"].as_u64())
}

#[test]
fn a_release_with_a_known_loss_gives_a_warning() {
    let dir = EnsembleDir::new();
    let up = dir.run(&["up", "--servers", "1", "--zookeeper", "3.8"]);
    assert_eq!(up.code, Some(0), "{up:?}");
    let warning = "warning: ZooKeeper releases before 3.9.3 can lose acknowledged writes";
    assert!(up.err.contains(warning), "{}", up.err);
    dir.ok(&["down"]);
}

fn an_ensemble_outlives_the_command_and_its_leader(dir: &EnsembleDir) {
    let up = dir.up(&[]);
    let (starting, process) = match dir.backend() {
        Backend::Processes => ("starting 3 servers\n", "pid"),
        #[cfg(feature = "containers")]
        Backend::Containers => ("starting 3 servers in containers\n", "container"),
    };
    assert!(up.err.starts_with(starting), "{}", up.err);
    assert!(!up.err.contains("warning"), "{}", up.err);
    let lines: Vec<_> = up.out.lines().collect();
    assert!(
        lines[0].starts_with("ensemble default: ZooKeeper 3.")
            && lines[0].ends_with(", all 3 servers serve")
    );
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>().join(" "),
        format!("id role state client port {process} directory")
    );
    assert!(lines[5].starts_with("connect: 127.0.0.1:"), "{}", up.out);
    assert!(lines[6].starts_with("serves after "), "{}", up.out);

    let again = dir.ok(&["up"]);
    assert!(
        again.starts_with("ensemble default is already up\n"),
        "{again}"
    );

    let status = dir.status("default");
    let connect = status["connect"].as_str().unwrap();
    assert_eq!(dir.ok(&["env"]), format!("export ZK_CONNECT={connect}\n"));
    assert_eq!(
        dir.ok(&["env", "--format", "value"]),
        format!("{connect}\n")
    );
    let first = leader(&status).unwrap();

    assert_eq!(
        dir.ok(&["kill", "leader"]),
        format!("server {first} killed\n")
    );
    // The next `leader` waits for the election.
    let paused = dir.ok(&["pause", "leader"]);
    assert!(
        paused.ends_with(" paused\n") && paused != format!("server {first} paused\n"),
        "{paused}"
    );
    eventually("no quorum serves with one of three", || {
        leader(&dir.status("default")).is_none()
    });
    let printed = dir.run(&["status"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.out.contains("no quorum serves"), "{printed:?}");

    dir.ok(&["resume", "all"]);
    eventually("two of three serve again", || {
        leader(&dir.status("default")).is_some()
    });
    assert_eq!(
        dir.ok(&["start", &first.to_string()]),
        format!("server {first} started\n")
    );
    eventually("all three serve", || {
        dir.run(&["status"]).out.contains("all 3 servers serve")
    });

    assert_eq!(
        dir.ok(&["down"]),
        "ensemble default is down; its files are removed\n"
    );
    assert_eq!(dir.left(), 0);
    assert!(!dir.ensembles().exists());
    assert_eq!(dir.ok(&["list"]), "no ensembles\n");
}

#[test]
fn status_json_has_the_documented_form() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--servers", "1", "--data", "memory"]);
    let printed = dir.ok(&["status", "--json"]);
    let status = dir.status("default");
    let server = &status["servers"][0];
    let expected = format!(
        concat!(
            r#"{{"name":"default","connect":"127.0.0.1:{port}","servers":[{{"id":1,"role":"standalone","#,
            r#""state":"serving","client_port":{port},"pid":{pid},"dir":"{dir}"}}]}}"#,
            "\n"
        ),
        port = server["client_port"],
        pid = server["pid"],
        dir = dir.ensembles().join("default/server-1").display(),
    );
    assert_eq!(printed, expected);
    dir.ok(&["kill", "1"]);
    let status = dir.status("default");
    let server = &status["servers"][0];
    assert_eq!(
        (&server["role"], &server["pid"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(server["state"], "stopped");
}

#[test]
fn concurrent_ups_have_different_ports() {
    let dir = EnsembleDir::new();
    let names: Vec<_> = (0..5).map(|number| format!("e{number}")).collect();
    let ups: Vec<_> = names
        .iter()
        .map(|name| {
            let mut up = dir.command(&["up", "--servers", "1", "--data", "memory", "--name", name]);
            up.stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for up in ups {
        let output = up.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let mut connects: Vec<_> = names
        .iter()
        .map(|name| dir.ok(&["env", "--name", name]))
        .collect();
    connects.sort();
    connects.dedup();
    assert_eq!(connects.len(), 5);
    let list = dir.ok(&["list"]);
    assert_eq!(
        list.lines()
            .filter(|line| line.contains("1 of 1") && line.contains("serves"))
            .count(),
        5,
        "{list}"
    );
    for name in &names {
        dir.ok(&["down", "--name", name]);
    }
    assert_eq!(processes_below(&dir.ensembles()), 0);
    assert!(!dir.ensembles().exists());
}

#[test]
fn two_ups_of_one_name_start_it_once() {
    let dir = EnsembleDir::new();
    let ups: Vec<_> = (0..2)
        .map(|_| {
            let mut up = dir.command(&["up", "--servers", "1", "--data", "memory"]);
            up.stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut printed: Vec<_> = ups
        .into_iter()
        .map(|up| String::from_utf8(up.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    printed.sort();
    assert!(
        printed[0].starts_with("ensemble default is already up\n"),
        "{printed:?}"
    );
    assert!(
        printed[1].starts_with("ensemble default: ZooKeeper "),
        "{printed:?}"
    );
    assert_eq!(processes_below(&dir.ensembles()), 1);
}

#[test]
fn a_killed_up_leaves_nothing_and_the_next_up_works() {
    let dir = EnsembleDir::new();
    for round in 0..8 {
        let mut up = dir.command(&["up", "--data", "memory"]);
        let mut up = up
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each round kills it later: before, during and after the start of the servers' processes.
        let mut polls = 0;
        eventually("the time of this round was reached", || {
            polls += 1;
            polls > round * 2
        });
        up.kill().unwrap();
        up.wait().unwrap();
        eventually("the guard had cleaned up", || {
            processes_below(&dir.ensembles()) == 0 && is_empty(&dir.ensembles().join("default"))
        });
    }
    dir.ok(&["up", "--servers", "1", "--data", "memory"]);
}

/// Returns whether the directory is empty or missing; a lock may leave an empty one, which the next `up` uses.
fn is_empty(directory: &std::path::Path) -> bool {
    std::fs::read_dir(directory).map_or(true, |mut entries| entries.next().is_none())
}

fn a_kept_ensemble_restarts_with_its_data(dir: &EnsembleDir) {
    dir.up(&["--servers", "1", "--keep"]);
    let directory = dir.ensembles().join("default");
    let down = dir.ok(&["down"]);
    assert_eq!(
        down,
        format!(
            "ensemble default is down; its files are kept in {}\n",
            directory.display()
        )
    );
    match dir.backend() {
        Backend::Processes => {
            assert_eq!(dir.left(), 0);
            let logs = std::fs::read_dir(directory.join("server-1/txlog/version-2"));
            assert!(logs.unwrap().count() >= 1);
        }
        // The data is in the container, which does not run.
        #[cfg(feature = "containers")]
        Backend::Containers => assert_eq!(dir.left(), 1),
    }
    assert_eq!(dir.status("default")["servers"][0]["state"], "stopped");
    let up = dir.ok(&["up"]);
    assert!(
        up.starts_with("ensemble default was down and is up again, with its data\n"),
        "{up}"
    );
    dir.ok(&["down", "--remove"]);
    assert!(!directory.exists());
    assert_eq!(dir.left(), 0);
}

fn logs_are_shown_and_followed_until_down(dir: &EnsembleDir) {
    dir.up(&["--servers", "1"]);
    let all = dir.ok(&["logs"]);
    assert!(all.contains("binding to port"), "{all}");
    assert_eq!(dir.ok(&["logs", "1", "--lines", "3"]).lines().count(), 3);
    let mut follow = dir
        .command(&["logs", "1", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut shown = || lines.any(|line| line.unwrap().contains("binding to port"));
    assert!(shown());
    // It follows the next start, too.
    dir.ok(&["restart", "1"]);
    assert!(shown());
    dir.ok(&["down"]);
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    let output = follow.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}, {rest:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "the ensemble default is down\n"
    );
}

#[test]
fn options_take_precedence_over_the_settings_file() {
    let dir = EnsembleDir::new();
    let file = dir.file(
        "ensemble.toml",
        "servers = 5\ndata = \"memory\"\ntick_time = \"300ms\"\n",
    );
    dir.ok(&["up", "--config", file.to_str().unwrap(), "--servers", "1"]);
    let config =
        std::fs::read_to_string(dir.ensembles().join("default/server-1/zoo-1.cfg")).unwrap();
    assert!(config.starts_with("tickTime=300\n"), "{config}");
    assert_eq!(
        dir.status("default")["servers"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn down_kills_a_server_without_its_pid_file() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--servers", "1", "--data", "memory"]);
    std::fs::remove_file(dir.ensembles().join("default/server-1/server.pid")).unwrap();
    dir.ok(&["down", "--keep"]);
    assert_eq!(processes_below(&dir.ensembles()), 0);
}

#[test]
fn a_kept_ensemble_that_fails_to_restart_is_down() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--keep", "--data", "memory"]);
    dir.ok(&["down"]);
    // Another program has taken a port.
    let port = dir.status("default")["servers"][2]["client_port"].clone();
    let _listener = std::net::TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    let error = dir.fails(&["up"]);
    assert!(
        error.contains("server 3 exited while starting")
            && error.contains("Address already in use"),
        "{error}"
    );
    assert!(dir.ensembles().join("default/server-3/zoo-3.cfg").exists());
    assert_eq!(processes_below(&dir.ensembles()), 0);
}

#[test]
fn up_after_a_killed_down_waits_for_its_guard() {
    let dir = EnsembleDir::new();
    for round in [0, 2, 4, 6] {
        dir.ok(&["up", "--servers", "1", "--data", "memory"]);
        let mut down = dir.command(&["down"]);
        let mut down = down
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut polls = 0;
        eventually("the time of this round was reached", || {
            polls += 1;
            polls > round
        });
        down.kill().unwrap();
        down.wait().unwrap();
        let up = dir.run(&["up", "--servers", "1", "--data", "memory"]);
        assert_eq!(up.code, Some(0), "round {round}: {up:?}");
        dir.ok(&["status"]);
        assert_eq!(processes_below(&dir.ensembles()), 1);
        dir.ok(&["down"]);
        assert_eq!(processes_below(&dir.ensembles()), 0);
    }
}

#[test]
fn up_of_a_running_ensemble_succeeds_only_if_it_serves() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--data", "memory"]);
    dir.ok(&["kill", "leader"]);
    // At once, in the middle of the election.
    let up = dir.ok(&["up"]);
    assert!(up.contains("a quorum serves, 2 of 3 servers"), "{up}");
    dir.ok(&["kill", "follower"]);
    let up = dir.run(&["up"]);
    assert_eq!(up.code, Some(1), "{up:?}");
    assert!(up.out.starts_with("ensemble default is already up\n"));
    assert!(up.err.ends_with(
        "error: no quorum serves; `start all` starts stopped servers, `resume all` resumes paused ones\n"
    ), "{up:?}");
}

#[test]
fn up_with_other_settings_is_refused() {
    let dir = EnsembleDir::new();
    let file = dir.file("ensemble.toml", "servers = 1\ndata = \"memory\"\n");
    let file = file.to_str().unwrap();
    dir.ok(&["up", "--config", file]);
    dir.ok(&["up", "--config", file]);
    // A later `--keep` takes effect, too.
    dir.ok(&["up", "--keep"]);
    assert!(dir.ok(&["down"]).contains("its files are kept in"));
    dir.file(
        "ensemble.toml",
        "servers = 1\ndata = \"memory\"\ntick_time = \"1s\"\n",
    );
    let error = dir.fails(&["up", "--config", file]);
    assert!(
        error.ends_with(&format!(
            "error: the ensemble default already exists with other settings: those of {file} differ; take it down first, or choose another --name\n"
        )),
        "{error}"
    );
}

#[test]
fn up_reports_data_in_memory_lost_after_a_reboot() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "--servers", "1", "--data", "memory"]);
    dir.ok(&["down", "--keep"]);
    let state = std::fs::read_to_string(dir.ensembles().join("default/ensemble.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let up = dir.ok(&["up"]);
    assert!(up.starts_with("ensemble default was down and is up again, with its data\n"));
    dir.ok(&["down", "--keep"]);
    // As a reboot does.
    std::fs::remove_dir_all(state["memory_directory"].as_str().unwrap()).unwrap();
    let up = dir.ok(&["up"]);
    assert!(
        up.starts_with(
            "ensemble default was down and is up again; its data, which was in memory, is lost\n"
        ),
        "{up}"
    );
}
