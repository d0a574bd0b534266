//! Curator's semaphore in its own process.

use std::time::Duration;

use anyhow::bail;

use super::contender::Answer;
use super::contender::PeerContender;
use super::curator::Curator;
use super::dialogue::MAX_WAIT;
use super::run::QUICK;

/// A process that takes leases of Curator's `InterProcessSemaphoreV2`, step by step.
///
/// As of [`PeerContender`], moments are those of [`monotonic`](super::monotonic), and each method gives one command.
/// An error that the peer gave is an answer, after which the next command can be given.
///
/// # Dropping
///
/// That of [`PeerContender`].
#[derive(Debug)]
pub struct PeerSemaphore(PeerContender);

impl PeerSemaphore {
    /// Starts a process for the semaphore at `path` that goes by the given limit, and waits until it has a session.
    ///
    /// # Errors
    ///
    /// Java cannot be started, or there is no session after 30 s.
    ///
    /// # Cancel safety
    ///
    /// Safe: the process is killed.
    pub async fn curator(
        curator: &Curator,
        connect: &str,
        path: &str,
        limit: u32,
    ) -> anyhow::Result<Self> {
        let mut command = curator.program(&QUICK, "SemaphoreContender")?;
        command.arg(limit.to_string());
        let contender = PeerContender::start(&mut command, connect, path).await?;
        Ok(Self(contender))
    }

    /// Asks for the session that it has now: after the end of one, Curator opens another.
    ///
    /// # Errors
    ///
    /// The peer failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn session_id(&mut self) -> anyhow::Result<i64> {
        self.0.tell("session").await?;
        match self.0.answer("its session", MAX_WAIT).await? {
            Answer::Ready(session) => Ok(session),
            other => bail!("a contender that was asked for its session said {other}"),
        }
    }

    /// Acquires so many leases and returns when they were held, or gives up after `within`, which is no error.
    ///
    /// # Errors
    ///
    /// The peer failed, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn acquire(
        &mut self,
        count: u32,
        within: Duration,
    ) -> anyhow::Result<Option<Duration>> {
        let command = format!("acquire {} {count}", within.as_millis());
        self.0.tell(&command).await?;
        match self.0.answer("the leases", within + MAX_WAIT).await? {
            Answer::Acquired(at) => Ok(Some(at)),
            Answer::TimedOut => Ok(None),
            other => bail!("a contender that acquires said {other}"),
        }
    }

    /// Gives the leases back and returns when they were last held.
    ///
    /// # Errors
    ///
    /// The peer failed, for instance because this contender holds no lease, or does not reply.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop the contender.
    pub async fn release(&mut self) -> anyhow::Result<Duration> {
        self.0.release().await
    }

    /// Ends the session, and with it the leases that are held, and waits until the process is gone.
    ///
    /// # Errors
    ///
    /// The process failed or has not ended after 30 s.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session may end later.
    pub async fn quit(self) -> anyhow::Result<()> {
        self.0.quit().await
    }
}
