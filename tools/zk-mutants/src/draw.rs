//! Draws a sample of the places that were found.
//!
//! Pure: random choices follow from the seed alone.

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::sites::Site;

/// A place in a file of a crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The file, from the root of the workspace.
    pub(crate) file: String,
    pub(crate) site: Site,
}

/// Puts the candidates of a crate in the order in which they are drawn.
pub(crate) fn shuffle(candidates: &mut [Candidate], crate_name: &str, seed: u64) {
    // A crate's draw does not depend on which other crates are drawn.
    let salt = crate_name.bytes().fold(0_u64, |salt, byte| {
        salt.wrapping_mul(31).wrapping_add(byte.into())
    });
    Rng::with_seed(seed ^ salt).shuffle(candidates);
}

/// Returns the indexes of the first `count` candidates that can be built together, without those that do not compile.
pub(crate) fn take(
    candidates: &[Candidate],
    count: usize,
    dropped: &BTreeSet<usize>,
) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    for (at, candidate) in candidates.iter().enumerate() {
        if taken.len() == count {
            break;
        }
        let is_free = taken
            .iter()
            .map(|other| &candidates[*other])
            .all(|other| other.file != candidate.file || !other.site.overlaps(&candidate.site));
        if is_free && !dropped.contains(&at) {
            taken.push(at);
        }
    }
    taken
}

/// Divides `total` in proportion to the sizes, with at least `least` for each.
pub(crate) fn apportion(sizes: &[usize], total: usize, least: usize) -> Vec<usize> {
    let mut shares = vec![least; sizes.len()];
    for _ in least * sizes.len()..total {
        // The one that is the furthest below its share.
        let next = (0..sizes.len()).max_by(|&a, &b| {
            let of_a = sizes[a] * (shares[b] + 1);
            let of_b = sizes[b] * (shares[a] + 1);
            of_a.cmp(&of_b).then(b.cmp(&a))
        });
        if let Some(next) = next {
            shares[next] += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::Form;

    fn candidate(file: &str, start: usize, end: usize) -> Candidate {
        Candidate {
            file: file.to_owned(),
            site: Site {
                range: start..end,
                line: 1,
                form: Form::Expression,
                original: String::new(),
                changed: String::new(),
            },
        }
    }

    #[test]
    fn a_seed_always_draws_the_same_order_and_another_seed_another() {
        let drawn = |name: &str, seed| {
            let mut candidates: Vec<_> = (0..50).map(|at| candidate("a", at, at + 1)).collect();
            shuffle(&mut candidates, name, seed);
            candidates
        };
        assert_eq!(drawn("zk-lock", 1), drawn("zk-lock", 1));
        assert_ne!(drawn("zk-lock", 1), drawn("zk-lock", 2));
        assert_ne!(drawn("zk-lock", 1), drawn("zk-queue", 1));
    }

    #[test]
    fn overlapping_and_dropped_candidates_are_not_taken() {
        let candidates = [
            candidate("a", 0, 10),
            candidate("a", 5, 6),
            candidate("b", 5, 6),
            candidate("a", 10, 12),
            candidate("a", 20, 22),
        ];
        let taken =
            |count, dropped: &[usize]| take(&candidates, count, &dropped.iter().copied().collect());
        assert_eq!(taken(3, &[]), [0, 2, 3]);
        assert_eq!(taken(9, &[]), [0, 2, 3, 4]);
        assert_eq!(taken(3, &[0]), [1, 2, 3]);
        assert_eq!(taken(3, &[2, 3]), [0, 4]);
    }

    #[test]
    fn shares_are_in_proportion_and_none_is_below_the_least() {
        assert_eq!(apportion(&[100, 100], 10, 1), [5, 5]);
        assert_eq!(apportion(&[900, 100, 1], 20, 2), [16, 2, 2]);
        assert_eq!(apportion(&[300, 200, 100], 12, 1), [6, 4, 2]);
        assert_eq!(apportion(&[1, 1], 1, 4), [4, 4], "the least comes first");
    }
}
