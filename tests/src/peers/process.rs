//! A Java program that uses Curator on command.

use anyhow::Context as _;

use super::curator::Curator;
use super::dialogue::{Dialogue, MAX_WAIT};
use super::run::QUICK;

/// One of the programs in `tests/java` that answer each command with a line.
///
/// # Dropping
///
/// The process is killed; what it has created goes when its session expires.
#[derive(Debug)]
pub struct CuratorProcess(Dialogue);

impl CuratorProcess {
    /// Starts a program with these arguments, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(
        curator: &Curator,
        program: &str,
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = curator.program(&QUICK, program)?;
        let mut process = Self(Dialogue::start(command.args(arguments))?);
        process.says("ready").await?;
        Ok(process)
    }

    /// Gives it a command, and returns what it says after the expected answer.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not reply, or has another answer.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn does(&mut self, command: &str, answer: &str) -> anyhow::Result<String> {
        self.0.tell(command).await?;
        self.says(answer).await
    }

    /// Waits for an answer, and returns what it says after that.
    ///
    /// # Errors
    ///
    /// Those of [`does`](Self::does).
    ///
    /// # Cancel safety
    ///
    /// Not safe: the answer may be lost. Drop it.
    pub async fn says(&mut self, answer: &str) -> anyhow::Result<String> {
        let line = self.0.line(answer, MAX_WAIT).await?;
        let rest = line.strip_prefix(answer).map(str::trim_start);
        let rest = rest.with_context(|| format!("Curator said {line:?} instead of {answer}"))?;
        Ok(rest.to_owned())
    }
}
