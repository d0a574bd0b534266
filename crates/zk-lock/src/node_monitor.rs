//! The task behind each guard: it notices when somebody else deletes the lock's node.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use zk_core::NodePath;
use zk_core::Session;
use zk_core::Watch;
use zk_core::WatchEvent;

use crate::error::Loss;
use crate::guard::Held;

/// A task that lives as long as this handle, at most.
#[derive(Debug)]
pub(crate) struct Keeper(AbortHandle);

impl Keeper {
    /// Starts to look after a lock that was just granted, whose node may be under watch already.
    pub(crate) fn spawn(held: &Arc<Held>, watch: Option<Watch>) -> Self {
        let keeping = held.session.spawn(keep(Arc::clone(held), watch));
        Self(keeping.abort_handle())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(held: Arc<Held>, watch: Option<Watch>) {
    // A lock that is released again at once, as most are, needs no watch: that saves two requests for each.
    if watch.is_none() && tokio::time::timeout(REST, held.ended()).await.is_ok() {
        return;
    }
    let noticed = || held.noticed_gone();
    let loss = until_gone(&held.session, &held.path, held.czxid, watch, noticed).await;
    held.end(loss);
}

/// Waits until a node of this session is gone, and tells why: by somebody's deletion, by our own, which is
/// [`Loss::Released`], or with the session.
///
/// `czxid` tells the node from another one that took its place, which the name alone does not, nor a watch: one that is
/// set again on another server tells of a node that was replaced meanwhile that it changed.
/// `watch` is one that is set already; `noticed` is called as soon as the node is gone, before it is known why, and tells
/// whether that is news.
pub(crate) async fn until_gone(
    session: &Session,
    path: &NodePath,
    czxid: i64,
    mut watch: Option<Watch>,
    noticed: impl Fn() -> bool,
) -> Loss {
    loop {
        if let Some(mut armed) = watch.take() {
            match armed.changed().await {
                WatchEvent::SessionLost => return Loss::SessionLost,
                WatchEvent::Deleted => break,
                // Somebody wrote to it: watch it again.
                _ => {}
            }
        }
        // This looks first, so that what happened before it is not missed.
        match session.exists(path).watched().await {
            Ok((Some(stat), armed)) if stat.czxid == czxid => watch = Some(armed),
            Ok(_) => break,
            Err(error) if error.is_fatal() => return Loss::SessionLost,
            Err(error) => {
                tracing::warn!(%path, %error, "a deletion of this node of ours would not be noticed now");
                let pause = session.session_timeout() / 3;
                drop(tokio::time::timeout(pause, session.lost()).await);
            }
        }
    }
    if noticed() {
        why_gone(session).await
    } else {
        Loss::Released
    }
}

/// Why a node that this session did not delete is gone.
pub(crate) async fn why_gone(session: &Session) -> Loss {
    if session.is_over().await {
        Loss::SessionLost
    } else {
        Loss::NodeDeleted
    }
}

/// How long a lock is held before its node is watched, unless it was watched already.
pub(crate) const REST: Duration = Duration::from_millis(10);
