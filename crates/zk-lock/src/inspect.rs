//! Inspects a lock from outside: its holders, its waiters, and their removal.

use std::collections::HashMap;
use std::sync::Arc;

use zk_core::{Error, IntoNodePath, NodePath, ParsePathError, Session};

use crate::conditional_delete::{Removal, delete_if_created_by};
use crate::contender::Contender;
use crate::layout::{Kind, Layout};
use crate::options::LockOptions;
use crate::queue::Queue;
use crate::revoke::Revoke;

/// A handle to inspect a lock of any kind, except a [`RaceLock`](crate::RaceLock), whose only node is its path.
///
/// It may also be a lock of another client with a known [`Layout`].
///
/// It never joins the queue.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_lock::Inspector;
///
/// let snapshot = Inspector::new(&session, "/locks/nightly")?.snapshot().await?;
/// for status in snapshot.contenders() {
///     println!("{:?} {}", status.role(), status.contender());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inspector {
    pub(crate) queue: Queue,
}

/// The contenders of a lock at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSnapshot {
    statuses: Vec<ContenderStatus>,
    foreign_children: Vec<String>,
    exists: bool,
}

/// A contender with its role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContenderStatus {
    contender: Contender,
    role: Role,
}

/// Whether a contender holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third role")]
pub enum Role {
    /// It is first in the queue, or shares the lock with the first one.
    Holder,
    /// It waits for others.
    Waiter,
}

impl Inspector {
    /// Creates a handle to the lock at `path`, with Curator's layout, which includes kazoo's nodes.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, ParsePathError> {
        Self::with_layout(session, path, Layout::default())
    }

    /// Creates a handle to the lock at `path`, with the given layout.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path.
    pub fn with_layout(
        session: &Session,
        path: impl IntoNodePath,
        layout: Layout,
    ) -> Result<Self, ParsePathError> {
        let path = path.into_node_path()?;
        let options = Arc::new(LockOptions::default().with_layout(layout));
        let queue = Queue::new(session, path, layout.mutex(), options)?;
        Ok(Self { queue })
    }

    pub(crate) fn of(queue: &Queue) -> Self {
        Self {
            queue: queue.clone(),
        }
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &NodePath {
        &self.queue.path
    }

    /// Returns the session whose ensemble keeps the lock.
    pub fn session(&self) -> &Session {
        &self.queue.session
    }

    /// Reads the contenders in order of arrival, and the names of other children.
    ///
    /// The result may be outdated: after a `sync`, the list is read first, then each node. Contenders that leave
    /// meanwhile are left out.
    /// A holder is a contender that waits for no other. It may not know yet that it is granted the lock, and its
    /// session may be about to expire.
    ///
    /// # Errors
    ///
    /// If the path or one of the nodes cannot be read. A missing path is no error.
    ///
    /// # Cost
    ///
    /// Three round trips, and one for every 64 contenders.
    pub async fn snapshot(&self) -> Result<LockSnapshot, Error> {
        let Queue { session, path, .. } = &self.queue;
        session.sync(path).await?;
        // Listed first, so that the contenders are at least as recent.
        let names = match session.list(path).await {
            Ok((names, _)) => Some(names),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error),
        };
        let contenders = if names.is_some() {
            self.queue.contenders().await?
        } else {
            Vec::new()
        };
        let exists = names.is_some();
        let layout = self.queue.layout();
        // Contenders ahead can only leave, and new ones join at the end: the first contender read was first then.
        let kinds = kinds(&contenders, layout);
        let holders = holders(&kinds);
        let statuses = contenders.into_iter().enumerate();
        let statuses = statuses
            .map(|(at, contender)| ContenderStatus {
                contender,
                role: if at < holders {
                    Role::Holder
                } else {
                    Role::Waiter
                },
            })
            .collect();
        let mut foreign_children = names.unwrap_or_default();
        foreign_children.retain(|name| layout.sequence_of(name).is_none());
        foreign_children.sort_unstable();
        Ok(LockSnapshot {
            statuses,
            foreign_children,
            exists,
        })
    }

    /// Lists the contenders in order of arrival: the first one holds the lock, and so do readers
    /// up to the first writer if it is one.
    /// All contenders of [`Semaphore::inspector`](crate::Semaphore::inspector) are leases.
    ///
    /// The result may be outdated: the list is read first, then each node, from a server that may lag. Contenders that
    /// leave meanwhile are left out. [`snapshot`](Self::snapshot) also determines the role of each.
    ///
    /// # Errors
    ///
    /// If the path or one of the nodes cannot be read. A lock that was never used has no contenders, which is no error.
    ///
    /// # Cost
    ///
    /// One round trip for the list, and one for every 64 contenders, which are read concurrently.
    pub async fn contenders(&self) -> Result<Vec<Contender>, Error> {
        self.queue.contenders().await
    }

    /// Reads the first contender, which holds the lock or is about to; `None` if there is none.
    ///
    /// The result may be outdated, like that of [`contenders`](Self::contenders).
    ///
    /// # Errors
    ///
    /// If the path or the node cannot be read. A lock that was never used has no contenders, which is no error.
    ///
    /// # Cost
    ///
    /// Two round trips, whatever the number of contenders; one more for each contender that leaves meanwhile.
    pub async fn first_contender(&self) -> Result<Option<Contender>, Error> {
        self.queue.first().await
    }

    /// Asks a contender to release the lock or to leave the queue.
    pub fn revoke(&self, contender: &Contender) -> Revoke {
        let path = self.queue.child_path(contender.name());
        Revoke::new(self.queue.session.clone(), path, contender)
    }

    /// Deletes the node of a contender: exactly the one that was read, and not one that replaced it.
    ///
    /// If it is a holder, the lock is granted to the next contender, possibly while the holder is still working. The
    /// holder is notified with [`LockLoss::NodeDeleted`](crate::LockLoss::NodeDeleted) within about a round trip.
    /// Resources that check the [fencing token](crate::FencingToken) refuse its later writes.
    /// Use [`revoke`](Self::revoke) to ask the holder first.
    ///
    /// # Errors
    ///
    /// If the deletion failed, or its outcome is unknown.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the node may or may not be deleted. No other node is.
    ///
    /// # Cost
    ///
    /// Three round trips.
    pub async fn remove(&self, contender: &Contender) -> Result<Removal, Error> {
        let path = self.queue.child_path(contender.name());
        delete_if_created_by(self.session(), &path, contender.czxid()).await
    }
}

