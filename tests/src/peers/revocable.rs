//! Curator's revocable lock in a process of its own.

use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::ensure;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::io::BufReader;
use tokio::io::Lines;
use tokio::process::Child;
use tokio::process::ChildStdin;
use tokio::process::ChildStdout;

use super::curator::Curator;
use super::run::QUICK;

/// A process that holds a Curator lock until it is revoked, and revokes others.
///
/// # Dropping
///
/// The process is killed.
#[derive(Debug)]
pub struct Revocable {
    _child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// For starting a Java, connecting, and any answer.
const PATIENCE: Duration = Duration::from_secs(30);

impl Revocable {
    /// Starts a process for locks at `path`, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(curator: &Curator, connect: &str, path: &str) -> anyhow::Result<Self> {
        let mut child = curator
            .program(&QUICK, "Revocable")?
            .args([connect, path])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .context("Curator's holder cannot be started")?;
        let commands = child.stdin.take().context("the input was piped")?;
        let answers = child.stdout.take().context("the output was piped")?;
        let mut revocable = Self {
            _child: child,
            commands,
            answers: BufReader::new(answers).lines(),
        };
        revocable.says("ready").await?;
        Ok(revocable)
    }

    /// Acquires the lock, which it releases as soon as somebody asks for it.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process goes on. Drop it.
    pub async fn acquire(&mut self) -> anyhow::Result<()> {
        self.tell("acquire\n").await?;
        self.says("acquired").await
    }

    /// Waits until it was asked for the lock and has released it.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the answer may be lost. Drop it.
    pub async fn revoked(&mut self) -> anyhow::Result<()> {
        self.says("revoked").await
    }

    /// Calls Curator's `Revoker` for a node.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not answer.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process goes on. Drop it.
    pub async fn revoke(&mut self, node: &str) -> anyhow::Result<()> {
        self.tell(&format!("revoke {node}\n")).await?;
        self.says("asked").await
    }

    async fn tell(&mut self, line: &str) -> anyhow::Result<()> {
        let told = async {
            self.commands.write_all(line.as_bytes()).await?;
            self.commands.flush().await
        };
        told.await.context("Curator's holder takes no commands")
    }

    async fn says(&mut self, word: &str) -> anyhow::Result<()> {
        let line = tokio::time::timeout(PATIENCE, self.answers.next_line())
            .await
            .with_context(|| format!("waited {PATIENCE:?} for Curator's holder to say {word}"))??
            .with_context(|| format!("Curator's holder ended and has not said {word}"))?;
        ensure!(
            line == word,
            "Curator's holder said {line:?} instead of {word}"
        );
        Ok(())
    }
}
