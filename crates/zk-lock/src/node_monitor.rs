//! Notices when a node of ours is gone, for holders.
//!
//! Most locks are released again at once. A node is therefore watched, by a task of its own, only once its lock has been
//! held for a while. Until then it is in a list, and one task waits for all nodes in the list.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use zk_core::{NodePath, Session, Watch, WatchEvent};

use crate::error::{AcquireError, LockLoss};
use crate::held_node::HeldNode;

/// Monitors the nodes of the guards of one handle to a lock and its clones.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeMonitor {
    recent: Arc<Mutex<RecentNodes>>,
}

/// The nodes that were granted their locks less than [`WATCH_DELAY`] ago, oldest first.
#[derive(Debug, Default)]
struct RecentNodes {
    nodes: VecDeque<(Instant, Weak<MonitoredNode>)>,
    /// Whether the task runs that takes nodes out of the list.
    has_task: bool,
}

/// A node that is monitored until this is dropped.
pub(crate) struct MonitoredNode {
    held: Arc<HeldNode>,
    /// The watch that the node had as a waiter.
    watch: Mutex<Option<Watch>>,
    /// The task that watches the node.
    task: OnceLock<AbortHandle>,
}

impl NodeMonitor {
    /// Starts to monitor a lock that was just granted. Its node may already be watched.
    pub(crate) fn begin(&self, held: &Arc<HeldNode>, watch: Option<Watch>) -> Arc<MonitoredNode> {
        let node = Arc::new(MonitoredNode {
            held: Arc::clone(held),
            watch: Mutex::new(watch),
            task: OnceLock::new(),
        });
        let mut recent = lock(&self.recent);
        let due = Instant::now() + WATCH_DELAY;
        recent.nodes.push_back((due, Arc::downgrade(&node)));
        if !std::mem::replace(&mut recent.has_task, true) {
            drop(recent);
            held.session.spawn(watch_when_due(Arc::clone(&self.recent)));
        }
        node
    }
}

impl RecentNodes {
    /// Removes and returns the next node that is due; or else returns when the next one will be. Nodes that are no longer
    /// monitored are removed.
    fn pop_due(&mut self, now: Instant) -> Result<Arc<MonitoredNode>, Option<Instant>> {
        while let Some((due, node)) = self.nodes.front() {
            let node = node.upgrade();
            if node.is_some() && now < *due {
                return Err(Some(*due));
            }
            self.nodes.pop_front();
            if let Some(node) = node {
                return Ok(node);
            }
        }
        Err(None)
    }
}

impl MonitoredNode {
    /// Starts the task that watches the node, unless its release has begun.
    fn start(&self) {
        if self.held.has_ended() {
            return;
        }
        let watch = lock(&self.watch).take();
        let held = Arc::clone(&self.held);
        let task = self.held.session.spawn(monitor(held, watch));
        self.task.get_or_init(|| task.abort_handle());
    }
}

impl fmt::Debug for MonitoredNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonitoredNode")
            .field("path", &self.held.path)
            .finish_non_exhaustive()
    }
}

impl Drop for MonitoredNode {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

/// Starts to watch nodes once they are due, until there are none left.
#[expect(
    clippy::disallowed_methods,
    reason = "a delay after which nodes are watched; it must not keep the session open"
)]
async fn watch_when_due(recent: Arc<Mutex<RecentNodes>>) {
    loop {
        let next = {
            let mut recent = lock(&recent);
            let next = recent.pop_due(Instant::now());
            recent.has_task = !matches!(next, Err(None));
            next
        };
        match next {
            Ok(node) => node.start(),
            Err(Some(due)) => tokio::time::sleep_until(due).await,
            Err(None) => return,
        }
    }
}

async fn monitor(held: Arc<HeldNode>, watch: Option<Watch>) {
    if !wait_until_gone(&held.session, &held.path, held.czxid, watch).await {
        held.end(LockLoss::SessionLost);
    } else if held.mark_node_gone() {
        let is_over = held.session.is_over().await;
        held.end(if is_over {
            LockLoss::SessionLost
        } else {
            LockLoss::NodeDeleted
        });
    }
}

/// Waits until a node of this session is gone, whichever client deleted it; returns false if the session is over.
///
/// `czxid` identifies the node. The name does not, since another node may have replaced it. A watch does not either:
/// one that is set again on another server reports a node that was replaced meanwhile as changed.
/// `watch` is a watch that is already set.
pub(crate) async fn wait_until_gone(
    session: &Session,
    path: &NodePath,
    czxid: i64,
    mut watch: Option<Watch>,
) -> bool {
    loop {
        if let Some(mut armed) = watch.take() {
            match armed.changed().await {
                WatchEvent::SessionLost => return false,
                WatchEvent::Deleted => return true,
                // Its data changed: watch it again.
                _ => {}
            }
        }
        // Reads before it waits, so that an earlier deletion is not missed.
        match session.exists(path).watched().await {
            Ok((Some(stat), armed)) if stat.czxid == czxid => watch = Some(armed),
            Ok(_) => return true,
            Err(error) if error.is_fatal() => return false,
            Err(error) => {
                tracing::warn!(%path, %error, "lock node not watched: its deletion would not be noticed");
                let pause = session.session_timeout() / 3;
                session.pause(pause).await;
            }
        }
    }
}

/// Returns the error of a contender whose node is gone although it did not delete it.
///
/// The end of the session deletes the node before it is reported, so the leader is asked.
pub(crate) async fn node_lost(session: &Session, path: &NodePath) -> AcquireError {
    if session.is_over().await {
        AcquireError::SessionLost { source: None }
    } else {
        AcquireError::NodeDeleted { path: path.clone() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a lock is held before its node is watched.
pub(crate) const WATCH_DELAY: Duration = Duration::from_millis(10);