impl LockSnapshot {
    /// Returns all contenders, in order of arrival.
    pub fn contenders(&self) -> &[ContenderStatus] {
        &self.statuses
    }

    /// Returns the holders: none, one, or several that share the lock.
    pub fn holders(&self) -> impl Iterator<Item = &ContenderStatus> {
        self.with(Role::Holder)
    }

    /// Returns the waiters, in order of arrival.
    pub fn waiters(&self) -> impl Iterator<Item = &ContenderStatus> {
        self.with(Role::Waiter)
    }

    /// Returns the names of children that are not contenders in this layout. They do not affect the lock.
    pub fn foreign_children(&self) -> &[String] {
        &self.foreign_children
    }

    /// Returns whether the path of the lock existed.
    pub fn exists(&self) -> bool {
        self.exists
    }

    fn with(&self, role: Role) -> impl Iterator<Item = &ContenderStatus> {
        self.statuses
            .iter()
            .filter(move |status| status.role == role)
    }
}

impl ContenderStatus {
    /// Returns the contender.
    pub fn contender(&self) -> &Contender {
        &self.contender
    }

    /// Returns whether it holds the lock.
    pub fn role(&self) -> Role {
        self.role
    }
}

/// Returns the number of holders: the first contender, and if it shares, those directly behind it that share.
fn holders(kinds: &[Option<Kind>]) -> usize {
    let readers = kinds
        .iter()
        .take_while(|kind| **kind == Some(Kind::Shared))
        .count();
    readers.max(usize::from(matches!(kinds.first(), Some(Some(_)))))
}

/// Returns the kind of each contender; `None` if its number does not determine its position, so that it is never
/// granted the lock.
fn kinds(contenders: &[Contender], layout: Layout) -> Vec<Option<Kind>> {
    let counted = |contender: &Contender| layout.parse(contender.name());
    let mut with_number: HashMap<_, usize> = HashMap::new();
    for contender in contenders {
        *with_number.entry(counted(contender)).or_default() += 1;
    }
    contenders
        .iter()
        .map(|contender| {
            let (sequence, kind) = counted(contender)?;
            let is_alone = with_number.get(&Some((sequence, kind))) == Some(&1);
            (is_alone && !sequence.is_near_end()).then_some(kind)
        })
        .collect()
}

#[cfg(test)]
mod tests;
