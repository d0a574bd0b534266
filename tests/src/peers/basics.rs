//! What every client does, by other clients in their own processes.

use std::time::Duration;

use anyhow::ensure;

use super::curator::Curator;
use super::kazoo::Kazoo;
use super::run::{self, QUICK};

impl Kazoo {
    /// Creates, reads, writes, watches, lists, commits transactions and takes kazoo's `Lock`, and checks each result.
    ///
    /// # Errors
    ///
    /// A result was wrong, or kazoo was not done within a minute.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its sessions end after their timeout.
    pub async fn basics(&self, connect: &str) -> anyhow::Result<()> {
        let mut command = self.basics_program();
        command.arg(connect);
        is_done(&run::output(&mut command, "kazoo", MAX_WAIT).await?)
    }
}

impl Curator {
    /// Does the same with ZooKeeper's own Java client, without the lock.
    ///
    /// # Errors
    ///
    /// A result was wrong, or the client was not done within a minute.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its sessions end after their timeout.
    pub async fn basics(&self, connect: &str) -> anyhow::Result<()> {
        let mut command = self.program(&QUICK, "Basics")?;
        command.arg(connect);
        is_done(&run::output(&mut command, "ZooKeeper's client", MAX_WAIT).await?)
    }
}

fn is_done(printed: &str) -> anyhow::Result<()> {
    ensure!(printed.trim() == "done", "not understood: {printed}");
    Ok(())
}

const MAX_WAIT: Duration = Duration::from_secs(60);
