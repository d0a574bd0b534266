//! The example does what it says.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::example;

#[tokio::test(flavor = "multi_thread")]
async fn the_example_has_a_new_leader_after_each_loss() {
    let running = Command::new(example("leader"))
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
    for act in ["killed", "deposed", "asked to hand over", "last"] {
        let lines = text
            .lines()
            .filter(|line| line.ends_with(&format!(") is {act}")));
        assert_eq!(lines.count(), 1, "{text}");
    }
}
