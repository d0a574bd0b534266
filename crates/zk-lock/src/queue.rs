//! The wait queue that all locks on sequential nodes share.
//!
//! The steps of an acquire, and the files that they are in:
//!
//! 1. `enlist` creates a node and lists the queue. From now on the contender is [`Enlisted`].
//! 2. [`order`](crate::order) decides the contender's position from the list.
//! 3. `wait` repeats: if no contender is ahead, the contender is [`Granted`]; otherwise it watches the predecessor
//!    (`watches`), and lists again when a watch fires.
//! 4. A [`Guard`] is made of it. A guard that is yielded goes back to step 1, with another create.

use std::sync::{Arc, Mutex};

use zk_core::{
    Acl, Error, IdPlace, NodePath, OperationFuture, OwnedNode, ParsePathError, Session, Standby,
};

use crate::error::AcquireError;
use crate::events::{LockEvents, Notifier};
use crate::guard::{Granted, Guard};
use crate::layout::{Kind, Layout, NodePrefix};
use crate::node_monitor::NodeMonitor;
use crate::options::LockOptions;
use crate::pending_deletes::PendingDeletes;
use crate::retry::retry_read;

mod enlist;
mod read;
mod uncontended;
mod upgrade;
mod wait;
mod watches;

use uncontended::LastTurn;
pub(crate) use uncontended::Turn;
pub(crate) use upgrade::UpgradeOutcome;

/// The queue below one path.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    /// The path that our nodes are created with; id and number are added to it.
    prefix_path: NodePath,
    id_place: IdPlace,
    kind: Kind,
    /// During an upgrade: the name of our reader's node, for which our writer does not wait.
    ignored_child: Option<String>,
    /// Whether the first contender waits for leases of a semaphore.
    is_of_semaphore: bool,
    options: Arc<LockOptions>,
    notifier: Notifier,
    monitor: NodeMonitor,
    /// `None` in queues whose contenders may leave another node with the same number.
    last_turn: Option<Arc<Mutex<LastTurn>>>,
}

/// A contender in the queue. Dropping it deletes its node in the background.
#[derive(Debug)]
pub(crate) struct Enlisted {
    node: OwnedNode,
    /// The children of the queue's path, as last listed.
    children: Vec<String>,
    /// Set if it was alone when it joined.
    turn: Option<Box<Turn>>,
    /// Keeps the session proved alive, so that no proof has to be awaited when the predecessor leaves.
    _standby: Standby,
}

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
            kind: options.layout().kind_of(prefix),
            path,
            ignored_child: None,
            is_of_semaphore: false,
            options,
            notifier: Notifier::default(),
            monitor: NodeMonitor::default(),
            last_turn: None,
        })
    }

    /// Makes this a queue in which each contender has one node.
    pub(crate) fn of_mutex(mut self) -> Self {
        self.last_turn = Some(Arc::default());
        self
    }

    /// Makes this the queue for the leases of a semaphore.
    pub(crate) fn of_semaphore(mut self) -> Self {
        self.is_of_semaphore = true;
        self
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

    /// Makes the guard of a contender that was granted the lock, and reports its events.
    pub(crate) fn guard(self: &Arc<Self>, granted: Granted) -> Guard {
        let guard = Guard::new(&self.session, granted, &self.monitor).in_queue(self);
        self.notifier.acquired(&guard);
        guard
    }

    /// Subscribes to the events of the guards of this queue and its clones.
    pub(crate) fn events(&self) -> LockEvents {
        self.notifier.subscribe()
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

    /// Returns the path of a child that was listed.
    pub(crate) fn child_path(&self, name: &str) -> NodePath {
        let path = self.path.join(name);
        path.expect("the name of a listed child is a valid name")
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
