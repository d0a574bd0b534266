//! Another client's read/write lock in its own process, step by step.

use std::time::Duration;

use super::contender::PeerContender;
use super::curator::Curator;
use super::kazoo::Kazoo;
use super::run::QUICK;

/// A process that contends for a read/write lock with the recipe of another client.
///
/// It is a [`PeerContender`] with two sides; what is said there of errors, moments and dropping holds here.
#[derive(Debug)]
pub struct PeerRwLock {
    contender: PeerContender,
}

/// A side of a read/write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Side {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

impl PeerRwLock {
    /// Starts a process that contends on `path` with Curator's `InterProcessReadWriteLock`.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or there is no session after 30 s.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn curator(curator: &Curator, connect: &str, path: &str) -> anyhow::Result<Self> {
        let mut program = curator.program(&QUICK, "RwContender")?;
        let contender = PeerContender::start(&mut program, connect, path).await?;
        Ok(Self { contender })
    }

    /// Starts a process that contends on `path` with kazoo's `ReadLock` and `WriteLock`.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no session after 30 s.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn kazoo(kazoo: &Kazoo, connect: &str, path: &str) -> anyhow::Result<Self> {
        let mut program = kazoo.program();
        let contender = PeerContender::start(&mut program, connect, path).await?;
        Ok(Self { contender })
    }

    /// Starts a process that contends on `path` as HBase's `ZKInterProcessReadWriteLock` does.
    ///
    /// It is no HBase: it makes the same requests, with the same names and data.
    ///
    /// # Errors
    ///
    /// Python cannot be started, or there is no session after 30 s.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn hbase(kazoo: &Kazoo, connect: &str, path: &str) -> anyhow::Result<Self> {
        let mut program = kazoo.hbase_program();
        let contender = PeerContender::start(&mut program, connect, path).await?;
        Ok(Self { contender })
    }

    /// Returns the id of its session.
    pub fn session_id(&self) -> i64 {
        self.contender.session_id()
    }

    /// Acquires a side and returns when it was held, or gives up after `within`, which is no error.
    ///
    /// # Errors
    ///
    /// The peer failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn acquire(
        &mut self,
        side: Side,
        within: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        let command = format!("acquire {} {}", side.word(), within.as_millis());
        self.contender.acquire_by(&command, within).await
    }

    /// Releases a side and returns when it was last held.
    ///
    /// # Errors
    ///
    /// The peer failed, for instance because it does not hold that side, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn release(&mut self, side: Side) -> anyhow::Result<Duration> {
        self.contender
            .release_by(&format!("release {}", side.word()))
            .await
    }

    /// Ends the session, and with it all it holds, and waits until the process is gone.
    ///
    /// # Errors
    ///
    /// The process failed or has not ended after 30 s.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session may end later.
    pub async fn quit(self) -> anyhow::Result<()> {
        self.contender.quit().await
    }
}

impl Side {
    fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}
