//! Removing contenders that should not be there any more.

use std::time::Duration;
use std::time::SystemTime;

use zk_core::Changed;
use zk_core::CreateMode;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::Session;

use crate::conditional_delete::Removal;
use crate::conditional_delete::delete_exactly;
use crate::contender::Contender;
use crate::inspect::Inspector;

/// Which contenders are to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "all of them, or a part by age")]
pub enum Reap {
    /// All that are there at the first look.
    All,
    /// Those that joined the queue longer ago than this, by the clock of the ensemble's leader.
    OlderThan(Duration),
}

/// Not all contenders that were to be removed could be.
#[derive(Debug, Clone, thiserror::Error)]
#[error("stopped after {} contenders had been removed", reaped.len())]
#[non_exhaustive]
pub struct ReapError {
    /// Those that were removed before, last come first.
    pub reaped: Vec<Contender>,
    /// Why it stopped.
    pub source: Error,
}

impl ReapError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        self.source.class()
    }
}

impl Inspector {
    /// Lists which contenders [`reap`](Self::reap) would remove, first come first, and removes none.
    ///
    /// The age of a node is measured by the clock that dated it: that of the ensemble's leader now, which is asked for by
    /// a transaction below the path of the lock that makes a node and deletes it in one step.
    /// Should another leader with another clock have dated the node, the age is wrong by the difference of the two.
    ///
    /// # Errors
    ///
    /// When the nodes cannot be read, or no node could be made to learn the time.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// A fatal error.
    ///
    /// # Cost
    ///
    /// That of [`look`](Self::look), and for an age one write.
    pub async fn reapable(&self, which: Reap) -> Result<Vec<Contender>, Error> {
        // The time first: whoever joins after it is younger than nothing.
        let before = match which {
            Reap::All => None,
            Reap::OlderThan(age) => match now(self.session(), self.path()).await? {
                // Before all times, nobody has joined.
                Some(now) => Some(now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)),
                None => return Ok(Vec::new()),
            },
        };
        self.session().sync(self.path()).await?;
        let mut found = self.queue.contenders().await?;
        found.retain(|contender| before.is_none_or(|before| contender.since() < before));
        Ok(found)
    }

    /// Removes contenders whoever they belong to, and answers which, last come first.
    ///
    /// Each of them is removed as [`remove`](Self::remove) does it: exactly the node that was seen; one that takes its
    /// place meanwhile stays. Children that are no contenders are not touched, and neither is the path.
    ///
    /// The last one in line goes first and the holder last, so that nobody is granted the lock only to lose it.
    /// A holder that is alive is told [`Loss::NodeDeleted`](crate::Loss::NodeDeleted), a waiter
    /// [`AcquireError::NodeLost`](crate::AcquireError::NodeLost).
    ///
    /// The nodes of a session vanish with it, so there should be nothing to reap; it is of use for nodes of other
    /// clients that are not ephemeral, and for a process that lives and will not let go.
    /// [`reapable`](Self::reapable) tells beforehand what would go.
    ///
    /// # Errors
    ///
    /// [`ReapError`], which has those that were removed before. Doing it again is safe.
    ///
    /// # Cancel safety
    ///
    /// Not safe: some are removed and others are not. Doing it again is safe.
    ///
    /// # Session loss
    ///
    /// A fatal error.
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
            let czxid = contender.token().as_u64().cast_signed();
            let path = self.path_of(&contender);
            match delete_exactly(self.session(), &path, czxid).await? {
                Removal::Deleted => {
                    tracing::info!(%path, %contender, "a contender was removed");
                    reaped.push(contender);
                }
                Removal::Gone => {}
            }
        }
        Ok(())
    }
}

/// Returns what time it is for the ensemble's leader; `None` if there is no node at `parent`.
///
/// A transaction is carried out at one moment, so that nobody sees the node that it makes.
async fn now(session: &Session, parent: &NodePath) -> Result<Option<SystemTime>, Error> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let path = parent.join(&format!("_now_{}", session.id()));
        let path = path.expect("a session id is a part of a name");
        let mode = CreateMode::Ephemeral { sequential: false };
        let asked = session
            .transaction()
            .create_as(&path, "", mode, None)
            // Servers before 3.8.1 tell the stat of what was written only.
            .set(&path, "")
            .delete(&path);
        match asked.commit().await {
            Ok(changed) => {
                let times = changed.into_iter().filter_map(|changed| match changed {
                    Changed::Set(stat) => Some(stat.mtime),
                    _ => None,
                });
                return Ok(times.max());
            }
            Err(error) if error.is_no_node() => return Ok(None),
            // Nothing is left of it, whatever became of it.
            Err(error) if error.class() == ErrorClass::Recoverable && attempts < MOST_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// How often the leader is asked for the time while answers are lost.
const MOST_ATTEMPTS: u32 = 5;
