//! The wait queue: what every lock on sequential nodes is built from.
//!
//! A contender *enlists* by creating its node, finds its *place* among the others ([`order`](crate::order)), and
//! *waits* for the one before it to go until nobody is before it any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zk_core::Acl;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::OperationFuture;
use zk_core::OwnedNode;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::Standby;
use zk_core::Trusted;
use zk_core::Watch;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::error::TimedOut;
use crate::layout::Layout;
use crate::layout::Stem;
use crate::node_monitor;
use crate::options::LockOptions;
use crate::retry::Remains;
use crate::retry::patiently;

mod enlist;
mod read;
mod upgrade;
mod wait;
mod watches;

pub(crate) use upgrade::Upgraded;

/// The queue below one path, and how to join it.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    /// What our nodes are named.
    stem: Stem,
    /// Their path, without what makes each of them unique.
    stem_path: NodePath,
    /// The name of a contender that does not count: another node of our own.
    except: Option<String>,
    options: Arc<LockOptions>,
}

/// A contender in the queue. Dropping it takes it out, in the background.
#[derive(Debug)]
pub(crate) struct Enlisted {
    node: OwnedNode,
    /// The children as they were last seen.
    children: Vec<String>,
    /// So that a wait, however long, ends with the turn and not with a proof that the session is alive.
    _standby: Standby,
}

/// A contender whose turn it is.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) node: OwnedNode,
    pub(crate) trusted: Trusted,
    /// The watch for its own node, if it was set while it waited.
    pub(crate) watch: Option<Watch>,
}

/// What a contender knows of its place, for those who give up waiting or want to know what for. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(watch::Sender<Option<Ahead>>);

impl Queue {
    pub(crate) fn new(
        session: &Session,
        path: NodePath,
        stem: Stem,
        options: Arc<LockOptions>,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            stem,
            stem_path: path.join(stem.name)?,
            path,
            except: None,
            options,
        })
    }

    pub(crate) fn layout(&self) -> Layout {
        self.options.layout()
    }

    /// The same queue as seen by the owner of the contender `name`, which need not wait for it.
    pub(crate) fn except(&self, name: &str) -> Self {
        Self {
            except: Some(name.to_owned()),
            ..self.clone()
        }
    }

    /// The children that count.
    fn counted(&self, mut children: Vec<String>) -> Vec<String> {
        if let Some(except) = &self.except {
            children.retain(|child| child != except);
        }
        children
    }

    /// Waits for an acquire for at most `limit`, and tells who was ahead if that was not enough.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        acquiring: impl Future<Output = Result<T, AcquireError>>,
        progress: &Progress,
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

    /// What this session is still removing here.
    pub(crate) fn remains(&self) -> Remains<'_> {
        Remains::at(&self.session, &self.path)
    }

    /// The error for a contender whose node this session did not delete, and which is gone.
    pub(crate) async fn node_lost(&self, path: &NodePath) -> AcquireError {
        AcquireError::gone(node_monitor::why_gone(&self.session).await, path)
    }

    /// The access rules of our nodes, if they are not those of the session.
    pub(crate) fn acl(&self) -> Option<&Acl> {
        self.options.acl()
    }

    /// The path of a child, as a text: whether it can be a path is found out by whoever uses it.
    fn child(&self, name: &str) -> String {
        let base = if self.path.is_root() {
            ""
        } else {
            self.path.as_str()
        };
        format!("{base}/{name}")
    }
}

impl Progress {
    /// Notes who is ahead.
    fn note(&self, ahead: Ahead) {
        self.0.send_replace(Some(ahead));
    }

    /// What was noted last: who was ahead, if the ensemble has answered at all.
    pub(crate) fn ahead(&self) -> Option<Ahead> {
        self.0.borrow().clone()
    }

    /// What is noted from now on, the newest if several are.
    pub(crate) fn notes(&self) -> watch::Receiver<Option<Ahead>> {
        self.0.subscribe()
    }
}

impl Enlisted {
    pub(crate) const fn node(&self) -> &OwnedNode {
        &self.node
    }

    /// The name of its node.
    fn name(&self) -> &str {
        self.node.path().name().unwrap_or_default()
    }

    /// Takes it out of the queue, and waits for that.
    ///
    /// What cannot be finished goes on in the background, so that only the end of the session is an error: the node
    /// goes then as well, but the caller cannot go on either.
    async fn leave(self) -> Result<(), AcquireError> {
        let path = self.node.path().clone();
        match self.node.delete().await {
            Err(error) if error.is_fatal() => Err(error.into()),
            Err(error) => {
                tracing::debug!(%path, %error, "the node of a contender that gave up goes later");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

impl Queue {
    /// Repeats a read until there is an answer or the session is over.
    pub(crate) async fn patiently<T>(
        &self,
        read: impl Fn() -> OperationFuture<T>,
    ) -> Result<T, Error> {
        patiently(&self.session, read).await
    }
}
