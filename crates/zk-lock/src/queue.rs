//! The wait queue: what every lock on sequential nodes is built from.
//!
//! A contender *enlists* by creating its node, finds its *place* among the others ([`order`](crate::order)), and
//! *waits* for the one before it to go until nobody is before it any more.

use std::sync::Arc;
use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::NodePath;
use zk_core::OperationFuture;
use zk_core::OwnedNode;
use zk_core::ParsePathError;
use zk_core::Session;
use zk_core::Trusted;

use crate::error::AcquireError;
use crate::error::Ahead;
use crate::options::LockOptions;

mod enlist;
mod read;
mod wait;

/// The queue below one path, and how to join it.
#[derive(Debug, Clone)]
pub(crate) struct Queue {
    pub(crate) session: Session,
    pub(crate) path: NodePath,
    /// The path of our nodes, without what makes each of them unique.
    stem: NodePath,
    options: Arc<LockOptions>,
}

/// A contender in the queue. Dropping it takes it out, in the background.
#[derive(Debug)]
pub(crate) struct Enlisted {
    node: OwnedNode,
    /// The children as they were last seen.
    children: Vec<String>,
}

/// A contender whose turn it is.
#[derive(Debug)]
pub(crate) struct Granted {
    pub(crate) node: OwnedNode,
    pub(crate) trusted: Trusted,
}

/// What a contender knows of its place, for those who give up waiting.
pub(crate) type Progress = Option<Ahead>;

impl Queue {
    pub(crate) fn new(
        session: &Session,
        path: NodePath,
        options: LockOptions,
    ) -> Result<Self, ParsePathError> {
        Ok(Self {
            session: session.clone(),
            stem: path.join(options.layout().stem())?,
            path,
            options: Arc::new(options),
        })
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

impl Enlisted {
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
    ///
    /// A waiter has its place in the queue as long as its session lives, so it does not give it up because the
    /// ensemble is out of reach for a while.
    /// Each attempt takes as long as the operation timeout and the retry policy of the session allow.
    async fn patiently<T>(&self, read: impl Fn() -> OperationFuture<T>) -> Result<T, Error> {
        loop {
            match read().await {
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    tracing::debug!(%error, "a waiter keeps its place and asks again");
                    // A session that is over is for the next attempt to report.
                    drop(tokio::time::timeout(PAUSE, self.session.lost()).await);
                }
                answer => return answer,
            }
        }
    }
}

/// Between two attempts, whatever the session's own policy says: it may allow none, or end at once.
const PAUSE: Duration = Duration::from_millis(50);
