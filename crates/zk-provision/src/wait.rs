//! Polls a condition until a deadline.

use std::thread;
use std::time::Duration;
use std::time::Instant;

const INTERVAL: Duration = Duration::from_millis(50);

/// Polls until there is a value; `None` after `limit`.
pub(super) fn until<T, E>(
    limit: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask()? {
            return Ok(Some(answer));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the interval of a wait that has a deadline"
        )]
        thread::sleep(INTERVAL.min(left));
    }
}
