//! Searches for an order of operations that a lock allows.
//!
//! The search is Wing and Gong's with Lowe's cache: it tries operations in the order of their invokes, and skips a set of
//! operations that led to the same state before.
//!
//! Pure: no I/O and no clock.

use std::collections::HashSet;

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
/// Time is linear without backtracking, and at worst exponential in the number of overlapping operations. Memory is that
/// of the cached sets, each as large as the number of overlapping operations.
pub(super) fn linearize(calls: &[Timed], budget: u64) -> Linearized {
    let mut search = Search::new(calls);
    let mut state = Mutex::default();
    let mut tried: HashSet<(Taken, Mutex)> = HashSet::new();
    // The chosen operations, each with the state before it.
    let mut taken: Vec<(usize, Mutex)> = Vec::new();
    let (mut longest, mut stuck): (Vec<usize>, Option<usize>) = (Vec::new(), None);
    let mut at = search.first();
    let mut steps = 0;
    while search.required > 0 {
        let Some(event) = at else {
            // Not reached: the search stops at the end of each required operation.
            return Linearized::GaveUp { steps };
        };
        let call = search.call(event);
        if search.is_invoke(event) {
            steps += 1;
            if steps > budget {
                return Linearized::GaveUp { steps: budget };
            }
            if let Some(next) = state.after(calls[call].op) {
                search.take(call);
                if tried.insert((search.taken.clone(), next)) {
                    taken.push((call, std::mem::replace(&mut state, next)));
                    at = search.first();
                    continue;
                }
                search.put_back(call);
            }
            at = search.next(event);
        } else {
            // It ended without a place in the order: backtrack.
            if stuck.is_none() || taken.len() > longest.len() {
                longest = taken.iter().map(|(call, _)| *call).collect();
                stuck = Some(call);
            }
            let Some((last, before)) = taken.pop() else {
                let stuck = stuck.unwrap_or(call);
                return Linearized::No { longest, stuck };
            };
            state = before;
            search.put_back(last);
            at = search.next(search.invoke_of(last));
        }
    }
    Linearized::Yes(taken.into_iter().map(|(call, _)| call).collect())
}

/// A linked list of invokes and returns in their order, from which operations are taken and put back.
struct Search {
    /// Per event: the operation, and whether it is the invoke.
    events: Vec<(usize, bool)>,
    /// Per event, its neighbours; the last element is the head of the list.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Per operation, its events.
    invokes: Vec<usize>,
    returns: Vec<Option<usize>>,
    /// Per operation, its index in the order of invokes.
    places: Vec<usize>,
    taken: Taken,
    /// The number of remaining operations that ended.
    required: usize,
}

/// A set of operations: all below an index, and some above it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Taken {
    all_before: usize,
    /// From there on, one bit each.
    rest: Vec<u64>,
}

impl Search {
    fn new(calls: &[Timed]) -> Self {
        let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * calls.len());
        for (at, call) in calls.iter().enumerate() {
            moments.push((call.invoked, false, at));
            if let Some(returned) = call.returned {
                moments.push((returned.max(call.invoked), true, at));
            }
        }
        // At the same time, invokes come first.
        moments.sort_unstable();
        let count = moments.len();
        let mut search = Self {
            events: Vec::with_capacity(count),
            next: (1..=count).chain([0]).collect(),
            previous: (0..=count)
                .map(|at| at.checked_sub(1).unwrap_or(count))
                .collect(),
            invokes: vec![0; calls.len()],
            returns: vec![None; calls.len()],
            places: vec![0; calls.len()],
            taken: Taken::default(),
            required: 0,
        };
        let mut place = 0;
        for (event, (_, is_return, call)) in moments.into_iter().enumerate() {
            search.events.push((call, !is_return));
            if is_return {
                search.returns[call] = Some(event);
                search.required += 1;
            } else {
                search.invokes[call] = event;
                search.places[call] = place;
                place += 1;
            }
        }
        search
    }

    fn call(&self, event: usize) -> usize {
        self.events[event].0
    }

    fn is_invoke(&self, event: usize) -> bool {
        self.events[event].1
    }

    fn invoke_of(&self, call: usize) -> usize {
        self.invokes[call]
    }

    fn first(&self) -> Option<usize> {
        self.next(self.events.len())
    }

    fn next(&self, event: usize) -> Option<usize> {
        Some(self.next[event]).filter(|next| *next < self.events.len())
    }

    fn take(&mut self, call: usize) {
        self.unlink(self.invokes[call]);
        if let Some(event) = self.returns[call] {
            self.unlink(event);
            self.required -= 1;
        }
        self.taken.insert(self.places[call]);
    }

    /// Puts back the operation that was taken last.
    fn put_back(&mut self, call: usize) {
        if let Some(event) = self.returns[call] {
            self.link(event);
            self.required += 1;
        }
        self.link(self.invokes[call]);
        self.taken.remove(self.places[call]);
    }

    fn unlink(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn link(&mut self, event: usize) {
        let (previous, next) = (self.previous[event], self.next[event]);
        self.next[previous] = event;
        self.previous[next] = event;
    }
}

impl Taken {
    fn insert(&mut self, place: usize) {
        let at = place - self.all_before;
        if self.rest.len() <= at / 64 {
            self.rest.resize(at / 64 + 1, 0);
        }
        self.rest[at / 64] |= 1 << (at % 64);
        let full = self
            .rest
            .iter()
            .take_while(|word| **word == u64::MAX)
            .count();
        if full > 0 {
            self.rest.drain(..full);
            self.all_before += 64 * full;
        }
    }

    fn remove(&mut self, place: usize) {
        if place < self.all_before {
            let words = (self.all_before - place).div_ceil(64);
            self.rest.splice(..0, vec![u64::MAX; words]);
            self.all_before -= 64 * words;
        }
        let at = place - self.all_before;
        self.rest[at / 64] &= !(1 << (at % 64));
        while self.rest.last() == Some(&0) {
            self.rest.pop();
        }
    }
}

#[cfg(test)]
mod tests;
