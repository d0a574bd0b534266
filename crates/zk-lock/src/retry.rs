//! Waiting as long as the session lives: what a waiter has, it has until then, whatever becomes of the connection.

use std::time::Duration;

use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::OperationFuture;
use zk_core::Session;
use zk_core::Trusted;
use zk_core::Watch;
use zk_core::WatchEvent;

use crate::error::AcquireError;

/// Repeats a read until there is an answer or the session is over.
///
/// A waiter has its place in the queue as long as its session lives, so it does not give it up because the ensemble is
/// out of reach for a while.
/// Each attempt takes as long as the operation timeout and the retry policy of the session allow.
pub(crate) async fn patiently<T>(
    session: &Session,
    read: impl Fn() -> OperationFuture<T>,
) -> Result<T, Error> {
    loop {
        match read().await {
            // Whether there will be room for a watch again depends on others: that is for the caller to know.
            Err(error) if error.kind() == ErrorKind::TooManyWatches => return Err(error),
            Err(error) if error.class() == ErrorClass::Recoverable => {
                tracing::debug!(%error, "a waiter keeps its place and asks again");
                // A session that is over is for the next attempt to report.
                drop(tokio::time::timeout(PAUSE, session.lost()).await);
            }
            answer => return answer,
        }
    }
}

/// What a session was still removing at a path and right below it when this was made.
///
/// The deletion of the node of a dropped guard or waiter leaves before any later request of the session, and need not be
/// waited for. It does not if there was no connection, or if the create was dropped before its answer told the number of
/// the node. Whoever tries for a lock notes this before it looks, and looks again if what it finds may be on its way out.
#[derive(Debug)]
pub(crate) struct Remains<'a> {
    session: &'a Session,
    path: &'a NodePath,
    is_any: bool,
}

impl<'a> Remains<'a> {
    pub(crate) fn at(session: &'a Session, path: &'a NodePath) -> Self {
        Self {
            session,
            path,
            is_any: !session.is_settled_at(path),
        }
    }

    /// Waits until they are gone, as long as a request may take; false if there were none.
    pub(crate) async fn are_gone(&self) -> bool {
        if self.is_any {
            let limit = self.session.operation_timeout();
            let settled = self.session.settled_at(self.path);
            if tokio::time::timeout(limit, settled).await.is_err() {
                tracing::debug!(path = %self.path, "what this session left is not removed yet");
            }
        }
        self.is_any
    }
}

/// Waits until what is watched changed or went.
pub(crate) async fn changed(session: &Session, mut watch: Watch) -> Result<(), AcquireError> {
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

/// Makes sure that the session is alive, however long it takes to know.
pub(crate) async fn proved(session: &Session, trusted: &Trusted) -> Result<(), AcquireError> {
    loop {
        match trusted.renewed(session.session_timeout()).await {
            Err(error) if error.class() == ErrorClass::Recoverable => {
                tracing::debug!(session = %session.id(), %error, "a session is to be proved alive again");
            }
            proved => return Ok(proved?),
        }
    }
}

/// Between two attempts, whatever the session's own policy says: it may allow none, or end at once.
const PAUSE: Duration = Duration::from_millis(50);
