//! Unique registration times.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::SystemTime;

/// Returns the milliseconds since 1970, and never the same number twice.
///
/// The number makes the data of a node differ from every other registration of this process. After a lost reply the
/// data identifies the creator of the node.
pub(crate) fn registration_time() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    });
    next(&LAST, now)
}

fn next(last: &AtomicI64, now: i64) -> i64 {
    let later = |last: i64| now.max(last.saturating_add(1));
    let before = last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
        Some(later(last))
    });
    later(before.unwrap_or_else(|last| last))
}

static LAST: AtomicI64 = AtomicI64::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_registration_time_comes_twice_also_when_the_clock_stands_or_goes_back() {
        let last = AtomicI64::new(0);
        let times = [5, 5, 5, 4, 9, 8].map(|now| next(&last, now));
        assert_eq!(times, [5, 6, 7, 8, 9, 10]);
    }
}
