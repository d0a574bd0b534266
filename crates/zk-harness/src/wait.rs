//! Waiting for a condition, with a deadline and the last thing seen.

use std::time::Duration;

use tokio::time::Instant;

/// Looks at a condition every now and then until a deadline.
///
/// ```text
/// let mut looks = Looks::within(limit, pause);
/// loop {
///     let last = match probe().await { Ok(value) => return Ok(value), Err(last) => last };
///     if !looks.again().await {
///         return Err(last);
///     }
/// }
/// ```
#[derive(Debug)]
pub(crate) struct Looks {
    deadline: Instant,
    pause: Duration,
}

impl Looks {
    pub(crate) fn within(limit: Duration, pause: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            pause,
        }
    }

    /// Pauses and answers whether there is time for another look; if not, answers at once.
    pub(crate) async fn again(&mut self) -> bool {
        if Instant::now() + self.pause > self.deadline {
            return false;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the one pause between two looks at a condition"
        )]
        tokio::time::sleep(self.pause).await;
        true
    }
}

/// Asks `probe` until it yields a value or `within` has passed; then answers with what it said last.
///
/// The probe runs at least once.
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
            reason = "the one pause between two looks at a condition"
        )]
        std::thread::sleep(pause);
    }
}
