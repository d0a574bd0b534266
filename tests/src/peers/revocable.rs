//! Curator's revocable lock in its own process.

use anyhow::ensure;

use super::curator::Curator;
use super::dialogue::Dialogue;
use super::dialogue::MAX_WAIT;
use super::run::QUICK;

/// A process that holds a Curator lock until it is revoked, and revokes others.
///
/// # Dropping
///
/// The process is killed.
#[derive(Debug)]
pub struct Revocable(Dialogue);

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
        let mut program = curator.program(&QUICK, "Revocable")?;
        let mut dialogue = Dialogue::start(program.args([connect, path]))?;
        let line = dialogue.line("that it is ready", MAX_WAIT).await?;
        ensure!(
            line.starts_with("ready "),
            "Curator's holder began with {line:?}"
        );
        Ok(Self(dialogue))
    }

    /// Acquires the lock, which it releases as soon as another client requests it.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn acquire(&mut self) -> anyhow::Result<()> {
        self.0.tell("acquire").await?;
        self.says("acquired").await
    }

    /// Waits until it was asked for the lock and has released it.
    ///
    /// # Errors
    ///
    /// Curator failed, or does not reply.
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
    /// Curator failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn revoke(&mut self, node: &str) -> anyhow::Result<()> {
        self.0.tell(&format!("revoke {node}")).await?;
        self.says("asked").await
    }

    async fn says(&mut self, word: &str) -> anyhow::Result<()> {
        let line = self.0.line(word, MAX_WAIT).await?;
        ensure!(
            line == word,
            "Curator's holder said {line:?} instead of {word}"
        );
        Ok(())
    }
}
