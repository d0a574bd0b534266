//! Drives a program that reads commands and prints replies, one per line.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A program that takes commands on its standard input, and answers on its standard output.
///
/// # Dropping
///
/// The process is killed.
#[derive(Debug)]
pub(crate) struct Dialogue {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// For starting a Java, connecting, and any answer.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60);

impl Dialogue {
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The libraries' complaints are of interest when a test fails, and shown then.
            .stderr(Stdio::inherit())
            .spawn()
            .context("a peer cannot be started")?;
        let commands = child.stdin.take().context("the input was piped")?;
        let answers = child.stdout.take().context("the output was piped")?;
        Ok(Self {
            child,
            commands,
            answers: BufReader::new(answers).lines(),
        })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) async fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        let line = format!("{command}\n");
        let told = async {
            self.commands.write_all(line.as_bytes()).await?;
            self.commands.flush().await
        };
        told.await
            .with_context(|| format!("cannot send {command} to a peer"))
    }

    /// The next line, which is an error if it says that the peer failed.
    pub(crate) async fn line(&mut self, what: &str, within: Duration) -> anyhow::Result<String> {
        let line = tokio::time::timeout(within, self.answers.next_line())
            .await
            .with_context(|| format!("waited {within:?} for a peer to say {what}"))?
            .context("a peer's output cannot be read")?
            .with_context(|| format!("a peer ended and has not said {what}"))?;
        match line.strip_prefix("failed ") {
            Some(message) => anyhow::bail!("a peer that was to say {what} failed: {message}"),
            None => Ok(line),
        }
    }

    /// Waits until the process is gone.
    pub(crate) async fn ended(&mut self) -> anyhow::Result<ExitStatus> {
        tokio::time::timeout(MAX_WAIT, self.child.wait())
            .await
            .with_context(|| format!("a peer did not end within {MAX_WAIT:?}"))?
            .context("a peer's end cannot be waited for")
    }
}
