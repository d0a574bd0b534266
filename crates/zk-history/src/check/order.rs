//! Compares each call with those that returned before it began.
//!
//! Pure: no I/O and no clock.

use crate::Call;

/// Compares each call with the one with the highest key that returned before it was invoked.
///
/// `calls` are in the order of their invokes; `key` returns the key of a call. `compare` receives the highest call so
/// far, its key, and the call to compare with it.
pub(super) fn after_highest<'a, K: Ord + Copy>(
    calls: &[&'a Call],
    key: impl Fn(&Call) -> Option<K>,
    mut compare: impl FnMut(&'a Call, K, &'a Call),
) {
    let mut returned: Vec<(u64, &'a Call)> = calls
        .iter()
        .filter_map(|call| Some((call.returned?, *call)))
        .collect();
    returned.sort_by_key(|(at, _)| *at);
    let mut returned = returned.into_iter().peekable();
    let mut highest: Option<(K, &'a Call)> = None;
    for call in calls {
        while let Some((_, before)) = returned.next_if(|(at, _)| *at < call.invoked) {
            if let Some(reached) = key(before)
                && highest.is_none_or(|(highest, _)| highest < reached)
            {
                highest = Some((reached, before));
            }
        }
        if let Some((reached, before)) = highest {
            compare(before, reached, call);
        }
    }
}
