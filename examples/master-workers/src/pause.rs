//! Pauses between two attempts.

use std::time::Duration;

/// Waits for `time`.
pub(crate) async fn pause(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// The pause after a recoverable error, so that a server that rejects requests at once is not called in a tight loop.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);
