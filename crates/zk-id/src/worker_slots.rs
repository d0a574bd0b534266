//! Decides which worker number to try next, and names the nodes of a number.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeSet;

/// Returns the name of the node that claims a worker number.
pub(crate) fn worker_name(number: u32) -> String {
    format!("{WORKER}{number:05}")
}

/// Returns the name of the node that stores the high-water mark of a worker number.
pub(crate) fn mark_name(number: u32) -> String {
    format!("{MARK}{number:05}")
}

/// Returns the worker number that the node of this name claims, or `None` for a foreign node.
pub(crate) fn number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(WORKER)?.parse().ok()?;
    (worker_name(number) == name).then_some(number)
}

/// Returns the worker number whose high-water mark the node of this name stores, or `None` for a foreign node.
pub(crate) fn mark_number(name: &str) -> Option<u32> {
    let number = name.strip_prefix(MARK)?.parse().ok()?;
    (mark_name(number) == name).then_some(number)
}

/// Returns the free numbers in the order in which to try them: the preferred one, then all others from `start` on.
///
/// Processes that start at the same time use different values of `start`, so that they do not all try the same number.
pub(crate) fn free(
    taken: &BTreeSet<u32>,
    workers: u32,
    preferred: Option<u32>,
    start: u64,
) -> impl Iterator<Item = u32> {
    let preferred = preferred.filter(|number| *number < workers);
    let start = u32::try_from(start % u64::from(workers.max(1))).unwrap_or_default();
    let others = (start..workers).chain(0..start);
    preferred
        .into_iter()
        .chain(others.filter(move |number| Some(*number) != preferred))
        .filter(|number| !taken.contains(number))
}

const WORKER: &str = "worker-";
const MARK: &str = "mark-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_free_number_is_tried_once_and_no_other_one() {
        for workers in 0..6 {
            for taken in 0..1_u32 << workers {
                let taken: BTreeSet<u32> = (0..workers).filter(|at| taken & 1 << at != 0).collect();
                for preferred in [None, Some(0), Some(3), Some(9)] {
                    for start in 0..7 {
                        let order: Vec<u32> = free(&taken, workers, preferred, start).collect();
                        let tried: BTreeSet<u32> = order.iter().copied().collect();
                        assert_eq!(tried.len(), order.len());
                        let free: BTreeSet<u32> =
                            (0..workers).filter(|at| !taken.contains(at)).collect();
                        assert_eq!(tried, free);
                        if let Some(preferred) = preferred.filter(|it| free.contains(it)) {
                            assert_eq!(order[0], preferred);
                        }
                    }
                }
            }
        }
        let from = |start| free(&BTreeSet::new(), 1024, None, start).next();
        assert_eq!((from(7), from(1024 + 9)), (Some(7), Some(9)));
    }

    #[test]
    fn foreign_names_are_no_workers() {
        assert_eq!(number("worker-00042"), Some(42));
        assert_eq!(number(&worker_name(u32::MAX)), Some(u32::MAX));
        for name in [
            "worker-42",
            "worker-",
            "worker-+0042",
            "mark-00042",
            "worker-99999999999",
            "x",
        ] {
            assert_eq!(number(name), None, "{name}");
        }
        assert_ne!(mark_name(7), worker_name(7));
    }
}
