//! Waiting for a condition, for the tests of the library and of the program.

use std::time::Duration;
use std::time::Instant;

/// Waits until `condition` holds; panics with `what` if it does not within 20 s.
#[track_caller]
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(
            Instant::now() < deadline,
            "waited 20 s in vain until {what}"
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two looks at the condition"
        )]
        std::thread::sleep(Duration::from_millis(10));
    }
}
