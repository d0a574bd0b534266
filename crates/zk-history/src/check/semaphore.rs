//! Checks that a semaphore never grants more permits than it has.
//!
//! Pure: no I/O and no clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};

use super::hold_intervals::Hold;
use super::mutex::judge_each;
use super::verdict::{Findings, Span, Verdict};
use crate::{Call, History, Op};

/// Holders never rely on more permits than the semaphore has.
///
/// The rule `too many` is broken if permits are granted although those of other holders leave too few.
/// The number may change during the run (`set_permits`): a grant is measured against the highest number that may have
/// been in force between its invoke and its return. Permits granted before a decrease may be kept.
/// A release that succeeds twice is a violation as for a [mutex](super::FencedMutex).
///
/// Time is O(n log n) in the number of operations, times the number of changes for the few acquires around them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Semaphore {
    permits: u32,
}

impl Semaphore {
    /// Judges a semaphore with this initial number of permits.
    pub const fn new(permits: u32) -> Self {
        Self { permits }
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let findings = judge_each(history, |lock, findings| {
            let limits = limits(self.permits, lock.calls);
            judge(lock.path, &lock.granted, &limits, findings);
        });
        findings.verdict("semaphore")
    }
}

fn judge(path: &str, holds: &[Hold<'_>], limits: &[(Span, u64)], findings: &mut Findings) {
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
        let wanted = Span::new(hold.call.invoked, hold.span.from.saturating_add(1));
        let limit = limits
            .iter()
            .filter(|(time, _)| !time.intersection(wanted).is_empty())
            .map(|(_, limit)| *limit)
            .max()
            .unwrap_or(0);
        if taken > limit {
            let mut together: Vec<&Hold<'_>> =
                active.iter().map(|Reverse((_, at))| &holds[*at]).collect();
            together.sort_by_key(|hold| hold.span.from);
            findings.violation(
                "too many",
                || {
                    format!(
                        "{} was granted {} of {path} while {} were relied on: {taken} together, and there are {limit}",
                        hold.name(),
                        hold.permits(),
                        taken - hold.permits()
                    )
                },
                together.into_iter().map(Hold::evidence),
            );
        }
    }
    findings.at_most("most permits at a time", most);
}

/// Returns the numbers of permits, each with the interval in which it may have been in force.
fn limits(first: u32, calls: &[&Call]) -> Vec<(Span, u64)> {
    let changes: Vec<(&Call, u32)> = calls
        .iter()
        .filter(|call| !call.outcome.is_failed())
        .filter_map(|call| match call.op {
            Op::SetPermits { permits, .. } => Some((*call, permits)),
            _ => None,
        })
        .collect();
    // Per invoke of a change: when the first change from there on has certainly taken effect.
    let mut replaced_after: BTreeMap<u64, u64> = BTreeMap::new();
    let mut earliest = u64::MAX;
    for (call, _) in changes.iter().rev() {
        earliest = earliest.min(call.returned.unwrap_or(u64::MAX));
        replaced_after.insert(call.invoked, earliest);
    }
    let replaced = |from: u64| {
        replaced_after
            .range(from..)
            .next()
            .map_or(u64::MAX, |(_, at)| *at)
    };
    let mut limits = vec![(Span::new(0, replaced(0)), u64::from(first))];
    for (call, permits) in &changes {
        let until = call.returned.map_or(u64::MAX, replaced);
        limits.push((Span::new(call.invoked, until), u64::from(*permits)));
    }
    limits
}

#[cfg(test)]
mod tests;
