//! Waits for a condition, in the tests of the library and of the program.

use std::time::{Duration, Instant};

/// Waits until `condition` holds; panics with `what` if it does not within a minute.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two checks of the condition"
        )]
        std::thread::sleep(Duration::from_millis(10));
    }
}
