//! Waiting for a condition, with a deadline and the last thing seen.

use std::time::Duration;

use tokio::time::Instant;

/// Asks `probe` until it yields a value or `within` has passed; then answers with what it said last.
///
/// The probe runs at least once.
pub(crate) async fn until<T, E>(
    within: Duration,
    pause: Duration,
    mut probe: impl AsyncFnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = Instant::now() + within;
    loop {
        let last = match probe().await {
            Ok(value) => return Ok(value),
            Err(last) => last,
        };
        if Instant::now() + pause > deadline {
            return Err(last);
        }
        #[expect(clippy::disallowed_methods, reason = "the one pause between two looks at a condition")]
        tokio::time::sleep(pause).await;
    }
}

/// [`until`] for threads.
pub(crate) fn until_blocking<T, E>(
    within: Duration,
    pause: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = std::time::Instant::now() + within;
    loop {
        let last = match probe() {
            Ok(value) => return Ok(value),
            Err(last) => last,
        };
        if std::time::Instant::now() + pause > deadline {
            return Err(last);
        }
        #[expect(clippy::disallowed_methods, reason = "the one pause between two looks at a condition")]
        std::thread::sleep(pause);
    }
}
