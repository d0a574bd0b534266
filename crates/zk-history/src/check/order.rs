//! What was over before something else began.
//!
//! Pure: no I/O and no clock.

use crate::Call;

/// Compares each call with the highest of those that had returned before it was invoked.
///
/// `calls` are in the order of their invokes; `reached` says how high a call got. `look` is given the highest call so
/// far, how high that is, and the call to compare with it.
pub(super) fn after_highest<'a, K: Ord + Copy>(
    calls: &[&'a Call],
    reached: impl Fn(&Call) -> Option<K>,
    mut look: impl FnMut(&'a Call, K, &'a Call),
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
            if let Some(key) = reached(before)
                && highest.is_none_or(|(highest, _)| highest < key)
            {
                highest = Some((key, before));
            }
        }
        if let Some((key, before)) = highest {
            look(before, key, call);
        }
    }
}
