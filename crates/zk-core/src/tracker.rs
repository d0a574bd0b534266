//! The data of one node that may come and go, at hand without a round trip.

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
use crate::operation::OperationFuture;
use crate::operation::Target;
use crate::path::NodePath;
use crate::session::Session;
use crate::stat::Stat;
use crate::subscription::Subscription;
use crate::subscription::Update;

/// Follows a node; made by [`Session::track`](crate::Session::track).
///
/// The answer is a [`NodeTracker`] that knows the node as it was at some moment of the call.
///
/// # Errors
///
/// As [`Subscribe`](crate::Subscribe) has them, and [`NoAuth`](ErrorKind::NoAuth) when the node exists and must not be
/// read.
///
/// # Cancel safety
///
/// Safe, nothing is left behind.
///
/// # Session loss
///
/// A fatal error.
///
/// # Cost
///
/// Two round trips; afterwards one for each change and each reconnection.
#[derive(Debug, Clone)]
#[must_use = "nothing is followed until it is awaited"]
pub struct Track {
    target: Target,
}

impl Track {
    pub(crate) fn new(target: Target) -> Self {
        Self { target }
    }

    /// Bounds the wait for the first value; the default is the session's operation timeout.
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
            let updates = session.subscribe(path.clone()).timeout(left).await?;
            let left = call.deadline().remaining();
            let first = read(session, &path, left).await?;
            let (sender, tracked) = watch::channel(Tracked {
                node: first,
                is_stale: false,
                is_over: false,
                problem: None,
            });
            let follow = session.spawn(follow(session.clone(), path.clone(), updates, sender));
            Ok(NodeTracker {
                path,
                tracked,
                task: Arc::new(AbortOnDrop(follow.abort_handle())),
            })
        })
    }
}

/// A node as it was read.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrackedNode {
    /// Its data.
    pub data: Arc<[u8]>,
    /// Its stat.
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

/// What a [`NodeTracker`] knows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tracked {
    /// The node as it was read last; `None` if there was none.
    pub node: Option<TrackedNode>,
    /// Whether it may have changed without being told: there is no connection, or what changed has not been read yet
    /// after one came back.
    pub is_stale: bool,
    /// Whether the session is over, and this is the last that is known.
    pub is_over: bool,
    /// Why the node could not be read the last time, [`NoAuth`](ErrorKind::NoAuth) for one; what is in `node` was there
    /// before.
    pub problem: Option<Error>,
}

/// The current data of a node that may come and go; made by [`Session::track`](crate::Session::track).
///
/// What is known is read without a round trip and without waiting.
/// Values that were replaced before anyone looked are skipped: it is for the newest value, not for each.
/// A node that was deleted and created again is another value, whatever its data: [`Stat::czxid`] tells.
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
/// With the last clone the watch is taken back, in the background.
/// It keeps the session open.
#[derive(Debug, Clone)]
#[must_use = "it follows the node as long as it is held"]
pub struct NodeTracker {
    path: NodePath,
    tracked: watch::Receiver<Tracked>,
    #[expect(dead_code, reason = "dropped with the last clone")]
    task: Arc<AbortOnDrop>,
}

impl NodeTracker {
    /// Returns the node, below the namespace.
    pub fn path(&self) -> &NodePath {
        &self.path
    }

    /// Returns what is known, and takes it for seen.
    pub fn now(&mut self) -> Tracked {
        self.tracked.borrow_and_update().clone()
    }

    /// Waits until something is known that this clone has not seen; `None` after the end of the session was seen.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Answered once, with [`Tracked::is_over`].
    pub async fn changed(&mut self) -> Option<Tracked> {
        self.tracked.changed().await.ok()?;
        Some(self.now())
    }

    /// Waits until there is a node, for as long as the session lasts; `None` when that is over.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// Answered as `None`.
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
    session: Session,
    path: NodePath,
    mut updates: Subscription,
    tracked: watch::Sender<Tracked>,
) {
    let mut reading: Option<BoxFuture<'_, bool>> = None;
    // Whether something was told since that read began.
    let mut again = false;
    'told: loop {
        let is_read = async {
            match &mut reading {
                Some(read) => read.await,
                None => std::future::pending().await,
            }
        };
        let update = tokio::select! {
            biased;
            // Before the updates, so that those that never end do not keep it from being taken.
            is_alive = is_read => {
                reading = None;
                if !is_alive {
                    break;
                }
                None
            }
            update = updates.next() => Some(update),
        };
        // One read is enough for all that has been told by now.
        let mut next = update;
        while let Some(update) = next {
            match update {
                Some(Update::Stale) => {
                    // What comes of it would be from before; it is read anew with what is told next.
                    (reading, again) = (None, false);
                    tracked.send_if_modified(|tracked| {
                        !std::mem::replace(&mut tracked.is_stale, true)
                    });
                }
                Some(Update::Resynchronize | Update::Changed { .. }) => again = true,
                Some(Update::SessionLost) | None => break 'told,
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

/// Reads until it is known what there is; false when the session is over.
async fn catch_up(session: &Session, path: &NodePath, tracked: &watch::Sender<Tracked>) -> bool {
    let never = Deadline::after(Duration::MAX);
    loop {
        let (node, problem) = match read(session, path, Duration::MAX).await {
            Ok(node) => (Some(node), None),
            Err(error) if error.is_fatal() => return false,
            Err(error) if matches!(error.kind(), ErrorKind::NoAuth) => (None, Some(error)),
            Err(error) => {
                tracing::debug!(%path, %error, "reading it again");
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
    session: &Session,
    path: &NodePath,
    timeout: Duration,
) -> Result<Option<TrackedNode>, Error> {
    match session.get(path.clone()).timeout(timeout).await {
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
