//! Waiting in tests.

use std::time::{Duration, Instant};

/// Calls `probe` until it succeeds or `within` has passed, and returns the last result.
pub(crate) fn until_blocking<T, E>(
    within: Duration,
    pause: Duration,
    mut probe: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = Instant::now() + within;
    loop {
        let last = match probe() {
            Ok(value) => return Ok(value),
            Err(last) => last,
        };
        if Instant::now() + pause > deadline {
            return Err(last);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two attempts of a wait that has a deadline"
        )]
        std::thread::sleep(pause);
    }
}
