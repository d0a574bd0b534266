//! Several processes contend for a lock while the server that leads the ensemble is killed.
//!
//! ```text
//! cargo run -p zk-lock --example contention
//! ```
//!
//! It starts three real servers, and itself again as four more processes. Each of them appends lines to one file, and
//! only under the lock. In the middle of that the leader is killed; in the end the file shows whether the lock held.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_harness::Ensemble;
use zk_lock::FairLock;

const PROCESSES: usize = 4;
const TURNS: usize = 5;
/// Longer than an election takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => play().await,
        [name, connect, file] => work(name, connect, Path::new(file)).await,
        _ => anyhow::bail!("it takes no arguments"),
    }
}

/// One of the processes: takes its turns under the lock.
async fn work(name: &str, connect: &str, file: &Path) -> anyhow::Result<()> {
    let session = Session::builder(connect)
        .session_timeout(LONG)
        .operation_timeout(LONG)
        .connect_timeout(LONG)
        .connect()
        .await?;
    let lock = FairLock::new(&session, "/contention")?;
    let mut turn = 1;
    while turn <= TURNS {
        let guard = lock.acquire().await?;
        let token = guard.fencing_token();
        say(&format!(
            "{name} has the lock for the {turn}. time, with token {token}"
        ));
        // The work takes some time; if the lock is lost meanwhile, it stops.
        let work = tokio::time::timeout(Duration::from_millis(100), guard.lost());
        if let Ok(loss) = work.await {
            say(&format!("{name} stops its work and begins anew: {loss}"));
            continue;
        }
        // A file cannot compare tokens, so the guard is checked right before the write.
        if guard.is_valid() {
            writeln!(File::options().append(true).open(file)?, "{token} {name}")?;
            turn += 1;
        }
        guard.release().await?;
    }
    session.close().await?;
    Ok(())
}

/// The parent of the processes: starts them and the servers, kills the leader, and checks the file.
async fn play() -> anyhow::Result<()> {
    let ensemble = Ensemble::builder().servers(3).start().await?;
    say("three servers serve");
    let file = tempfile::NamedTempFile::new()?;
    let (sender, mut lines) = mpsc::unbounded_channel();
    let mut processes = JoinSet::new();
    for name in ["anna", "ben", "cleo", "dan"].into_iter().take(PROCESSES) {
        let child = Command::new(std::env::current_exe()?)
            .args([name, &ensemble.connect_string()])
            .arg(file.path())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("another process cannot be started")?;
        processes.spawn(listen(child, sender.clone()));
    }
    drop(sender);

    let mut told = 0;
    while let Some(line) = lines.recv().await {
        say(&line);
        told += 1;
        if told == PROCESSES * TURNS / 3 {
            let leader = ensemble.wait_leader(LONG).await?;
            leader.kill().await?;
            say(&format!(
                "    server {}, the leader, is killed",
                leader.id()
            ));
            ensemble.wait_quorum().await?;
            let leader = ensemble.wait_leader(LONG).await?.id();
            say(&format!("    server {leader} is the new leader"));
        }
    }
    for ended in processes.join_all().await {
        ended?;
    }
    judge(&std::fs::read_to_string(&file)?)?;
    ensemble.down().await?;
    Ok(())
}

/// Forwards the output of a process, until it ends.
async fn listen(mut child: Child, sender: mpsc::UnboundedSender<String>) -> anyhow::Result<()> {
    let output = child.stdout.take().context("the output was piped")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        // The receiver is gone if the parent ends because of an error.
        drop(sender.send(line));
    }
    let status = child.wait().await?;
    anyhow::ensure!(status.success(), "a process ended with {status}");
    Ok(())
}

/// Checks the file: each line begins with the token of its writer.
fn judge(text: &str) -> anyhow::Result<()> {
    let tokens: Vec<u64> = text
        .lines()
        .map(|line| line.split(' ').next().unwrap_or_default().parse())
        .collect::<Result<_, _>>()?;
    anyhow::ensure!(
        tokens.is_sorted_by(|a, b| a < b),
        "the lines are not in the order of the grants:\n{text}"
    );
    say(&format!(
        "{} of {} turns wrote their line, each with a higher token than the one before",
        tokens.len(),
        PROCESSES * TURNS
    ));
    Ok(())
}

fn say(line: &str) {
    // The output may have been closed, which is no reason to stop.
    drop(writeln!(std::io::stdout(), "{line}"));
}
