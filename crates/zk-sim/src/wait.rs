//! Waiting in tests, by Tokio's time, which is best paused.

use std::task::Poll;
use std::time::Duration;

/// Waits for a future for at most two minutes of Tokio's time.
///
/// # Panics
///
/// If the future is not ready by then.
pub async fn soon<T>(what: &str, happening: impl Future<Output = T>) -> T {
    tokio::time::timeout(MAX_WAIT, happening)
        .await
        .unwrap_or_else(|_| panic!("not within {MAX_WAIT:?}: {what}"))
}

/// Checks every 10 ms until `condition` holds, for at most two minutes of Tokio's time.
///
/// Use it for effects of another task, another session or a server.
///
/// # Panics
///
/// If the condition does not hold by then.
pub async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    soon(what, async {
        while !condition().await {
            pass(POLL_INTERVAL).await;
        }
    })
    .await;
}

/// Lets time pass, during which other tasks and the ensemble run.
pub async fn pass(time: Duration) {
    let nothing = std::future::pending::<()>();
    drop(tokio::time::timeout(time, nothing).await);
}

/// Polls a future at most `times` times, then drops it; returns its output if it became ready.
///
/// To drop a call at each of its await points, count up from 0 until there is an output.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// use zk_sim::wait::polled;
///
/// let twice = || async {
///     tokio::task::yield_now().await;
///     1
/// };
/// assert_eq!(polled(0, twice()).await, None);
/// assert_eq!(polled(1, twice()).await, None);
/// assert_eq!(polled(2, twice()).await, Some(1));
/// # }
/// ```
pub async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = Box::pin(future);
    let mut left = times;
    std::future::poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

const MAX_WAIT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
