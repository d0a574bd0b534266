//! Notices when a node of ours is gone, for holders in a task behind each guard.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Watch;
use zk_core::WatchEvent;

use crate::error::AcquireError;
use crate::error::LockLoss;
use crate::held_node::HeldNode;

/// Stops the task when it is dropped.
#[derive(Debug)]
pub(crate) struct NodeMonitor(AbortHandle);

impl NodeMonitor {
    /// Starts to monitor a lock that was just granted. Its node may already be watched.
    pub(crate) fn spawn(held: &Arc<HeldNode>, watch: Option<Watch>) -> Self {
        let task = held.session.spawn(monitor(Arc::clone(held), watch));
        Self(task.abort_handle())
    }
}

impl Drop for NodeMonitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn monitor(held: Arc<HeldNode>, watch: Option<Watch>) {
    // Most locks are released again at once and need no watch: that saves two requests for each.
    if watch.is_none()
        && tokio::time::timeout(WATCH_DELAY, held.ended())
            .await
            .is_ok()
    {
        return;
    }
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

/// How long a lock is held before its node is watched, unless it was watched as a waiter.
pub(crate) const WATCH_DELAY: Duration = Duration::from_millis(10);
