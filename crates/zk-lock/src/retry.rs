//! Retries that last as long as the session: a waiter keeps its place until then, even without a connection.

use std::time::Duration;

use zk_core::{Error, ErrorClass, OperationFuture, Session, SessionLease};

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
            Err(error) if error.class() == ErrorClass::Recoverable => {
                tracing::debug!(%error, "a waiter keeps its place and retries a read");
                // The next attempt reports a session that is over.
                session.pause(RETRY_PAUSE).await;
            }
            answer => return answer,
        }
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
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(50);
