//! How much of a batch goes into one request.

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

const MOST_BYTES: usize = 512 * 1024;
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
