//! A local copy of the data of one node, read without a round trip.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::deadline::Deadline;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::operation::Get;
use crate::operation::OperationFuture;
use crate::operation::Target;
use crate::path::NodePath;
use crate::session_handle::SessionHandle;
use crate::stat::Stat;
use crate::subscription::Subscribe;
use crate::subscription::Subscription;
use crate::update::Update;

/// A request to keep a copy of a node; created by [`Session::track`](crate::Session::track).
///
/// Returns a [`NodeTracker`] with the node as it was at some moment during the call.
///
/// # Errors
///
/// Those of [`Subscribe`], and [`NoAuth`](ErrorKind::NoAuth) if the session may not read the node.
///
/// # Cancel safety
///
/// Safe, nothing is left behind.
///
/// # Cost
///
/// Two round trips; afterwards one for each change and each reconnection.
#[derive(Debug, Clone)]
#[must_use = "nothing is tracked until it is awaited"]
pub struct Track {
    target: Target,
}

impl Track {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Sets how long to wait for the first value. Default: the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Track {
    type Output = Result<NodeTracker, Error>;
    type IntoFuture = OperationFuture<NodeTracker>;

    fn into_future(self) -> Self::IntoFuture {
        self.target.run(Operation::Track, async move |call, path| {
            let session = call.session();
            let left = call.deadline().remaining();
            let target = Target::new(session.clone(), path.clone());
            let updates = Subscribe::new(target).timeout(left).await?;
            let left = call.deadline().remaining();
            let first = read(session, &path, left).await?;
            let (sender, tracked) = watch::channel(Tracked {
                node: first,
                is_stale: false,
                is_over: false,
                problem: None,
            });
            let follow =
                session
                    .engine()
                    .spawn(follow(session.clone(), path.clone(), updates, sender));
            Ok(NodeTracker {
                path,
                tracked,
                task: Arc::new(AbortOnDrop(follow.abort_handle())),
            })
        })
    }
}

/// The data and stat of a node.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackedNode {
    /// The data.
    pub data: Arc<[u8]>,
    /// The stat.
    pub stat: Stat,
}

impl fmt::Debug for TrackedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackedNode")
            .field("bytes", &self.data.len())
            .field("stat", &self.stat)
            .finish()
    }
}

/// The state of a [`NodeTracker`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tracked {
    /// The node as of the last read; `None` if it did not exist.
    pub node: Option<TrackedNode>,
    /// Whether changes may have been missed, because the connection is lost or the node has not been read again since.
    pub is_stale: bool,
    /// Whether the session is over, so that this state is final.
    pub is_over: bool,
    /// Why the last read failed, for example [`NoAuth`](ErrorKind::NoAuth); `node` is then from an earlier read.
    pub problem: Option<Error>,
}

/// A local copy of a node, kept up to date; created by [`Session::track`](crate::Session::track).
///
/// It is read without a round trip and without waiting.
/// It holds the newest value; values that were replaced before they were read are skipped.
/// A node that was deleted and created again counts as a new value even if its data is the same; see [`Stat::czxid`].
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
/// let mut config = session.track("/app/config").await?;
/// if let Some(node) = config.available().await {
///     println!("{} bytes", node.data.len());
/// }
/// while let Some(now) = config.changed().await {
///     println!("it is there: {}", now.node.is_some());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Dropping
///
/// When the last clone is dropped, the watch is removed in the background.
/// A tracker keeps the session open.
#[derive(Debug, Clone)]
#[must_use = "the copy is updated only while the tracker exists"]
pub struct NodeTracker {
    path: NodePath,
    tracked: watch::Receiver<Tracked>,
    #[expect(dead_code, reason = "dropped with the last clone")]
    task: Arc<AbortOnDrop>,
}

impl NodeTracker {
    /// Returns the path of the node, relative to the namespace.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns the current state and marks it as seen.
    pub fn now(&mut self) -> Tracked {
        self.tracked.borrow_and_update().clone()
    }

