//! ZooKeeper's own shell, with the client in Java: one command in one process.

use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use zk_harness::Ensemble;

/// Runs one command of the shell, connected to `server`, with these properties of its Java.
pub(crate) async fn run(
    ensemble: &Ensemble,
    server: &str,
    properties: &[String],
    command: &[&str],
) -> Output {
    let distribution = ensemble.distribution();
    let classpath = std::env::join_paths(&distribution.classpath).unwrap();
    let mut shell = Command::new(&distribution.java);
    shell
        .arg("-XX:TieredStopAtLevel=1")
        .args(properties)
        .arg("-cp")
        .arg(classpath)
        .args(["org.apache.zookeeper.ZooKeeperMain", "-server", server])
        // Without it the shell sends the command before it is connected, and waits for ever without a server.
        .args(["-waitforconnection", "-timeout", "5000"])
        .args(command)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(WITHIN, shell.output()).await;
    output
        .unwrap_or_else(|_| panic!("the shell has not ended within {WITHIN:?}: {command:?}"))
        .unwrap()
}

/// Returns everything that a command has written.
pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

const WITHIN: Duration = Duration::from_secs(60);
