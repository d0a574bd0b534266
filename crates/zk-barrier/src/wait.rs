//! Waits up to a deadline, waits for members, and reads that are repeated as long as the session lives.

use std::time::Duration;

use tokio::time::Instant;
use zk_core::{Error, ErrorClass, NodePath, OwnedNode, Session, WatchEvent};

use crate::error::EnterError;

/// Waits for `future`; returns `None` if the deadline comes first.
pub(crate) async fn bounded<T>(
    deadline: Option<Instant>,
    future: impl Future<Output = T>,
) -> Option<T> {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline, future).await.ok(),
        None => Some(future.await),
    }
}

/// Repeats a read that fails without a connection, as long as the session lives.
pub(crate) async fn repeated<T, F>(
    session: &Session,
    mut read: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    loop {
        match read().await {
            Err(error) if error.class() == ErrorClass::Recoverable => {
                tracing::debug!(%error, "a barrier's node was not read, reading it again");
                session.pause(PAUSE).await;
            }
            result => return result,
        }
    }
}

/// Waits until a member is gone, or something else has happened to its node: the caller reads again.
pub(crate) async fn wait_until_gone(session: &Session, path: &NodePath) -> Result<(), Error> {
    let read = repeated(session, || session.exists(path).watched().into_future());
    if let (Some(_), mut watch) = read.await? {
        // The next read reports a lost session.
        let _: WatchEvent = watch.changed().await;
    }
    Ok(())
}

/// Returns why a member that has not left is not in the round any more.
pub(crate) async fn lost(node: &OwnedNode) -> EnterError {
    if node.session().is_over().await {
        EnterError::SessionLost { source: None }
    } else {
        EnterError::NodeDeleted {
            path: node.path().clone(),
        }
    }
}

/// The pause after a read that failed, each of which has waited for a connection.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
