//! Clearing away old results, by one process at a time.
//!
//! It is a job for a timer on every machine: whoever comes first does it, and the others see that it is being done.
//! That is what a lock is for. One that is lost in the middle of it, because the process was stopped for too long, deletes
//! nothing more: each deletion is in a transaction that checks the lock.

use std::borrow::Cow;

use futures_util::StreamExt as _;
use futures_util::stream;
use zk_core::ErrorClass;
use zk_core::Session;
use zk_lock::FairLock;

use crate::status::names;
use crate::tree::TaskId;
use crate::tree::Tree;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pruned {
    /// So many results were deleted.
    Deleted(usize),
    /// Somebody else is at it.
    Busy {
        /// What that one says of itself.
        holder: String,
    },
}

/// Deletes all results but those of the newest tasks, unless somebody else does.
///
/// # Errors
///
/// When the lock cannot be had or is lost, and when a request failed; what was deleted is deleted.
///
/// # Cancel safety
///
/// Safe: the lock is released in the background, and what is on its way may be deleted.
///
/// # Session loss
///
/// An error.
pub async fn prune(session: &Session, tree: &Tree, keep: usize) -> anyhow::Result<Pruned> {
    let lock = FairLock::new(session, tree.prune_lock())?;
    let Some(guard) = lock.try_acquire().await? else {
        let contenders = lock.contenders().await?;
        let holder = contenders.first().map(|first| first.owner_text());
        return Ok(Pruned::Busy {
            // It may have just finished.
            holder: holder.map_or_else(|| "somebody".to_owned(), Cow::into_owned),
        });
    };
    let results = names(session, &tree.done()).await?;
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
            // The next one who prunes sees what is left.
            Err(error) if error.class() == ErrorClass::Recoverable => {}
            Err(error) => return Err(error.into()),
        }
    }
    drop(deletions);
    guard.release().await?;
    Ok(Pruned::Deleted(deleted))
}

/// How many results go in one transaction.
const BATCH: usize = 100;
const IN_FLIGHT: usize = 4;
