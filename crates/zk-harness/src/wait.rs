//! Polls a condition until a deadline.

use std::time::Duration;

use tokio::time::Instant;

/// The pauses between the polls of a condition, until a deadline.
///
/// ```text
/// let mut polls = Polls::within(limit, pause);
/// loop {
///     let last = match probe().await { Ok(value) => return Ok(value), Err(last) => last };
///     if !polls.again().await {
///         return Err(last);
///     }
/// }
/// ```
#[derive(Debug)]
pub(crate) struct Polls {
    deadline: Instant,
    pause: Duration,
}

impl Polls {
    pub(crate) fn within(limit: Duration, pause: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            pause,
        }
    }

    /// Pauses and returns `true`, or returns `false` at once if there is no time for another poll.
    pub(crate) async fn again(&mut self) -> bool {
        if Instant::now() + self.pause > self.deadline {
            return false;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two polls of a condition"
        )]
        tokio::time::sleep(self.pause).await;
        true
    }
}

/// Calls `probe` until it succeeds or `within` has passed, at least once, and returns its last result.
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
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two polls of a condition"
        )]
        std::thread::sleep(pause);
    }
}
