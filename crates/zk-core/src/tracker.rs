//! A local copy of the data of one node, read without a round trip.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use zk_wire::{NodePath, Stat};

use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Operation};
use crate::operation::{Exists, Get, OperationFuture, Target};
use crate::session_handle::SessionHandle;
use crate::subscription::{Subscribe, Subscription};
use crate::update::Update;

/// Reads a node, and keeps the copy up to date on a task of its own.
pub(crate) fn track(target: Target) -> OperationFuture<NodeTracker> {
    target.run(Operation::Track, async move |call, path| {
        let session = call.session();
        let left = call.deadline().remaining();
        let target = Target::new(session.clone(), path.clone());
        let updates = Subscribe::new(target).timeout(left).await?;
        let left = call.deadline().remaining();
        let (sender, tracked) = watch::channel(Tracked {
            node: read(session, &path, left).await?,
            is_stale: false,
            is_over: false,
            problem: None,
        });
        let follow = follow(session.clone(), path, updates, sender);
        Ok(NodeTracker {
            tracked,
            task: Arc::new(AbortOnDrop(session.engine().spawn(follow).abort_handle())),
        })
    })
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
/// The session needs READ on the node. Servers report no change of a node to a session without it, so a change of the
/// access rules, and a node that is created unreadable, may be noticed up to a session timeout late, as
/// [`problem`](Tracked::problem).
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
    tracked: watch::Receiver<Tracked>,
    #[expect(dead_code, reason = "dropped with the last clone")]
    task: Arc<AbortOnDrop>,
}

impl NodeTracker {
    /// Returns the current state and marks it as seen.
    pub fn now(&mut self) -> Tracked {
        self.tracked.borrow_and_update().clone()
    }

    /// Waits for a state that this clone has not seen. Returns `None` after the one with [`Tracked::is_over`].
    pub async fn changed(&mut self) -> Option<Tracked> {
        self.tracked.changed().await.ok()?;
        Some(self.now())
    }

    /// Waits until the node exists. Returns `None` if the session is over.
    pub async fn available(&mut self) -> Option<TrackedNode> {
        let tracked = self
            .tracked
            .wait_for(|tracked| tracked.is_over || tracked.node.is_some())
            .await
            .ok()?;
        tracked.node.clone().filter(|_| !tracked.is_over)
    }
}

/// Ends a task when it is dropped.
#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the node again after each change, until the session is over.
async fn follow(
    session: SessionHandle,
    path: NodePath,
    mut updates: Subscription,
    tracked: watch::Sender<Tracked>,
) {
    // The last update that arrived during a read.
    let mut later = None;
    loop {
        let update = if let Some(update) = later.take() {
            update
        } else {
            tokio::select! {
                biased;
                update = updates.next() => update.unwrap_or(Update::SessionLost),
                () = unreported(&session, &path, &tracked) => Update::Resynchronize,
            }
        };
        match update {
            Update::SessionLost => break,
            Update::Stale => {
                tracked.send_if_modified(|tracked| !std::mem::replace(&mut tracked.is_stale, true));
            }
            Update::Resynchronize | Update::Changed { .. } => tokio::select! {
                // The read first, so that a constant stream of changes does not starve it.
                biased;
                () = read_again(&session, &path, &tracked) => {}
                () = interruption(&mut updates, &mut later) => {}
            },
        }
    }
    tracked.send_modify(|tracked| {
        tracked.is_stale = true;
        tracked.is_over = true;
    });
}

/// Waits for a change that is not reported: servers report none of a node to a session that may not read it.
async fn unreported(session: &SessionHandle, path: &NodePath, tracked: &watch::Sender<Tracked>) {
    let never = Deadline::after(Duration::MAX);
    loop {
        never
            .pause(session.engine().transport().session_timeout())
            .await;
        let target = Target::new(session.clone(), path.clone());
        let found = Exists::new(target).timeout(Duration::MAX).await;
        let tracked = tracked.borrow();
        let node = tracked.node.as_ref();
        match found {
            Ok(stat) => {
                let state = |stat: Stat| (stat.czxid, stat.mzxid);
                let is_same = stat.map(state) == node.map(|node| state(node.stat));
                if !is_same || tracked.problem.is_some() {
                    return;
                }
            }
            Err(error) if error.kind() == ErrorKind::NoAuth => return,
            // It is read again later, and the subscription reports the end of the session.
            Err(_) => {}
        }
    }
}

/// Waits for an update that makes the result of a read useless. Stores the last update.
async fn interruption(updates: &mut Subscription, last: &mut Option<Update>) {
    loop {
        let update = updates.next().await.unwrap_or(Update::SessionLost);
        let is_last = matches!(update, Update::Stale | Update::SessionLost);
        *last = Some(update);
        if is_last {
            return;
        }
    }
}

/// Retries the read until it succeeds or is refused.
async fn read_again(session: &SessionHandle, path: &NodePath, tracked: &watch::Sender<Tracked>) {
    let never = Deadline::after(Duration::MAX);
    loop {
        let (node, problem) = match read(session, path, Duration::MAX).await {
            Ok(node) => (Some(node), None),
            // The subscription reports the end of the session.
            Err(error) if error.is_fatal() => return,
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
        return;
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
            data: Arc::from(&*data),
            stat,
        })),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The pause after a read that failed.
const READ_AGAIN: Duration = Duration::from_millis(100);
