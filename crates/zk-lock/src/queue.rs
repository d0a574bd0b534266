//! The wait queue that all locks on sequential nodes share.
//!
//! The steps of an acquire, and the files that they are in:
//!
//! 1. `enlist` creates a node and lists the queue. From now on the contender is [`Enlisted`].
//! 2. [`order`](crate::order) decides the contender's position from the list.
//! 3. `wait` repeats: if no contender is ahead, the contender is [`Granted`]; otherwise it watches the predecessor
//!    (`watches`), and lists again when a watch fires.
//! 4. [`Guard::granted`](crate::guard::Guard::granted) makes a guard of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zk_core::Acl;
use zk_core::Error;
use zk_core::IdPlace;
use zk_core::NodePath;
use zk_core::OperationFuture;
use zk_core::OwnedNode;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::SessionLease;
use zk_core::Standby;
use zk_core::Watch;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::TimedOut;
use crate::layout::Layout;
use crate::layout::NodePrefix;
use crate::options::LockOptions;
use crate::pending_deletes::PendingDeletes;
use crate::retry::retry_read;

mod enlist;
mod read;
mod upgrade;
mod wait;
mod watches;

pub(crate) use upgrade::UpgradeOutcome;

/// The queue below one path.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    /// The path that our nodes are created with; id and number are added to it.
    prefix_path: NodePath,
    id_place: IdPlace,
    /// During an upgrade: the name of our reader's node, for which our writer does not wait.
    ignored_child: Option<String>,
    options: Arc<LockOptions>,
}

/// A contender in the queue. Dropping it deletes its node in the background.
#[derive(Debug)]
pub(crate) struct Enlisted {
    node: OwnedNode,
    /// The children of the queue's path, as last listed.
    children: Vec<String>,
    /// Keeps the session proved alive, so that no proof has to be awaited when the predecessor leaves.
    _standby: Standby,
}

/// A contender that has been granted the lock.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) node: OwnedNode,
    pub(crate) session_lease: SessionLease,
    /// The watch of its own node, if it was set while it waited.
    pub(crate) watch: Option<Watch>,
}

/// What a waiter knows of its position in the queue. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueProgress(watch::Sender<Option<Ahead>>);

impl Queue {
    pub(crate) fn new(
        session: &Session,
        path: NodePath,
        prefix: NodePrefix,
        options: Arc<LockOptions>,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            prefix_path: path.join(prefix.name)?,
            id_place: prefix.id,
            path,
            ignored_child: None,
            options,
        })
    }

    pub(crate) fn layout(&self) -> Layout {
        self.options.layout()
    }

    /// Returns the ACL of our nodes, unless it is the default of the session.
    pub(crate) fn acl(&self) -> Option<&Acl> {
        self.options.acl()
    }

    /// Removes the ignored child.
    fn without_ignored(&self, mut children: Vec<String>) -> Vec<String> {
        if let Some(ignored) = &self.ignored_child {
            children.retain(|child| child != ignored);
        }
        children
    }

    /// Limits an acquire to `limit`. The error of a timeout says who was ahead.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        acquiring: impl Future<Output = Result<T, AcquireError>>,
        progress: &QueueProgress,
    ) -> Result<T, AcquireError> {
        let acquired = tokio::time::timeout(limit, acquiring).await;
        acquired.unwrap_or_else(|_| {
            Err(AcquireError::TimedOut(TimedOut {
                path: self.path.clone(),
                limit,
                ahead: progress.ahead(),
            }))
        })
    }

    /// Records the deletions in this queue that the session has not finished.
    pub(crate) fn pending_deletes(&self) -> PendingDeletes<'_> {
        PendingDeletes::at(&self.session, &self.path)
    }

    /// Repeats a read until there is a reply or the session is over.
    pub(crate) async fn retry_read<T>(
        &self,
        read: impl Fn() -> OperationFuture<T>,
    ) -> Result<T, Error> {
        retry_read(&self.session, read).await
    }

    /// Returns the path of a child as text; the request that uses it validates it.
    fn child_path(&self, name: &str) -> String {
        let base = if self.path.is_root() {
            ""
        } else {
            self.path.as_str()
        };
        format!("{base}/{name}")
    }
}

impl QueueProgress {
    /// Records who is ahead.
    fn set_ahead(&self, ahead: Ahead) {
        self.0.send_replace(Some(ahead));
    }

    /// Returns the last record; `None` if the ensemble has not replied yet.
    pub(crate) fn ahead(&self) -> Option<Ahead> {
        self.0.borrow().clone()
    }

    /// Returns a receiver of later records. It only sees the newest.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Ahead>> {
        self.0.subscribe()
    }
}

impl Enlisted {
    pub(crate) const fn node(&self) -> &OwnedNode {
        &self.node
    }

    /// Returns the name of its node.
    fn name(&self) -> &str {
        self.node.path().name().unwrap_or_default()
    }

    fn is_listed(&self) -> bool {
        self.children.iter().any(|child| child == self.name())
    }

    /// Leaves the queue and waits until the node is deleted.
    ///
    /// An unfinished deletion continues in the background and is no error. The end of the session is one: it
    /// deletes the node as well, but the caller cannot go on.
    async fn leave(self) -> Result<(), AcquireError> {
        let path = self.node.path().clone();
        match self.node.delete().await {
            Err(error) if error.is_fatal() => Err(error.into()),
            Err(error) => {
                tracing::debug!(%path, %error, "a cancelled contender is deleted in the background");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}
