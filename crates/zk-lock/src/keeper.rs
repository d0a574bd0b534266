//! The task behind each guard: it notices when somebody else deletes the lock's node.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use zk_core::WatchEvent;

use crate::error::Loss;
use crate::guard::Held;

/// A task that lives as long as this handle, at most.
#[derive(Debug)]
pub(crate) struct Keeper(AbortHandle);

impl Keeper {
    /// Starts to look after a lock that was just granted.
    pub(crate) fn spawn(held: &Arc<Held>) -> Self {
        Self(tokio::spawn(keep(Arc::clone(held))).abort_handle())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(held: Arc<Held>) {
    // A lock that is released again at once, as most are, needs no watch: that saves two requests for each.
    if tokio::time::timeout(REST, held.ended()).await.is_ok() {
        return;
    }
    let loss = loop {
        // This looks first, so that what happened before it is not missed.
        match held.session.exists(&held.path).watched().await {
            Ok((None, _)) => break gone(&held).await,
            Ok((Some(_), mut watch)) => match watch.changed().await {
                WatchEvent::SessionLost => break Loss::SessionLost,
                WatchEvent::Deleted => break gone(&held).await,
                // Somebody wrote to it: watch it again.
                _ => {}
            },
            Err(error) if error.is_fatal() => break Loss::SessionLost,
            Err(error) => {
                tracing::warn!(path = %held.path, %error, "a deletion of this lock's node would not be noticed now");
                let pause = held.session.session_timeout() / 3;
                if tokio::time::timeout(pause, held.ended()).await.is_ok() {
                    return;
                }
            }
        }
    };
    held.end(loss);
}

/// The node is gone: by somebody's deletion, by our own release, or because the session has expired, which a server
/// tells after it has told of the node.
async fn gone(held: &Held) -> Loss {
    if held.is_over() {
        // By us.
        return Loss::Released;
    }
    held.node_is_gone();
    let asked = held.session.exists(&held.path).into_future();
    match tokio::time::timeout(held.session.session_timeout() / 10, asked).await {
        Ok(Err(error)) if error.is_fatal() => Loss::SessionLost,
        _ => Loss::NodeDeleted,
    }
}

/// How long a lock is held before its node is watched.
const REST: Duration = Duration::from_millis(10);
