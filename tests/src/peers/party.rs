//! A member of a kazoo party.

use anyhow::Context as _;

use super::dialogue::Dialogue;
use super::dialogue::MAX_WAIT;
use super::kazoo::Kazoo;

/// A Python process that joins a `Party` or a `ShallowParty` on command.
///
/// # Dropping
///
/// The process is killed; its member goes when its session expires.
#[derive(Debug)]
pub struct KazooParty(Dialogue);

impl KazooParty {
    /// Starts the process, and waits until it is connected. The kind is `party` or `shallow`.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(
        kazoo: &Kazoo,
        connect: &str,
        path: &str,
        kind: &str,
        id: &str,
    ) -> anyhow::Result<Self> {
        let mut command = kazoo.party_program();
        let mut process = Self(Dialogue::start(command.args([connect, path, kind, id]))?);
        process.says("ready").await?;
        Ok(process)
    }

    /// Gives it a command, and returns what it says after the expected answer.
    ///
    /// # Errors
    ///
    /// kazoo failed, or does not reply, or has another answer.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn does(&mut self, command: &str, answer: &str) -> anyhow::Result<String> {
        self.0.tell(command).await?;
        self.says(answer).await
    }

    async fn says(&mut self, answer: &str) -> anyhow::Result<String> {
        let line = self.0.line(answer, MAX_WAIT).await?;
        let rest = line.strip_prefix(answer).map(str::trim_start);
        let rest = rest.with_context(|| format!("kazoo said {line:?} instead of {answer}"))?;
        Ok(rest.to_owned())
    }
}
