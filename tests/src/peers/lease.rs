//! kazoo's leases, taken on command in their own process.

use anyhow::Context as _;

use super::dialogue::{Dialogue, MAX_WAIT};
use super::kazoo::Kazoo;

/// A kazoo client that takes leases on command.
///
/// # Dropping
///
/// The process is killed; its leases last until their end.
#[derive(Debug)]
pub struct KazooLeases(Dialogue);

impl KazooLeases {
    /// Starts it, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn start(kazoo: &Kazoo, connect: &str) -> anyhow::Result<Self> {
        let mut command = kazoo.script(PROGRAM);
        let mut dialogue = Dialogue::start(command.arg(connect))?;
        let line = dialogue.line("ready", MAX_WAIT).await?;
        anyhow::ensure!(line == "ready", "kazoo said {line:?}");
        Ok(Self(dialogue))
    }

    /// Gives it a command of `lease_peer.py`, and returns whether it took the lease.
    ///
    /// # Errors
    ///
    /// kazoo failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the lease may be taken. Drop it.
    pub async fn take(&mut self, command: &str) -> anyhow::Result<bool> {
        self.0.tell(command).await?;
        let line = self.0.line("taken", MAX_WAIT).await?;
        let taken = line.strip_prefix("taken ");
        let taken = taken.with_context(|| format!("kazoo said {line:?}"))?;
        Ok(taken == "True")
    }
}

const PROGRAM: &str = include_str!("../../python/lease_peer.py");
