//! The examples work as described.

#[path = "../../examples/guarded_counter/count.rs"]
mod count;

#[path = "../../examples/fenced_file/file.rs"]
mod file;
#[path = "../../examples/fenced_file/play.rs"]
mod play;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::with_ensemble;

#[tokio::test(flavor = "multi_thread")]
async fn guarded_counter_counts_every_step_once() {
    with_ensemble(async |ensemble| {
        let store = count::count(&ensemble.connect_string(), 4, 10)
            .await
            .unwrap();
        assert_eq!((store.value, store.tokens.len()), (40, 40));
        assert!(store.tokens.is_sorted());
    })
    .await;
}

/// Where cargo puts the examples: beside the directory of the test programs.
fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a process knows its program");
    let target = this.parent().and_then(|deps| deps.parent());
    let path = target
        .expect("tests are in a target directory")
        .join("examples")
        .join(name);
    assert!(
        path.exists(),
        "{} is not there: run all targets of this crate, or `cargo build --examples` first",
        path.display()
    );
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_of_contention_survives_the_death_of_a_leader() {
    let running = Command::new(example("contention"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(120), running)
        .await
        .expect("the example ends within two minutes")
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{complaint}");
    for name in ["anna", "ben", "cleo", "dan"] {
        let turns = text.lines().filter(|line| line.starts_with(name));
        assert!(turns.count() >= 5, "{text}");
    }
    assert!(text.contains(", the leader, is killed\n"), "{text}");
    assert!(text.contains(" is the new leader\n"), "{text}");
    assert!(
        text.ends_with(
            "20 of 20 turns wrote their line, each with a higher token than the one before\n"
        ),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fenced_file_refuses_a_holder_that_comes_too_late() {
    with_ensemble(async |ensemble| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("balance");
        let refused = play::play(&ensemble.connect_string(), &path).await.unwrap();
        assert!(refused.contains("is too old"), "{refused}");
        let text = std::fs::read_to_string(&path).unwrap();
        let (token, content) = text.split_once('\n').unwrap();
        assert_eq!(content, "100 + 50");
        assert!(refused.contains(token), "{refused} {text}");
    })
    .await;
}
