//! The queues of other clients, in their own processes.

use std::time::Duration;

use anyhow::Context as _;
use serde::Deserialize;

use super::curator::Curator;
use super::kazoo::Kazoo;
use super::run;

/// One of Curator's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CuratorQueue {
    /// `SimpleDistributedQueue`.
    Simple,
    /// `DistributedQueue`, without a lock path.
    Distributed,
    /// `DistributedPriorityQueue`; the item with the highest number comes first.
    Priority,
}

/// The operations on a queue, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueueAct {
    /// The numbers from 0 on are put in, as text, one after the other.
    Offer(u32),
    /// The same, all in one node; only with [`CuratorQueue::Distributed`].
    OfferTogether(u32),
    /// This number of items is taken, or all if there are fewer.
    Take(u32),
}

/// The result of the operations.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct QueueRun {
    /// How long it took.
    pub seconds: f64,
    /// How many items were put in or taken.
    pub operations: u64,
    /// The median latency; zero if unknown.
    pub p50_micros: f64,
    /// The 99th percentile of the latency.
    pub p99_micros: f64,
    /// The taken items.
    pub items: Vec<String>,
}

impl QueueAct {
    fn words(self) -> [String; 2] {
        let (what, count) = match self {
            Self::Offer(count) => ("offer", count),
            Self::OfferTogether(count) => ("multi", count),
            Self::Take(count) => ("take", count),
        };
        [what.to_owned(), count.to_string()]
    }
}

impl QueueRun {
    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "it is a figure for people")]
        let operations = self.operations as f64;
        operations / self.seconds
    }

    fn parse(printed: &str) -> anyhow::Result<Self> {
        serde_json::from_str(printed).with_context(|| format!("not understood: {printed}"))
    }
}

impl Curator {
    /// Does something with one of Curator's queues, in a Java process.
    ///
    /// # Errors
    ///
    /// Curator failed, or was not done within five minutes.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session ends after its timeout.
    pub async fn queue(
        &self,
        connect: &str,
        path: &str,
        queue: CuratorQueue,
        act: QueueAct,
    ) -> anyhow::Result<QueueRun> {
        let kind = match queue {
            CuratorQueue::Simple => "simple",
            CuratorQueue::Distributed => "distributed",
            CuratorQueue::Priority => "priority",
        };
        let mut command = self.program(&[], "QueuePeer")?;
        command.args([connect, path, kind]).args(act.words());
        QueueRun::parse(&run::output(&mut command, "Curator's queue", MAX_WAIT).await?)
    }
}

impl Kazoo {
    /// Does something with kazoo's `Queue`, in a Python process.
    ///
    /// # Errors
    ///
    /// kazoo failed, or was not done within five minutes.
    ///
    /// # Cancel safety
    ///
    /// The process is killed; its session ends after its timeout.
    pub async fn queue(
        &self,
        connect: &str,
        path: &str,
        act: QueueAct,
    ) -> anyhow::Result<QueueRun> {
        let mut command = self.queue_program();
        command.args([connect, path]).args(act.words());
        QueueRun::parse(&run::output(&mut command, "kazoo's queue", MAX_WAIT).await?)
    }
}

const MAX_WAIT: Duration = Duration::from_secs(300);
