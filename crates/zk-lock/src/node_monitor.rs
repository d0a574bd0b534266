//! The task behind each guard. It notices when another client deletes the lock's node.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Watch;
use zk_core::WatchEvent;

use crate::error::LockLoss;
use crate::guard::Held;

/// Stops the task when it is dropped.
#[derive(Debug)]
pub(crate) struct NodeMonitor(AbortHandle);

impl NodeMonitor {
    /// Starts to monitor a lock that was just granted. Its node may already be watched.
    pub(crate) fn spawn(held: &Arc<Held>, watch: Option<Watch>) -> Self {
        let task = held.session.spawn(monitor(Arc::clone(held), watch));
        Self(task.abort_handle())
    }
}

impl Drop for NodeMonitor {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn monitor(held: Arc<Held>, watch: Option<Watch>) {
    // Most locks are released again at once and need no watch: that saves two requests for each.
    if watch.is_none()
        && tokio::time::timeout(WATCH_DELAY, held.ended())
            .await
            .is_ok()
    {
        return;
    }
    let mark_gone = || held.mark_gone();
    let loss = wait_until_gone(&held.session, &held.path, held.czxid, watch, mark_gone).await;
    held.end(loss);
}

/// Waits until a node of this session is gone and returns the reason: another client deleted it, this client deleted it
/// ([`LockLoss::Released`]), or the session is over.
///
/// `czxid` identifies the node. The name does not, since another node may have replaced it. A watch does not either:
/// one that is set again on another server reports a node that was replaced meanwhile as changed.
/// `watch` is a watch that is already set. `on_gone` is called as soon as the node is gone, before the reason is known,
/// and returns false if this client deleted it.
pub(crate) async fn wait_until_gone(
    session: &Session,
    path: &NodePath,
    czxid: i64,
    mut watch: Option<Watch>,
    on_gone: impl Fn() -> bool,
) -> LockLoss {
    loop {
        if let Some(mut armed) = watch.take() {
            match armed.changed().await {
                WatchEvent::SessionLost => return LockLoss::SessionLost,
                WatchEvent::Deleted => break,
                // Its data changed: watch it again.
                _ => {}
            }
        }
        // Reads before it waits, so that an earlier deletion is not missed.
        match session.exists(path).watched().await {
            Ok((Some(stat), armed)) if stat.czxid == czxid => watch = Some(armed),
            Ok(_) => break,
            Err(error) if error.is_fatal() => return LockLoss::SessionLost,
            Err(error) => {
                tracing::warn!(%path, %error, "lock node not watched: its deletion would not be noticed");
                let pause = session.session_timeout() / 3;
                drop(tokio::time::timeout(pause, session.lost()).await);
            }
        }
    }
    if on_gone() {
        loss_reason(session).await
    } else {
        LockLoss::Released
    }
}

/// Returns why a node that this session did not delete is gone.
pub(crate) async fn loss_reason(session: &Session) -> LockLoss {
    if session.is_over().await {
        LockLoss::SessionLost
    } else {
        LockLoss::NodeDeleted
    }
}

/// How long a lock is held before its node is watched, unless it was watched as a waiter.
pub(crate) const WATCH_DELAY: Duration = Duration::from_millis(10);