    /// Waits for a state that this clone has not seen. Returns `None` after the one with [`Tracked::is_over`].
    ///
    /// # Cancel safety
    ///
    /// Safe, no state is lost.
    pub async fn changed(&mut self) -> Option<Tracked> {
        self.tracked.changed().await.ok()?;
        Some(self.now())
    }

    /// Waits until the node exists. Returns `None` if the session is over.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    pub async fn available(&mut self) -> Option<TrackedNode> {
        let tracked = self
            .tracked
            .wait_for(|tracked| tracked.is_over || tracked.node.is_some())
            .await
            .ok()?;
        if tracked.is_over {
            None
        } else {
            tracked.node.clone()
        }
    }
}

/// Ends a task when it is dropped.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow(
    session: SessionHandle,
    path: NodePath,
    mut updates: Subscription,
    tracked: watch::Sender<Tracked>,
) {
    let mut reading: Option<BoxFuture<'_, bool>> = None;
    // Whether an update arrived since that read began.
    let mut again = false;
    'updates: loop {
        let is_read = async {
            match &mut reading {
                Some(read) => read.await,
                None => std::future::pending().await,
            }
        };
        let update = tokio::select! {
            biased;
            // Before the updates, so that a constant stream of them does not starve the read.
            is_alive = is_read => {
                reading = None;
                if !is_alive {
                    break;
                }
                None
            }
            update = updates.next() => Some(update),
        };
        // One read covers all updates that have arrived by now.
        let mut next = update;
        while let Some(update) = next {
            match update {
                Some(Update::Stale) => {
                    // Its result would be out of date. The next update starts another read.
                    (reading, again) = (None, false);
                    tracked.send_if_modified(|tracked| {
                        !std::mem::replace(&mut tracked.is_stale, true)
                    });
                }
                Some(Update::Resynchronize | Update::Changed { .. }) => again = true,
                Some(Update::SessionLost) | None => break 'updates,
            }
            next = updates.next().now_or_never();
        }
        if again && reading.is_none() {
            again = false;
            reading = Some(catch_up(&session, &path, &tracked).boxed());
        }
    }
    drop(reading);
    tracked.send_modify(|tracked| {
        tracked.is_stale = true;
        tracked.is_over = true;
    });
}

/// Retries the read until it succeeds or is refused. Returns false if the session is over.
async fn catch_up(
    session: &SessionHandle,
    path: &NodePath,
    tracked: &watch::Sender<Tracked>,
) -> bool {
    let never = Deadline::after(Duration::MAX);
    loop {
        let (node, problem) = match read(session, path, Duration::MAX).await {
            Ok(node) => (Some(node), None),
            Err(error) if error.is_fatal() => return false,
            Err(error) if matches!(error.kind(), ErrorKind::NoAuth) => (None, Some(error)),
            Err(error) => {
                tracing::debug!(%path, %error, "the read of a tracked node failed; reading again");
                never.pause(READ_AGAIN).await;
                continue;
            }
        };
        tracked.send_if_modified(|tracked| {
            let kind = |problem: &Option<Error>| problem.as_ref().map(Error::kind);
            let differs = tracked.is_stale
                || kind(&tracked.problem) != kind(&problem)
                || node.as_ref().is_some_and(|node| *node != tracked.node);
            tracked.is_stale = false;
            tracked.problem = problem;
            if let Some(node) = node {
                tracked.node = node;
            }
            differs
        });
        return true;
    }
}

async fn read(
    session: &SessionHandle,
    path: &NodePath,
    timeout: Duration,
) -> Result<Option<TrackedNode>, Error> {
    let target = Target::new(session.clone(), path.clone());
    match Get::new(target).timeout(timeout).await {
        Ok((data, stat)) => Ok(Some(TrackedNode {
            data: data.into(),
            stat,
        })),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The pause after a read that failed.
const READ_AGAIN: Duration = Duration::from_millis(100);
