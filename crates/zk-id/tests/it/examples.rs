//! The example does what it says.

use std::process::Stdio;

use tokio::process::Command;

use crate::{example, soon};

#[tokio::test(flavor = "multi_thread")]
async fn the_example_gives_out_ids_that_rise_over_two_processes() {
    let running = Command::new(example("ids"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = soon("the example ends", running).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{complaint}");
    let numbers = |kind: &str| -> Vec<u64> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        let number = |line: &str| line.split([',', ' ']).next().unwrap().parse().unwrap();
        lines.map(number).collect()
    };
    assert_eq!(numbers("invoice "), [1, 101]);
    assert_eq!(numbers("ticket "), [0, 1]);
    let orders = numbers("order ");
    assert_eq!(orders.len(), 6);
}
