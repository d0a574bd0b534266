//! ZooKeeper's own shell, with the client in Java: one command in one process.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use zk_harness::Ensemble;

/// Runs one command of the shell, connected to `server`, with these properties of its Java, until it writes a line that
/// contains `expected`.
///
/// Until then the shell tries to connect: on a busy machine its first attempts may be too slow for its own limits.
pub(crate) async fn expect(
    ensemble: &Ensemble,
    server: &str,
    properties: &[String],
    command: &[&str],
    expected: &str,
) {
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
        .args(["-waitforconnection", "-timeout", "60000"])
        .args(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut shell = shell.spawn().unwrap();
    let mut out = BufReader::new(shell.stdout.take().unwrap()).lines();
    let mut err = BufReader::new(shell.stderr.take().unwrap()).lines();
    let mut written = String::new();
    let said = async {
        let (mut out_ended, mut err_ended) = (false, false);
        while !(out_ended && err_ended) {
            let line = tokio::select! {
                line = out.next_line(), if !out_ended => {
                    let line = line.unwrap();
                    out_ended = line.is_none();
                    line
                }
                line = err.next_line(), if !err_ended => {
                    let line = line.unwrap();
                    err_ended = line.is_none();
                    line
                }
            };
            let line = line.unwrap_or_default();
            written += &line;
            written.push('\n');
            if line.contains(expected) {
                return true;
            }
        }
        false
    };
    let said = tokio::time::timeout(WITHIN, said).await;
    shell.kill().await.unwrap();
    assert!(
        said == Ok(true),
        "the shell's `{}` has not written {expected:?} ({said:?}, within {WITHIN:?} at most): {written}",
        command.join(" ")
    );
}

const WITHIN: Duration = Duration::from_secs(60);
