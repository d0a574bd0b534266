//! A member of a kazoo party, or of a set that kazoo partitions.

use anyhow::Context as _;
use tokio::process::Command;

use super::dialogue::{Dialogue, MAX_WAIT};
use super::kazoo::Kazoo;

/// A Python process that joins a `Party`, a `ShallowParty` or a `SetPartitioner` on command.
///
/// # Dropping
///
/// The process is killed; its member goes when its session expires.
#[derive(Debug)]
pub struct KazooMember(Dialogue);

impl KazooMember {
    /// Starts the process, and waits until it is connected. The kind is `party` or `shallow`.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn party(
        kazoo: &Kazoo,
        connect: &str,
        path: &str,
        kind: &str,
        id: &str,
    ) -> anyhow::Result<Self> {
        let mut command = kazoo.party_program();
        command.args([connect, path, kind, id]);
        Self::start(&mut command).await
    }

    /// Starts the process of a `SetPartitioner`, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn partitioner(
        kazoo: &Kazoo,
        connect: &str,
        path: &str,
        id: &str,
        items: &[&str],
    ) -> anyhow::Result<Self> {
        let mut command = kazoo.partitioner_program();
        command.args([connect, path, id]).args(items);
        Self::start(&mut command).await
    }

    async fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut process = Self(Dialogue::start(command)?);
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
