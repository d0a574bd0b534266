//! Limits the size of batches and requests, and spreads consumers that compete for the same items.
//!
//! Pure: no I/O and no clock.

/// Returns how many of the parts, from the first one on, fit into one request; at least one, unless there is none.
///
/// By default, servers refuse requests of more than a megabyte, and clients refuse such replies.
pub(crate) fn fitting_count(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut sum = 0_usize;
    let fitting = sizes.into_iter().take_while(|size| {
        let is_first = sum == 0;
        sum = sum.saturating_add(size.saturating_add(OVERHEAD));
        is_first || sum <= MAX_BYTES
    });
    fitting.count()
}

/// Returns how many items to read concurrently next, if the largest one of those before had this size.
///
/// It is as many as have half a megabyte at that size, and at least [`MIN_READS`].
pub(crate) fn next_read_count(largest: Option<usize>) -> usize {
    match largest {
        None => MIN_READS,
        Some(largest) => (MAX_BYTES / largest.saturating_add(OVERHEAD)).max(MIN_READS),
    }
}

/// Returns how many items to read with one request, if the largest one of those before had this size.
///
/// The sizes of items are not known before they are read, and a client that gets too long a reply breaks the connection.
/// So large items, of more than 128 KiB, are read with fewer in a request or one by one. Eight of the largest items of
/// all do not exceed the limit of a client: a reply may be sixteen times as long as a request.
pub(crate) fn items_per_read(largest: Option<usize>) -> usize {
    let largest = largest.unwrap_or(0).max(1);
    (MAX_REPLY / largest).clamp(1, MAX_ITEMS_PER_READ)
}

/// Returns what to expect of the largest item of the next reads, after a read of items with these sizes.
///
/// What was read before counts half as much each time.
pub(crate) fn expected_largest(
    before: Option<usize>,
    sizes: impl IntoIterator<Item = usize>,
) -> Option<usize> {
    let before = before.map(|before| before / 2);
    before.into_iter().chain(sizes).max()
}

/// Returns how many of `wanted` items to read ahead with one request or flight, if the largest one of those before had
/// this size: what is read ahead stays in memory until it is taken.
pub(crate) fn prefetch_limit(largest: Option<usize>, wanted: usize) -> usize {
    let largest = largest.unwrap_or(0).max(1);
    (MAX_BYTES / largest).clamp(1, wanted.max(1))
}

/// Returns how many of the next items to read ahead while `in_flight` items are being taken and the first `ahead` of the
/// others were read or are being read.
///
/// Each of those tasks may take one of the others next. Nothing is read until one of these might be missing, and then
/// `wanted` items with one request.
pub(crate) fn prefetch_count(in_flight: usize, ahead: usize, wanted: usize) -> usize {
    if ahead > in_flight {
        0
    } else {
        wanted.min(MAX_PREFETCHED.saturating_sub(ahead))
    }
}

/// Returns how many of the first parts of a batch to leave to other consumers after so many refusals.
///
/// Other consumers take items from the front. One refusal is chance. From the second one on, only the later half is
/// tried: otherwise a batch never succeeds beside a consumer that takes one item after the other.
pub(crate) const fn contended_count(parts: usize, refusals: u32) -> usize {
    if refusals < 2 { 0 } else { parts / 2 }
}

/// Returns how many bytes an item may have so that every later transaction about it fits into one request: claiming it,
/// putting it back, and moving it to the dead letters. `path` is the length of the longest path that names it, and
/// `max_request` that of a request.
pub(crate) const fn max_item_size(path: usize, max_request: usize) -> usize {
    max_request.saturating_sub(MAX_PARTS * (path + OVERHEAD) + TEXTS)
}

