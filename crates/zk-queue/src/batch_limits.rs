//! How much of a batch goes into one request.
//!
//! Pure: no I/O and no clock.

/// Tells how many of the parts, from the first one on, go into one request: one at least, if there is any.
///
/// Servers refuse requests of more than a megabyte, unless they are told otherwise, and so do clients with answers.
pub(crate) fn fitting(sizes: impl IntoIterator<Item = usize>) -> usize {
    let mut sum = 0_usize;
    let fitting = sizes.into_iter().take_while(|size| {
        let is_first = sum == 0;
        sum = sum.saturating_add(size.saturating_add(OVERHEAD));
        is_first || sum <= MOST_BYTES
    });
    fitting.count()
}

/// Tells how many items are read in the next flight, after so many that had so many bytes.
///
/// As many as have half a megabyte if they are as large as those before, and some in any case.
pub(crate) fn in_flight(asked: usize, bytes: usize) -> usize {
    match bytes.checked_div(asked) {
        None => LEAST_IN_FLIGHT,
        Some(average) => (MOST_BYTES / (average + OVERHEAD)).max(LEAST_IN_FLIGHT),
    }
}

/// Tells how many of the first parts of a batch are left to others, after so many refusals.
///
/// Others take items from the front. Once is chance; from the second time on the later half is tried alone, because
/// whoever goes on to try all of them gets none beside a consumer that takes one after the other.
pub(crate) const fn left_to_others(parts: usize, refusals: u32) -> usize {
    if refusals < 2 { 0 } else { parts / 2 }
}

/// Tells among how many further items, beyond the first one, a consumer chooses the next one to try, after so many
/// refusals in one call that takes `most` at once.
///
/// All consumers try the first item, and one of them gets it. Once is chance, and whoever is alone keeps the order; from
/// the second time on others are faster each time, and would be for ever.
pub(crate) fn reach(refusals: u32, most: usize) -> usize {
    if refusals < 2 {
        0
    } else {
        most.saturating_mul(1 << refusals.min(FARTHEST))
    }
}

/// Tells how many bytes an item may have at most, so that whatever is done about it goes into one request: claiming it,
/// putting it back, putting it to the dead letters; `path` is the length of the longest path that names it.
pub(crate) const fn largest(path: usize) -> usize {
    LARGEST_REQUEST.saturating_sub(MOST_PARTS * (path + OVERHEAD) + TEXTS)
}

const FARTHEST: u32 = 15;
const MOST_BYTES: usize = 512 * 1024;
const LEAST_IN_FLIGHT: usize = 16;
/// What servers take unless they are told otherwise.
const LARGEST_REQUEST: usize = 0xf_ffff;
/// The parts of the longest transaction about one item: the receipt, three for the ground, and five for a dead letter.
const MOST_PARTS: usize = 9;
/// The owner of a claim, or the reason of a dead letter.
const TEXTS: usize = 1024;
/// What a part takes in a request or its answer besides its paths and data: kind, lengths, rights, times.
const OVERHEAD: usize = 128;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // covers: Q4
    #[test]
    fn as_much_goes_into_a_request_as_it_holds_and_one_part_at_least() {
        for (sizes, expected) in [
            (vec![], 0),
            (vec![0; 10], 10),
            (vec![200_000; 5], 2),
            (vec![MOST_BYTES - OVERHEAD], 1),
            (vec![MOST_BYTES - 2 * OVERHEAD, 0], 2),
            (vec![MOST_BYTES - 2 * OVERHEAD, 1], 1),
            (vec![900_000, 1, 900_000], 1),
            (vec![usize::MAX, usize::MAX], 1),
            (vec![0; 100_000], MOST_BYTES / OVERHEAD),
        ] {
            assert_eq!(fitting(sizes.iter().copied()), expected, "{sizes:.5?}");
        }
    }

    #[test]
    fn small_items_are_read_in_two_flights_and_large_ones_a_few_at_once() {
        for (asked, bytes, expected) in [
            (0, 0, 16),
            (16, 160, MOST_BYTES / (10 + OVERHEAD)),
            (16, 0, MOST_BYTES / OVERHEAD),
            (16, 16 * 1_000_000, 16),
            (16, 16 * 10_000, 51),
        ] {
            assert_eq!(in_flight(asked, bytes), expected, "{asked}, {bytes}");
        }
    }

    // covers: Q3 Q4
    #[test]
    fn from_the_second_refusal_on_the_first_half_is_left_to_others() {
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
                left_to_others(parts, refusals),
                expected,
                "{parts}, {refusals}"
            );
        }
    }

    #[test]
    fn whoever_is_refused_twice_chooses_among_more_and_more() {
        for (refusals, most, expected) in [
            (0, 1, 0),
            (1, 500, 0),
            (2, 1, 4),
            (3, 1, 8),
            (3, 10, 80),
            (15, 1, 1 << 15),
            (u32::MAX, 1, 1 << 15),
        ] {
            assert_eq!(reach(refusals, most), expected, "{refusals}, {most}");
        }
    }

    proptest! {
        #[test]
        fn what_fits_is_small_enough_and_the_next_one_would_not_fit(
            sizes in proptest::collection::vec(0_usize..300_000, 0..40)
        ) {
            let count = fitting(sizes.iter().copied());
            let sum = |of: &[usize]| of.iter().map(|size| size + OVERHEAD).sum::<usize>();
            prop_assert!(count == sizes.len().min(1) || sum(&sizes[..count]) <= MOST_BYTES);
            prop_assert!(count == sizes.len() || sum(&sizes[..=count]) > MOST_BYTES);
        }
    }
}
