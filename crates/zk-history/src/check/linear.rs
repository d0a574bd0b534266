//! Linearizability: whether there is an order of operations, each within its time, that a model allows.
//!
//! The search is the one of Wing and Gong with the memory of Lowe: operations are tried in the order of their invokes,
//! and no set of operations that led to the same state is tried again.
//!
//! Pure: no I/O and no clock.

use std::collections::HashSet;
use std::hash::Hash;

mod models;

pub use models::{MutexModel, MutexOp, RegisterModel, RegisterOp};

/// What a thing does when one operation comes after the other.
pub trait Model {
    /// What the thing remembers.
    type State: Clone + Eq + Hash;
    /// What is done to it, with what that answered.
    type Op;

    /// The state before all operations.
    fn initial(&self) -> Self::State;

    /// The state after an operation, or nothing if it cannot have answered that in this state.
    fn step(&self, state: &Self::State, op: &Self::Op) -> Option<Self::State>;
}

/// An operation with its time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timed<O> {
    /// The operation.
    pub op: O,
    /// When it began.
    pub invoked: u64,
    /// When it ended; without that it may have taken effect at any time since, or not at all.
    pub returned: Option<u64>,
}

impl<O> Timed<O> {
    /// Makes an operation with its time.
    pub const fn new(op: O, invoked: u64, returned: Option<u64>) -> Self {
        Self {
            op,
            invoked,
            returned,
        }
    }
}

/// What the search found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Linearized {
    /// There is an order: the operations in it, as indices.
    Yes(Vec<usize>),
    /// There is none.
    No {
        /// The longest order that the model allows before somebody had to wait too long.
        longest: Vec<usize>,
        /// The operation that ended and has no place behind that.
        stuck: usize,
    },
    /// The search was given up after so many steps.
    GaveUp {
        /// As many as were allowed.
        steps: u64,
    },
}

/// Looks for an order, for at most `budget` steps of the model.
///
/// Operations of which one ended in the nanosecond in which the other began count as overlapping.
///
/// Time is linear for histories of few clients that need no second try, and exponential in the number of operations that
/// overlap at worst. Memory is that of the sets that were tried: each as large as the operations that overlap.
pub fn linearize<M: Model>(model: &M, calls: &[Timed<M::Op>], budget: u64) -> Linearized {
    let mut search = Search::new(calls);
    let mut state = model.initial();
    let mut tried: HashSet<(Taken, M::State)> = HashSet::new();
    // What was taken, with the state before.
    let mut taken: Vec<(usize, M::State)> = Vec::new();
    let (mut longest, mut stuck): (Vec<usize>, Option<usize>) = (Vec::new(), None);
    let mut at = search.first();
    let mut steps = 0;
    while search.required > 0 {
        let Some(event) = at else {
            // Not reached: an operation that is required has an end, and nobody passes that.
            return Linearized::GaveUp { steps };
        };
        let call = search.call(event);
        if search.is_invoke(event) {
            steps += 1;
            if steps > budget {
                return Linearized::GaveUp { steps: budget };
            }
            if let Some(next) = model.step(&state, &calls[call].op) {
                search.take(call);
                if tried.insert((search.taken.clone(), next.clone())) {
                    taken.push((call, std::mem::replace(&mut state, next)));
                    at = search.first();
                    continue;
                }
                search.put_back(call);
            }
            at = search.next(event);
        } else {
            // It ended, and has no place yet.
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

/// Invokes and returns in their order, as a list from which operations are taken and put back.
struct Search {
    /// Per event: the operation, and whether it is the invoke.
    events: Vec<(usize, bool)>,
    /// Per event, its neighbours; the last place is the head of the list.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// Per operation, its events.
    invokes: Vec<usize>,
    returns: Vec<Option<usize>>,
    /// In the order of invokes, the place of each operation.
    places: Vec<usize>,
    taken: Taken,
    /// How many operations are left that ended.
    required: usize,
}

/// A set of operations: all before a place, and some behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Taken {
    all_before: usize,
    /// From there on, one bit each.
    rest: Vec<u64>,
}

impl Search {
    fn new<O>(calls: &[Timed<O>]) -> Self {
        let mut moments: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * calls.len());
        for (at, call) in calls.iter().enumerate() {
            moments.push((call.invoked, false, at));
            if let Some(returned) = call.returned {
                moments.push((returned.max(call.invoked), true, at));
            }
        }
        // Of one moment, invokes come first.
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

    /// Puts back what was taken last.
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
