//! Tests that nothing is left, however an ensemble or the process that started it ends.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use zk_harness::Keep;

use crate::support::{child_directory, eventually, in_child, in_memory, processes_of};

#[tokio::test]
async fn a_drop_leaves_no_process_and_no_file() {
    let ensemble = in_memory(3).start().await.unwrap();
    let directory = ensemble.directory().to_owned();
    assert_eq!(processes_of(&directory), 3);
    drop(ensemble);
    assert_eq!(processes_of(&directory), 0);
    assert!(!directory.exists());
}

#[tokio::test]
async fn no_zombie_is_left_however_servers_end() {
    for round in 0..3 {
        let ensemble = in_memory(1).start().await.unwrap();
        let pid = ensemble.servers()[0].pid().unwrap();
        match round {
            0 => ensemble.down().await.unwrap(),
            1 => ensemble.kill_all().await.unwrap(),
            _ => drop(ensemble),
        }
        let process = format!("/proc/{pid}");
        assert!(!Path::new(&process).exists(), "round {round}: {process}");
    }
}

#[tokio::test]
async fn a_drop_kills_paused_servers() {
    let ensemble = in_memory(1).start().await.unwrap();
    let directory = ensemble.directory().to_owned();
    ensemble.servers()[0].pause().await.unwrap();
    drop(ensemble);
    assert_eq!(processes_of(&directory), 0);
    assert!(!directory.exists());
}

#[tokio::test]
async fn keep_always_keeps_the_files() {
    let ensemble = in_memory(1).keep(Keep::Always).start().await.unwrap();
    let directory = ensemble.directory().to_owned();
    drop(ensemble);
    assert_eq!(processes_of(&directory), 0);
    assert!(directory.join("server-1/server.log").exists());
    zk_harness::Ensemble::attach(&directory)
        .unwrap()
        .down()
        .await
        .unwrap();
    assert!(!directory.exists());
}

/// Not a test: the process that the tests below start and end.
#[tokio::test]
async fn child_holds_an_ensemble() {
    let Some(directory) = child_directory() else {
        return;
    };
    let builder = in_memory(3).directory(&directory);
    let ensemble = builder.start().await.unwrap();
    println!("serving");
    if std::env::var_os("PANIC").is_some() {
        for (id, text) in [(8, COMMITTED), (9, ROLLED_BACK)] {
            let server = directory.join(format!("server-{id}"));
            std::fs::create_dir(&server).unwrap();
            std::fs::write(server.join("server.log"), text).unwrap();
        }
        panic!("as a failing test does");
    }
    std::future::pending::<()>().await;
    drop(ensemble);
}

/// Log lines of the leaders of two epochs; the second one lacks transactions that the first one had committed.
const COMMITTED: &str = "\
New election. My id = 8, proposed zxid=0x0
LEADING - LEADER ELECTION TOOK - 12 MS
Have quorum of supporters, sids: [[8, 3]]; starting up and setting last processed zxid: 0x100000000
Synchronizing with Learner sid: 9 maxCommittedLog=0x1000000a8 minCommittedLog=0x100000001 lastProcessedZxid=0x1000000a8 peerLastZxid=0x100000005
";
const ROLLED_BACK: &str = "\
New election. My id = 9, proposed zxid=0x100000005
LEADING - LEADER ELECTION TOOK - 12 MS
Synchronizing with Learner sid: 3 maxCommittedLog=0x100000005 minCommittedLog=0x100000001 lastProcessedZxid=0x100000005 peerLastZxid=0x1000000a8
Have quorum of supporters, sids: [[9, 3]]; starting up and setting last processed zxid: 0x200000000
";

/// Starts the child and waits until its ensemble serves.
fn serving_child(directory: &Path, panics: bool) -> std::process::Child {
    let mut command = in_child("cleanup::child_holds_an_ensemble", directory);
    if panics {
        command.env("PANIC", "1");
    }
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().ends_with("serving")),
        "the child's ensemble does not serve"
    );
    child
}

fn pid(child: &std::process::Child) -> Pid {
    Pid::from_child(child)
}

#[test]
fn a_killed_process_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("ensemble");
    let mut child = serving_child(&directory, false);
    assert_eq!(processes_of(&directory), 3);
    kill_process(pid(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    eventually("the guard had cleaned up", || {
        processes_of(&directory) == 0 && !directory.exists()
    });
}

#[test]
fn a_killed_process_group_leaves_nothing() {
    // A terminal sends Ctrl-C to the whole foreground group; a test runner kills the group of a test that hangs.
    for signal in [Signal::INT, Signal::KILL] {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("ensemble");
        let mut child = serving_child(&directory, false);
        kill_process_group(pid(&child), signal).unwrap();
        child.wait().unwrap();
        eventually("the guard had cleaned up", || {
            processes_of(&directory) == 0 && !directory.exists()
        });
    }
}

#[test]
fn a_process_killed_during_the_start_leaves_nothing() {
    let root = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let directory = root.path().join(format!("ensemble-{round}"));
        let mut child = in_child("cleanup::child_holds_an_ensemble", &directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Each round kills it later: from the creation of the directory to the start of the servers.
        eventually("the directory was created", || directory.exists());
        let mut polls = 0;
        eventually("the time of this round was reached", || {
            polls += 1;
            polls > round * 3
        });
        kill_process(pid(&child), Signal::KILL).unwrap();
        child.wait().unwrap();
        eventually("the guard had cleaned up", || {
            processes_of(&directory) == 0 && !directory.exists()
        });
    }
}

#[tokio::test]
async fn a_panic_keeps_the_files_and_prints_lost_writes() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("ensemble");
    let child = serving_child(&directory, true);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = format!(
        "the files of the ensemble are kept: {}",
        directory.display()
    );
    assert!(text.contains(&line), "{text}");
    for lost in ["server 3", "server 9", "0x100000005", "0x1000000a8"] {
        assert!(text.contains(lost), "{lost}: {text}");
    }
    assert_eq!(processes_of(&directory), 0);
    assert!(directory.join("server-1/server.log").exists());
    // This removes the kept files, and the data in memory.
    let kept = zk_harness::Ensemble::attach(&directory).unwrap();
    kept.down().await.unwrap();
    assert!(!directory.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_ensembles_have_different_ports() {
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..5 {
        starts.spawn(in_memory(1).start());
    }
    let ensembles: Vec<_> = starts
        .join_all()
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let mut connects: Vec<_> = ensembles
        .iter()
        .map(zk_harness::Ensemble::connect_string)
        .collect();
    connects.sort();
    connects.dedup();
    assert_eq!(connects.len(), 5);
    for ensemble in ensembles {
        ensemble.down().await.unwrap();
    }
}
