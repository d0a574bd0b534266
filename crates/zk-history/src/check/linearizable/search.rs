//! Searches for an order of operations that a lock allows.
//!
//! The search is Wing and Gong's with Lowe's cache: it tries operations in the order of their invokes, and skips a set of
//! operations that led to the same state before.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeSet, HashSet};

use super::model::{Mutex, MutexOp};

/// An operation with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timed {
    /// The operation.
    pub(super) op: MutexOp,
    /// When it began.
    pub(super) invoked: u64,
    /// When it ended; `None` if it may take effect at any later time, or never.
    pub(super) returned: Option<u64>,
}

impl Timed {
    /// Creates an operation with its time.
    pub(super) const fn new(op: MutexOp, invoked: u64, returned: Option<u64>) -> Self {
        Self {
            op,
            invoked,
            returned,
        }
    }
}

/// The result of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Linearized {
    /// The operations are linearizable in this order of indices.
    Yes(Vec<usize>),
    /// They are not linearizable.
    No {
        /// The longest valid order that was found.
        longest: Vec<usize>,
        /// The completed operation that cannot follow it.
        stuck: usize,
    },
    /// The search reached its budget.
    GaveUp {
        /// The budget.
        steps: u64,
    },
}

/// Searches for a valid order, for at most `budget` operations tried.
///
/// Operations overlap if one ended in the nanosecond in which the other began.
///
/// Time is O(n log n) without backtracking, and at worst exponential in the number of overlapping operations. Memory is
/// that of the cached sets, each as large as the number of overlapping operations.
pub(super) fn linearize(calls: &[Timed], budget: u64) -> Linearized {
    // From here on an operation is its place in this order.
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|at| calls[*at].invoked);
    let mut left: BTreeSet<usize> = (0..order.len()).collect();
    let mut required = calls.iter().filter(|call| call.returned.is_some()).count();
    let mut current = Position::default();
    // The chosen operations, each with the position before it.
    let mut taken: Vec<(usize, Position)> = Vec::new();
    let mut tried: HashSet<(Position, Vec<usize>)> = HashSet::new();
    let (mut longest, mut stuck): (Vec<usize>, Option<usize>) = (Vec::new(), None);
    // The first place that was not tried at the current position.
    let mut from = 0;
    let mut steps = 0;
    while required > 0 {
        let mut chosen = None;
        // The remaining operation that ended first: none that began later can precede it.
        let mut first_end: Option<(u64, usize)> = None;
        for &place in &left {
            let call = &calls[order[place]];
            if first_end.is_some_and(|(end, _)| end < call.invoked) {
                break;
            }
            if place >= from {
                steps += 1;
                if steps > budget {
                    return Linearized::GaveUp { steps: budget };
                }
                if let Some(lock) = current.lock.after(call.op) {
                    let end = current.end.max(place + 1);
                    let next = Position { lock, end };
                    let skipped = left.range(..end).copied().filter(|other| *other != place);
                    if tried.insert((next, skipped.collect())) {
                        chosen = Some((place, next));
                        break;
                    }
                }
            }
            if let Some(end) = call.returned {
                let end = (end.max(call.invoked), place);
                first_end = Some(first_end.map_or(end, |first| first.min(end)));
            }
        }
        if let Some((place, next)) = chosen {
            left.remove(&place);
            required -= usize::from(calls[order[place]].returned.is_some());
            taken.push((place, std::mem::replace(&mut current, next)));
            from = 0;
            continue;
        }
        // The operation that ended first has no place in the order: backtrack.
        let (_, place) = first_end.expect("a required operation is left, and it has ended");
        if stuck.is_none() || taken.len() > longest.len() {
            longest = taken.iter().map(|(place, _)| order[*place]).collect();
            stuck = Some(order[place]);
        }
        let Some((last, before)) = taken.pop() else {
            let stuck = stuck.unwrap_or(order[place]);
            return Linearized::No { longest, stuck };
        };
        current = before;
        left.insert(last);
        required += usize::from(calls[order[last]].returned.is_some());
        from = last + 1;
    }
    Linearized::Yes(taken.into_iter().map(|(place, _)| order[place]).collect())
}

/// The state of the lock, and the end of the places of the chosen operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Position {
    lock: Mutex,
    end: usize,
}

#[cfg(test)]
mod tests;
