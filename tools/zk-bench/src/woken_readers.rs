//! The readers of a read-write lock that wait for one writer: what its release costs the server.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_core::Session;
use zk_lock::{ReadGuard, RwLock, WriteGuard};

use crate::fixture::open;

/// A lock that a writer holds, and readers on sessions of their own.
#[derive(Debug)]
pub(crate) struct WaitingReaders {
    writer: RwLock,
    readers: Vec<RwLock>,
}

/// A writer that holds the lock, and the acquires of the readers that wait for it.
pub(crate) struct Queued {
    guard: WriteGuard,
    acquires: JoinSet<anyhow::Result<ReadGuard>>,
}

impl WaitingReaders {
    /// Opens the sessions with one server.
    pub(crate) async fn open(server: String, path: String, readers: usize) -> anyhow::Result<Self> {
        let handle = async || anyhow::Ok(RwLock::new(&open(&server).await?, path.as_str())?);
        let writer = handle().await?;
        let mut all = Vec::with_capacity(readers);
        for _ in 0..readers {
            all.push(handle().await?);
        }
        Ok(Self {
            writer,
            readers: all,
        })
    }

    /// Returns the number of readers.
    pub(crate) fn len(&self) -> usize {
        self.readers.len()
    }

    /// Lets the writer acquire the lock, and waits until all readers are in the queue and watch.
    pub(crate) async fn queue(&self) -> anyhow::Result<Queued> {
        let guard = self.writer.writer().acquire().await?;
        let mut acquires = JoinSet::new();
        for reader in &self.readers {
            let reader = reader.clone();
            acquires.spawn(async move {
                let acquired = reader.reader().acquire().await;
                acquired.context("a reader cannot acquire")
            });
        }
        wait_for_contenders(&self.writer, self.readers.len() + 1).await?;
        for reader in &self.readers {
            settle(reader.session(), &self.writer).await?;
        }
        Ok(Queued { guard, acquires })
    }
}

impl Queued {
    /// Releases the writer's lock, and waits until all readers hold it.
    pub(crate) async fn wake(mut self) -> anyhow::Result<Vec<ReadGuard>> {
        ensure!(
            self.acquires.try_join_next().is_none(),
            "the lock is broken: a reader acquired it while the writer holds it"
        );
        self.guard.release().await.context("cannot release")?;
        let mut guards = Vec::new();
        while let Some(acquired) = self.acquires.join_next().await {
            guards.push(acquired.context("a reader panicked")??);
        }
        Ok(guards)
    }
}

/// Releases the locks of the readers.
pub(crate) async fn release(guards: Vec<ReadGuard>) -> anyhow::Result<()> {
    for guard in guards {
        guard.release().await.context("cannot release")?;
    }
    Ok(())
}

async fn wait_for_contenders(lock: &RwLock, expected: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + QUEUEING;
    loop {
        let (names, _) = lock.session().list(lock.path().clone()).await?;
        if names.len() == expected {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "the readers did not join the queue within {QUEUEING:?}: the lock has {} contenders, not {expected}",
            names.len()
        );
    }
}

/// Waits for more round trips than a waiter needs for its watch, on its session.
async fn settle(session: &Session, lock: &RwLock) -> anyhow::Result<()> {
    for _ in 0..ROUND_TRIPS {
        session.sync(lock.path().clone()).await?;
    }
    Ok(())
}

/// The time limit for joining the queue.
const QUEUEING: Duration = Duration::from_secs(20);

/// A waiter needs one round trip for its watch.
const ROUND_TRIPS: u32 = 3;