const MAX_BYTES: usize = 512 * 1024;
const MIN_READS: usize = 16;
/// A multi-read of `zk-core` has at most as many nodes in one request.
pub(crate) const MAX_ITEMS_PER_READ: usize = 8;
/// What is expected of the items after one that was missing, if none was read before: several are read with one request.
pub(crate) const UNKNOWN_SIZE: usize = MAX_REPLY / MAX_ITEMS_PER_READ;
/// How many items are read ahead at most.
const MAX_PREFETCHED: usize = 128;
/// How many bytes the reply to a read of several items is expected to have at most.
const MAX_REPLY: usize = 1024 * 1024;
/// The parts of the longest transaction about one item: the token, three preconditions, and five for a dead letter.
const MAX_PARTS: usize = 9;
/// The owner of a claim, or the reason of a dead letter.
const TEXTS: usize = 1024;
/// What a part adds to a request or its reply besides its paths and data: type, lengths, ACL, times.
const OVERHEAD: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_is_filled_and_has_at_least_one_part() {
        for (sizes, expected) in [
            (vec![], 0),
            (vec![0; 10], 10),
            (vec![200_000; 5], 2),
            (vec![MAX_BYTES - OVERHEAD], 1),
            (vec![MAX_BYTES - 2 * OVERHEAD, 0], 2),
            (vec![MAX_BYTES - 2 * OVERHEAD, 1], 1),
            (vec![900_000, 1, 900_000], 1),
            (vec![usize::MAX, usize::MAX], 1),
            (vec![0; 100_000], MAX_BYTES / OVERHEAD),
        ] {
            assert_eq!(
                fitting_count(sizes.iter().copied()),
                expected,
                "{sizes:.5?}"
            );
        }
    }

    #[test]
    fn small_items_are_read_in_two_flights_large_ones_in_more() {
        for (largest, expected) in [
            (None, 16),
            (Some(10), MAX_BYTES / (10 + OVERHEAD)),
            (Some(0), MAX_BYTES / OVERHEAD),
            (Some(1_000_000), 16),
            (Some(10_000), 51),
            (Some(usize::MAX), 16),
        ] {
            assert_eq!(next_read_count(largest), expected, "{largest:?}");
        }
    }

    #[test]
    fn large_items_are_read_with_fewer_in_a_request() {
        for (largest, expected) in [
            (None, 8),
            (Some(0), 8),
            (Some(128 * 1024), 8),
            (Some(128 * 1024 + 1), 7),
            (Some(500_000), 2),
            (Some(1 << 21), 1),
            (Some(usize::MAX), 1),
        ] {
            assert_eq!(items_per_read(largest), expected, "{largest:?}");
        }
        for (largest, wanted, expected) in [
            (None, 8, 8),
            (Some(64 * 1024), 8, 8),
            (Some(64 * 1024 + 1), 8, 7),
            (Some(10_000), 500, 52),
            (Some(usize::MAX), 8, 1),
            (Some(1), 0, 1),
        ] {
            assert_eq!(prefetch_limit(largest, wanted), expected, "{largest:?}");
        }
        assert_eq!(expected_largest(None, []), None);
        assert_eq!(expected_largest(None, [3, 9, 1]), Some(9));
        assert_eq!(expected_largest(Some(100), [3, 9, 1]), Some(50));
        assert_eq!(expected_largest(Some(100), []), Some(50));
    }

    #[test]
    fn after_missing_items_several_are_read_with_one_request_and_not_more_at_once() {
        assert_eq!(items_per_read(Some(UNKNOWN_SIZE)), MAX_ITEMS_PER_READ);
        assert_eq!(next_read_count(Some(UNKNOWN_SIZE)), MIN_READS);
    }

    #[test]
    fn items_are_read_ahead_before_one_might_be_missing() {
        for (in_flight, ahead, wanted, expected) in [
            (1, 0, 8, 8),
            (1, 1, 8, 8),
            (1, 2, 8, 0),
            (20, 8, 8, 8),
            (20, 20, 8, 8),
            (20, 21, 8, 0),
            (500, 120, 8, 8),
            (500, 121, 8, 7),
            (500, 200, 8, 0),
            (250, 0, 250, 128),
            (64, 0, 64, 64),
            (64, 65, 64, 0),
        ] {
            assert_eq!(
                prefetch_count(in_flight, ahead, wanted),
                expected,
                "{in_flight}, {ahead}, {wanted}"
            );
        }
    }

    #[test]
    fn the_second_refusal_leaves_the_first_half_to_others() {
        for (parts, refusals, expected) in [
            (10, 1, 0),
            (10, 2, 5),
            (5, 2, 2),
            (3, 3, 1),
            (2, 4, 1),
            (1, 9, 0),
            (0, 9, 0),
        ] {
            assert_eq!(
                contended_count(parts, refusals),
                expected,
                "{parts}, {refusals}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_fits_is_small_enough_and_maximal(
            sizes in proptest::collection::vec(0_usize..300_000, 0..40)
        ) {
            let count = fitting_count(sizes.iter().copied());
            let sum = |of: &[usize]| of.iter().map(|size| size + OVERHEAD).sum::<usize>();
            prop_assert!(count == sizes.len().min(1) || sum(&sizes[..count]) <= MAX_BYTES);
            prop_assert!(count == sizes.len() || sum(&sizes[..=count]) > MAX_BYTES);
        }
    }
}
