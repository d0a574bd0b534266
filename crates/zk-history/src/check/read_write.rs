//! Checks a read/write lock: readers share it, a writer excludes all others.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

use super::hold_intervals::Hold;
use super::locks::{judge_each, lower_token, overlap};
use super::verdict::Verdict;
use crate::{Client, History};

/// Readers share the lock, a writer excludes all others, and tokens increase from and to each writer.
///
/// The rules are those of [`FencedMutex`](super::FencedMutex), without an order, between a writer and any other client.
/// A client may hold both modes: a writer may also acquire the read lock, to downgrade.
///
/// Time is O(n log n) in the number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ReadWriteLock {}

impl ReadWriteLock {
    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        judge_each("read-write-lock", history, |path, holds, verdict| {
            let readers = holds.iter().filter(|hold| hold.is_shared()).count();
            verdict.count("grants to readers", readers);
            let counted: Vec<&Hold<'_>> =
                holds.iter().filter(|hold| !hold.span.is_empty()).collect();
            overlaps(path, &counted, verdict);
            tokens(path, &counted, verdict);
        })
    }
}

/// The holds that end last, of two different clients.
#[derive(Debug, Clone, Copy, Default)]
struct Latest<'h, 'a> {
    first: Option<&'h Hold<'a>>,
    /// The latest of another client.
    second: Option<&'h Hold<'a>>,
}

impl<'h, 'a> Latest<'h, 'a> {
    fn add(&mut self, hold: &'h Hold<'a>) {
        match self.first {
            Some(first) if first.client() == hold.client() => {
                if first.span.to < hold.span.to {
                    self.first = Some(hold);
                }
            }
            Some(first) if hold.span.to <= first.span.to => {
                if self
                    .second
                    .is_none_or(|second| second.span.to < hold.span.to)
                {
                    self.second = Some(hold);
                }
            }
            _ => {
                self.second = self.first;
                self.first = Some(hold);
            }
        }
    }

    /// Returns the hold of another client that ends last.
    fn of_others(&self, client: &Client) -> Option<&'h Hold<'a>> {
        self.first
            .filter(|first| first.client() != client)
            .or(self.second)
    }
}

fn overlaps(path: &str, holds: &[&Hold<'_>], verdict: &mut Verdict) {
    let (mut writers, mut all) = (Latest::default(), Latest::default());
    for hold in holds {
        let against = if hold.is_shared() { writers } else { all };
        if let Some(other) = against.of_others(hold.client()) {
            overlap(path, other, hold, verdict);
        }
        all.add(hold);
        if !hold.is_shared() {
            writers.add(hold);
        }
    }
}

fn tokens(path: &str, holds: &[&Hold<'_>], verdict: &mut Verdict) {
    let (mut writer, mut any): (Option<&Hold<'_>>, Option<&Hold<'_>>) = (None, None);
    for hold in holds {
        let Some(token) = hold.token() else { continue };
        let before = if hold.is_shared() { writer } else { any };
        if let Some(before) = before {
            let passed = before.token().unwrap_or(0);
            let same_client = before.client() == hold.client();
            let risen = passed < token || (same_client && passed == token);
            if !risen && (before.span.to <= hold.span.from || same_client) {
                lower_token(path, before, hold, verdict);
            }
        }
        let highest = |one: Option<&Hold<'_>>| one.is_none_or(|one| one.token() < Some(token));
        if highest(any) {
            any = Some(hold);
        }
        if !hold.is_shared() && highest(writer) {
            writer = Some(hold);
        }
    }
}

#[cfg(test)]
mod tests;
