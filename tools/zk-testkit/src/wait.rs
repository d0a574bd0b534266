//! Waiting with a limit.

use std::time::Duration;

/// Waits for a future for at most this long, by Tokio's time.
///
/// # Panics
///
/// If the future is not ready by then.
///
/// # Cancel safety
///
/// As safe as `happening`.
pub async fn within<T>(limit: Duration, what: &str, happening: impl Future<Output = T>) -> T {
    let happened = tokio::time::timeout(limit, happening).await;
    happened.unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}
