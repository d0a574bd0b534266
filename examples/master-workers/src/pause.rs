//! Waiting before something is tried again.

use std::time::Duration;

/// Waits so long.
pub(crate) async fn pause(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

/// For what failed and may work the next time: a server that answers at once that it cannot is not asked in a tight loop.
pub(crate) const A_MOMENT: Duration = Duration::from_millis(100);
