//! Removes contenders by age, or all of them.

use std::time::{Duration, SystemTime};

use zk_core::{CreateMode, Error, ErrorClass, MultiResult, NodePath, Session};

use crate::conditional_delete::Removal;
use crate::contender::Contender;
use crate::inspect::Inspector;

/// Which contenders to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all of them, or some by age")]
pub enum Reap {
    /// All contenders when the queue is first read.
    All,
    /// Contenders that joined the queue longer ago than this, by the clock of the ensemble's leader.
    OlderThan(Duration),
}

/// Not all matching contenders could be removed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stopped after {} contenders had been removed", reaped.len())]
#[non_exhaustive]
pub struct ReapError {
    /// The contenders removed before, in reverse order of arrival.
    pub reaped: Vec<Contender>,
    /// The error that ended it.
    pub source: Error,
}

impl ReapError {
    /// Returns the class of the error: what a caller can do about it.
    pub fn class(&self) -> ErrorClass {
        self.source.class()
    }
}

impl Inspector {
    /// Lists the contenders that [`reap`](Self::reap) would remove, in order of arrival, without removing them.
    ///
    /// Ages are measured by the current clock of the ensemble's leader. It is read by a transaction that creates a node
    /// below the path of the lock and deletes it in one step.
    /// If another leader with another clock dated a node, its age is wrong by the difference of the two clocks.
    ///
    /// # Errors
    ///
    /// If the nodes cannot be read, or no node could be created to read the clock.
    ///
    /// # Cost
    ///
    /// That of [`snapshot`](Self::snapshot), and one write for an age.
    pub async fn reapable(&self, which: Reap) -> Result<Vec<Contender>, Error> {
        // The clock is read first: a contender that joins later is not older than any age.
        let before = match which {
            Reap::All => None,
            Reap::OlderThan(age) => match leader_time(self.session(), self.path()).await? {
                // No contender joined before the epoch.
                Some(now) => Some(now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)),
                None => return Ok(Vec::new()),
            },
        };
        self.session().sync(self.path()).await?;
        let mut found = self.queue.contenders().await?;
        found.retain(|contender| before.is_none_or(|before| contender.since() < before));
        Ok(found)
    }

    /// Removes contenders of any owner and returns the removed ones, in reverse order of arrival.
    ///
    /// Each is removed as by [`remove`](Self::remove): exactly the node that was read. A node that replaces it stays.
    /// Foreign children and the path itself are not touched.
    ///
    /// The last contender goes first and the holder last, so that no waiter is granted the lock only to lose it.
    /// A live holder is notified with [`LockLoss::NodeDeleted`](crate::LockLoss::NodeDeleted), a waiter fails with
    /// [`AcquireError::NodeDeleted`](crate::AcquireError::NodeDeleted).
    ///
    /// The ensemble deletes the nodes of expired sessions by itself. Reaping is for nodes of other clients that are not
    /// ephemeral, and for processes that are alive and do not release.
    /// [`reapable`](Self::reapable) lists beforehand what would be removed.
    ///
    /// # Errors
    ///
    /// [`ReapError`], which lists the contenders removed before. It is safe to call this again.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: some contenders may be removed and others not. It is safe to call this again.
    ///
    /// # Cost
    ///
    /// That of [`reapable`](Self::reapable), and three round trips for each contender that is removed.
    pub async fn reap(&self, which: Reap) -> Result<Vec<Contender>, ReapError> {
        let mut reaped = Vec::new();
        match self.reap_into(which, &mut reaped).await {
            Ok(()) => Ok(reaped),
            Err(source) => Err(ReapError { reaped, source }),
        }
    }

    async fn reap_into(&self, which: Reap, reaped: &mut Vec<Contender>) -> Result<(), Error> {
        let found = self.reapable(which).await?;
        for contender in found.into_iter().rev() {
            match self.remove(&contender).await? {
                Removal::Deleted => {
                    tracing::info!(path = %self.path(), %contender, "contender removed");
                    reaped.push(contender);
                }
                Removal::Gone => {}
            }
        }
        Ok(())
    }
}

/// Returns the leader's time; `None` if there is no node at `parent`.
///
/// The transaction is atomic, so its node is never visible.
async fn leader_time(session: &Session, parent: &NodePath) -> Result<Option<SystemTime>, Error> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let path = parent.join(&format!("_now_{}", session.id()));
        let path = path.expect("a session id is a part of a name");
        let mode = CreateMode::Ephemeral;
        let asked = session
            .transaction()
            .create_as(&path, "", mode, None)
            // Servers before 3.8.1 return a `Stat` only for writes of data.
            .set(&path, "")
            .delete(&path);
        match asked.commit().await {
            Ok(changed) => {
                let times = changed.into_iter().filter_map(|changed| match changed {
                    MultiResult::Set(stat) => Some(stat.mtime),
                    _ => None,
                });
                return Ok(times.max());
            }
            Err(error) if error.is_no_node() => return Ok(None),
            // The transaction leaves no node, whether it was executed or not.
            Err(error) if error.class() == ErrorClass::Recoverable && attempts < MAX_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// How often the leader's clock is read while replies are lost.
const MAX_ATTEMPTS: u32 = 5;
