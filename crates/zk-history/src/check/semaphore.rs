//! Checks that a semaphore never grants more permits than it has.
//!
//! Pure: no I/O and no clock.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::hold_intervals::Hold;
use super::locks::judge_each;
use super::verdict::Verdict;
use crate::History;

/// Holders never rely on more permits than the semaphore has.
///
/// The rule `too many` is broken if permits are granted although those of other holders leave too few.
/// A release that succeeds twice is a violation as for a [mutex](super::FencedMutex).
///
/// Time is O(n log n) in the number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Semaphore {
    permits: u32,
}

impl Semaphore {
    /// Judges a semaphore with this number of permits.
    pub const fn new(permits: u32) -> Self {
        Self { permits }
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        judge_each("semaphore", history, |path, holds, verdict| {
            self.judge(path, holds, verdict);
        })
    }

    fn judge(&self, path: &str, holds: &[Hold<'_>], verdict: &mut Verdict) {
        // The current holds, by their end.
        let mut active: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let (mut taken, mut most) = (0_u64, 0);
        for (at, hold) in holds.iter().enumerate() {
            if hold.span.is_empty() {
                continue;
            }
            while let Some(Reverse((to, ended))) = active.peek().copied() {
                if hold.span.from < to {
                    break;
                }
                taken -= holds[ended].permits();
                active.pop();
            }
            active.push(Reverse((hold.span.to, at)));
            taken += hold.permits();
            most = most.max(taken);
            if taken <= self.permits.into() {
                continue;
            }
            let mut together: Vec<&Hold<'_>> =
                active.iter().map(|Reverse((_, at))| &holds[*at]).collect();
            together.sort_by_key(|hold| hold.span.from);
            verdict.violation(
                "too many",
                || {
                    format!(
                        "{} was granted {} of {path} while {} were relied on: \
                         {taken} together, and there are {}",
                        hold.name(),
                        hold.permits(),
                        taken - hold.permits(),
                        self.permits
                    )
                },
                together.into_iter().map(Hold::evidence),
            );
        }
        verdict.highest("most permits at a time", most);
    }
}

#[cfg(test)]
mod tests;
