//! A client in its own process, which is given one run after the other.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::client_kind::ClientKind;
use super::load::Load;
use super::workload::Run;

/// A client in its own process.
///
/// # Dropping
///
/// The process is killed.
#[derive(Debug)]
pub(super) struct LoadProcess {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl LoadProcess {
    /// Starts a client with the command that runs it.
    pub(super) fn start(mut command: Command, kind: ClientKind) -> anyhow::Result<Self> {
        let name = kind.name();
        if kind == ClientKind::Java {
            // Its library says there that nothing is logged; failures are on the standard output.
            command.stderr(Stdio::null());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let output = child.stdout.take().context("its output is a pipe")?;
        Ok(Self {
            name,
            input: child.stdin.take().context("its input is a pipe")?,
            output: BufReader::new(output).lines(),
            child,
        })
    }

    /// Lets the client do a run.
    pub(super) async fn measure(&mut self, run: Run) -> anyhow::Result<Load> {
        let measuring = async {
            self.input.write_all(format!("{run}\n").as_bytes()).await?;
            let line = self.output.next_line().await?;
            let line = line.context("the process has ended")?;
            serde_json::from_str(&line).with_context(|| format!("it answered {line}"))
        };
        let within = run.warm_up + run.measured + MAX_WAIT;
        let load = tokio::time::timeout(within, measuring).await;
        let load = load.unwrap_or_else(|_| Err(anyhow!("it did not answer within {within:?}")));
        load.with_context(|| format!("{}, {}", self.name, run.workload))
    }

    /// Ends the process, and waits until it has ended.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.input);
        let ended = tokio::time::timeout(MAX_WAIT, self.child.wait()).await;
        let status = ended.with_context(|| format!("{} did not end", self.name))??;
        ensure!(status.success(), "{} ended with {status}", self.name);
        Ok(())
    }
}

/// For starting Java and opening sessions, beside the time of the run.
const MAX_WAIT: Duration = Duration::from_secs(60);
