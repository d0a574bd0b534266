//! Barriers and double barriers of other clients, used on command.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::curator::Curator;
use super::dialogue::{Dialogue, MAX_WAIT};
use super::kazoo::Kazoo;
use super::run::{self, QUICK};

/// A process that uses Curator's `DistributedBarrier` and `DistributedDoubleBarrier`, or kazoo's `Barrier` and
/// `DoubleBarrier`.
///
/// # Dropping
///
/// The process is killed; its members go when its session expires.
#[derive(Debug)]
pub struct BarrierPeer(Dialogue);

/// Where the barriers of a [`BarrierPeer`] are, and how many members the double barrier has.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "the arguments of a test")]
pub struct BarrierPaths<'a> {
    /// The path of the barrier.
    pub barrier: &'a str,
    /// The path of the double barrier.
    pub double_barrier: &'a str,
    /// The members of the double barrier.
    pub members: u32,
}

/// What a [`BarrierPeer`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the commands of the programs")]
pub enum BarrierAct {
    /// Sets the barrier.
    Set,
    /// Removes the barrier.
    Remove,
    /// Waits for the barrier.
    Wait,
    /// Enters the double barrier.
    Enter,
    /// Leaves the double barrier.
    Leave,
}

impl BarrierPeer {
    /// Starts a process with Curator, and waits until it is connected.
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
        paths: BarrierPaths<'_>,
    ) -> anyhow::Result<Self> {
        let mut command = curator.program(&QUICK, "BarrierPeer")?;
        Self::start(command.arg(connect).args(paths.words())).await
    }

    /// Starts a process with kazoo, and waits until it is connected.
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
        paths: BarrierPaths<'_>,
    ) -> anyhow::Result<Self> {
        let mut command = kazoo.barrier_program();
        Self::start(command.arg(connect).args(paths.words())).await
    }

    async fn start(command: &mut tokio::process::Command) -> anyhow::Result<Self> {
        let mut peer = Self(Dialogue::start(command)?);
        peer.says("ready").await?;
        Ok(peer)
    }

    /// Begins to do something; [`has_done`](Self::has_done) waits for it.
    ///
    /// # Errors
    ///
    /// The process does not take the command.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn begin(&mut self, act: BarrierAct) -> anyhow::Result<()> {
        self.0.tell(act.words().0).await
    }

    /// Waits until it has done this.
    ///
    /// # Errors
    ///
    /// It failed, or was not done within half a minute.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the answer may be lost. Drop it.
    pub async fn has_done(&mut self, act: BarrierAct) -> anyhow::Result<()> {
        self.says(act.words().1).await
    }

    /// Does something.
    ///
    /// # Errors
    ///
    /// Those of [`begin`](Self::begin) and [`has_done`](Self::has_done).
    ///
    /// # Cancel safety
    ///
    /// Not safe: the process continues. Drop it.
    pub async fn does(&mut self, act: BarrierAct) -> anyhow::Result<()> {
        self.begin(act).await?;
        self.has_done(act).await
    }

    async fn says(&mut self, answer: &str) -> anyhow::Result<()> {
        let line = self.0.line(answer, MAX_WAIT).await?;
        ensure!(
            line.starts_with(answer),
            "the peer said {line:?} instead of {answer:?}"
        );
        Ok(())
    }
}

impl Curator {
    /// Lets `clients` clients enter and leave `barriers` double barriers, one after the other, in a Java process.
    /// Returns the enters and leaves per second.
    ///
    /// Each barrier has a path of its own below `path`.
    ///
    /// # Errors
    ///
    /// Curator failed, or was not done within an hour.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its sessions end after their timeout.
    pub async fn measure_double_barriers(
        &self,
        connect: &str,
        path: &str,
        clients: u32,
        barriers: u32,
    ) -> anyhow::Result<f64> {
        let mut command = self.program(&[], "BarrierBench")?;
        command.args([connect, path, &clients.to_string(), &barriers.to_string()]);
        let printed = run::output(&mut command, "Curator's double barriers", LIMIT).await?;
        let seconds = printed.trim().parse::<f64>();
        let seconds = seconds.with_context(|| format!("not understood: {printed}"))?;
        Ok(f64::from(2 * clients * barriers) / seconds)
    }
}

impl BarrierPaths<'_> {
    fn words(self) -> [String; 3] {
        [
            self.barrier.to_owned(),
            self.double_barrier.to_owned(),
            self.members.to_string(),
        ]
    }
}

impl BarrierAct {
    /// Returns the command and its answer.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Set => ("set", "set"),
            Self::Remove => ("remove", "removed"),
            Self::Wait => ("wait", "passed"),
            Self::Enter => ("enter", "entered"),
            Self::Leave => ("leave", "left"),
        }
    }
}

/// Its clients may wait for each other for ever.
const LIMIT: Duration = Duration::from_secs(600);
