//! Deletes old results, in one process at a time.
//!
//! It is a job for a timer on every machine: the first process acquires the lock and deletes, and the others see that
//! it is held. A process that was paused and lost the lock deletes nothing more: each deletion is in a transaction that
//! checks the lock.

use std::borrow::Cow;

use futures_util::{StreamExt as _, stream};
use zk_core::{ErrorClass, Session};
use zk_lock::FairLock;

use crate::status::names;
use crate::tree::{TaskId, Tree};

/// The outcome of pruning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pruned {
    /// The number of deleted results.
    Deleted(usize),
    /// Another process is pruning.
    Busy {
        /// The owner text of the lock holder.
        holder: String,
    },
}

/// Deletes all results except those of the newest `keep` tasks, unless another process is pruning.
///
/// # Errors
///
/// If the lock cannot be acquired or is lost, or a request fails. Completed deletions stay.
///
/// # Cancel safety
///
/// Safe: the lock is released in the background; deletions in flight may be applied.
pub async fn prune(session: &Session, tree: &Tree, keep: usize) -> anyhow::Result<Pruned> {
    let lock = FairLock::new(session, &tree.prune_lock)?;
    let Some(guard) = lock.try_acquire().await? else {
        let contenders = lock.inspector().contenders().await?;
        let holder = contenders.first().map(|first| first.owner_text());
        return Ok(Pruned::Busy {
            // The holder may have just finished.
            holder: holder.map_or_else(|| "somebody".to_owned(), Cow::into_owned),
        });
    };
    let results = names(session, &tree.done).await?;
    let mut tasks: Vec<TaskId> = results.iter().filter_map(|it| it.parse().ok()).collect();
    tasks.sort_unstable();
    tasks.truncate(tasks.len().saturating_sub(keep));
    let batches: Vec<&[TaskId]> = tasks.chunks(BATCH).collect();
    let mut deletions = stream::iter(batches)
        .map(|batch| {
            let delete = batch.iter().fold(guard.txn(), |transaction, task| {
                transaction.delete(tree.result(*task))
            });
            async move { (delete.commit().await, batch.len()) }
        })
        .buffered(IN_FLIGHT);
    let mut deleted = 0;
    while let Some((committed, count)) = deletions.next().await {
        match committed {
            Ok(_) => deleted += count,
            // The next pruning deletes the rest.
            Err(error) if error.class() == ErrorClass::Recoverable => {}
            Err(error) => return Err(error.into()),
        }
    }
    drop(deletions);
    guard.release().await?;
    Ok(Pruned::Deleted(deleted))
}

/// The number of deletions per transaction.
const BATCH: usize = 100;
const IN_FLIGHT: usize = 4;
