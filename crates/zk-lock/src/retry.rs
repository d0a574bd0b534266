//! Retries that last as long as the session: a waiter keeps its place until then, even without a connection.

use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OperationFuture;
use zk_core::Session;
use zk_core::SessionLease;
use zk_core::Watch;
use zk_core::WatchEvent;

use crate::error::AcquireError;

/// Repeats a read until there is a reply or the session is over.
///
/// A waiter has its place in the queue as long as its session lives, so it does not give the place up because the
/// ensemble is unreachable for a while.
/// Each attempt takes as long as the operation timeout and the retry policy of the session allow.
pub(crate) async fn retry_read<T>(
    session: &Session,
    read: impl Fn() -> OperationFuture<T>,
) -> Result<T, Error> {
    loop {
        match read().await {
            // Other subscriptions decide when there is room for a watch again: the caller handles that.
            Err(error) if error.kind() == ErrorKind::TooManyWatches => return Err(error),
            Err(error) if error.class() == ErrorClass::Recoverable => {
                tracing::debug!(%error, "a waiter keeps its place and retries a read");
                // The next attempt reports a session that is over.
                drop(tokio::time::timeout(RETRY_PAUSE, session.lost()).await);
            }
            answer => return answer,
        }
    }
}

/// Whether the session had unfinished deletions at a path or directly below it, when this value was created.
///
/// The deletion of the node of a dropped guard or waiter normally leaves before any later request of the session. It
/// does not if there was no connection, or if the create was dropped before its reply reported the number of the node.
/// An attempt that must not wait for other holders therefore records this before it lists, and lists again if it finds
/// a predecessor that may be one of these nodes.
#[derive(Debug)]
pub(crate) struct PendingDeletes<'a> {
    session: &'a Session,
    path: &'a NodePath,
    any: bool,
}

impl<'a> PendingDeletes<'a> {
    pub(crate) fn at(session: &'a Session, path: &'a NodePath) -> Self {
        Self {
            session,
            path,
            any: !session.is_settled_at(path),
        }
    }

    /// Waits until they are finished, for at most an operation timeout; returns false if there were none.
    pub(crate) async fn wait(&self) -> bool {
        if self.any {
            let limit = self.session.operation_timeout();
            let settled = self.session.settled_at(self.path);
            if tokio::time::timeout(limit, settled).await.is_err() {
                tracing::debug!(path = %self.path, "the session still has unfinished deletions here");
            }
        }
        self.any
    }
}

/// Waits until a watch fires.
pub(crate) async fn watch_fired(session: &Session, mut watch: Watch) -> Result<(), AcquireError> {
    let event = tokio::select! {
        biased;
        _ = session.lost() => WatchEvent::SessionLost,
        event = watch.changed() => event,
    };
    match event {
        WatchEvent::SessionLost => Err(AcquireError::SessionLost { source: None }),
        _ => Ok(()),
    }
}

/// Waits until the session is proved alive.
pub(crate) async fn prove_alive(
    session: &Session,
    session_lease: &SessionLease,
) -> Result<(), AcquireError> {
    loop {
        match session_lease.renewed(session.session_timeout()).await {
            Err(error) if error.class() == ErrorClass::Recoverable => {
                tracing::debug!(session = %session.id(), %error, "retrying to prove the session alive");
            }
            proved => return Ok(proved?),
        }
    }
}

/// The pause between two attempts, independent of the session's retry policy, which may allow none or end at once.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
