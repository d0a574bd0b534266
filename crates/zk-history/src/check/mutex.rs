//! Checks a mutual-exclusion lock with fencing tokens.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::hold_intervals::Hold;
use super::locks::{judge_each, lower_token, overlap};
use super::verdict::Verdict;
use crate::History;

/// At most one holder at a time relies on the lock, and tokens increase.
///
/// | rule | broken if |
/// |---|---|
/// | `overlap` | an acquire returns a grant while another holder still relies on one |
/// | `token not higher` | a later holder has a lower token than an earlier one, or the same |
/// | `token used twice` | two grants have one token |
/// | `out of order` | with [`with_order`](Self::with_order): a later holder has a lower sequence number |
/// | `released twice` | a release succeeds without a grant |
///
/// A holder relies on its grant from the return of the acquire until the release begins, it records the loss, or its
/// process writes its last line, whichever is first.
/// A later grant is no violation: a holder that was paused for longer than the session timeout, and records until when
/// its guard was valid, may overlap with its successor afterwards.
/// An acquire with an unknown outcome is not a grant.
///
/// Time is O(n log n) in the number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FencedMutex {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ordered: bool,
}

impl FencedMutex {
    /// Also requires grants in the order of their sequence numbers. Default: any order.
    #[must_use]
    pub const fn with_order(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        judge_each("fenced-mutex", history, |path, holds, verdict| {
            overlaps(path, holds, verdict);
            tokens_rise(path, holds, verdict);
            if self.ordered {
                in_order(path, holds, verdict);
            }
        })
    }
}

fn overlaps(path: &str, holds: &[Hold<'_>], verdict: &mut Verdict) {
    let mut latest: Option<&Hold<'_>> = None;
    for hold in holds.iter().filter(|hold| !hold.span.is_empty()) {
        if let Some(other) = latest {
            overlap(path, other, hold, verdict);
        }
        if latest.is_none_or(|latest| latest.span.to < hold.span.to) {
            latest = Some(hold);
        }
    }
}

/// Requires that later holders have higher tokens, and that no two tokens are equal.
fn tokens_rise(path: &str, holds: &[Hold<'_>], verdict: &mut Verdict) {
    let mut seen: HashMap<u64, &Hold<'_>> = HashMap::new();
    let mut highest: Option<&Hold<'_>> = None;
    for hold in holds {
        let Some(token) = hold.token() else { continue };
        if let Some(earlier) = seen.insert(token, hold) {
            verdict.violation(
                "token used twice",
                || {
                    format!(
                        "{} and {} were both granted {path}",
                        earlier.name(),
                        hold.name()
                    )
                },
                [earlier.evidence(), hold.evidence()],
            );
            continue;
        }
        // A holder that saw its grant too late never relied on it, and may see it after its successor.
        if hold.span.is_empty() {
            continue;
        }
        match highest {
            Some(before) if token < before.token().unwrap_or(0) => {
                if before.span.to <= hold.span.from {
                    lower_token(path, before, hold, verdict);
                }
            }
            _ => highest = Some(hold),
        }
    }
}

fn in_order(path: &str, holds: &[Hold<'_>], verdict: &mut Verdict) {
    let mut highest: Option<(&Hold<'_>, i64)> = None;
    for hold in holds.iter().filter(|hold| !hold.span.is_empty()) {
        let Some(sequence) = hold.sequence() else {
            continue;
        };
        match highest {
            Some((before, passed)) if sequence <= passed => verdict.violation(
                "out of order",
                || {
                    format!(
                        "{} with sequence {sequence} was granted {path} after {} with sequence {passed}",
                        hold.name(),
                        before.name()
                    )
                },
                [before.evidence(), hold.evidence()],
            ),
            _ => highest = Some((hold, sequence)),
        }
    }
}

#[cfg(test)]
mod tests;
