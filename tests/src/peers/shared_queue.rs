//! Consumers and producers of other clients whose queues keep an item until it is processed, in their own processes.

use std::time::Duration;

use anyhow::Context as _;

use super::curator::Curator;
use super::dialogue::{Dialogue, MAX_WAIT};
use super::kazoo::Kazoo;
use super::run::QUICK;

/// A queue of another client, used on command.
///
/// # Dropping
///
/// The process is killed; its claims end when its session expires.
#[derive(Debug)]
pub struct SharedQueuePeer(Dialogue);

/// One of Curator's queues with a lock path, and what is done with it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum SharedCuratorQueue {
    /// Puts items into a `DistributedQueue`.
    Put,
    /// Takes items from a `DistributedQueue`.
    Take,
    /// Puts items into a `DistributedIdQueue`, and removes them.
    PutWithIds,
    /// Takes items from a `DistributedIdQueue`.
    TakeWithIds,
}

impl SharedCuratorQueue {
    const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Put => ["plain", "put"],
            Self::Take => ["plain", "take"],
            Self::PutWithIds => ["id", "put"],
            Self::TakeWithIds => ["id", "take"],
        }
    }
}

impl SharedQueuePeer {
    /// Starts a program that uses one of Curator's queues, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn curator(
        curator: &Curator,
        connect: &str,
        session_timeout: Duration,
        (path, lock_path): (&str, &str),
        queue: SharedCuratorQueue,
    ) -> anyhow::Result<Self> {
        let mut command = curator.program(&QUICK, "SharedQueuePeer")?;
        let timeout = session_timeout.as_millis().to_string();
        command.args([connect, &timeout, path, lock_path]);
        command.args(queue.words());
        let mut peer = Self(Dialogue::start(&mut command)?);
        peer.says("ready").await?;
        Ok(peer)
    }

    /// Starts a program that uses kazoo's `LockingQueue`, and waits until it is connected.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no connection.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn kazoo(
        kazoo: &Kazoo,
        connect: &str,
        session_timeout: Duration,
        path: &str,
    ) -> anyhow::Result<Self> {
        let mut command = kazoo.script(LOCKING_QUEUE);
        let timeout = session_timeout.as_secs().to_string();
        command.args([connect, &timeout, path]);
        let mut peer = Self(Dialogue::start(&mut command)?);
        peer.says("ready").await?;
        Ok(peer)
    }

    /// Gives it a command that it does not answer.
    ///
    /// # Errors
    ///
    /// The process is gone.
    ///
    /// # Cancel safety
    ///
    /// Not safe: a part of the command may have been sent. Drop it.
    pub async fn tell(&mut self, command: &str) -> anyhow::Result<()> {
        self.0.tell(command).await
    }

    /// Gives it a command, and returns what it says after the expected answer.
    ///
    /// # Errors
    ///
    /// The client failed, or does not reply, or has another answer.
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
        let rest = rest.with_context(|| format!("it said {line:?} instead of {answer}"))?;
        Ok(rest.to_owned())
    }
}

const LOCKING_QUEUE: &str = include_str!("../../python/locking_queue_peer.py");
