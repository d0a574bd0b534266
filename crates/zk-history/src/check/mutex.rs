//! Checks a mutual-exclusion lock with fencing tokens.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::hold_intervals::{Hold, Holds, by_path};
use super::timeline::seconds;
use super::verdict::{Evidence, Findings, Verdict};
use crate::{Call, History};

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
    #[serde(skip_serializing_if = "is_false")]
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
        let findings = judge_each(history, |path, holds, findings| {
            overlaps(path, holds, findings);
            tokens_rise(path, holds, findings);
            if self.ordered {
                in_order(path, holds, findings);
            }
        });
        findings.verdict("fenced-mutex")
    }
}

/// Judges each lock, after the rules that all kinds of locks share.
///
/// A history without grants cannot be judged.
pub(super) fn judge_each<'h>(
    history: &'h History,
    mut judge: impl FnMut(&str, &[Hold<'h>], &mut Findings),
) -> Findings {
    let mut findings = Findings::default();
    for (path, calls) in by_path(history) {
        let holds = Holds::of(&calls, history);
        count(&mut findings, &holds);
        released_twice(&mut findings, &holds);
        judge(path, &holds.granted, &mut findings);
    }
    if findings.counted("grants") == 0 {
        findings.cannot_judge("the history has no acquire that was granted");
    }
    findings
}

fn overlaps(path: &str, holds: &[Hold<'_>], findings: &mut Findings) {
    let mut latest: Option<&Hold<'_>> = None;
    for hold in holds.iter().filter(|hold| !hold.span.is_empty()) {
        if let Some(other) = latest {
            overlap(path, other, hold, findings);
        }
        if latest.is_none_or(|latest| latest.span.to < hold.span.to) {
            latest = Some(hold);
        }
    }
}

/// Reports two holders at a time; the acquire of the first returned first.
pub(super) fn overlap(path: &str, first: &Hold<'_>, second: &Hold<'_>, findings: &mut Findings) {
    let both = first.span.intersection(second.span);
    if both.is_empty() {
        return;
    }
    findings.violation(
        "overlap",
        || {
            format!(
                "{} was granted {path} while {} still relied on it: both did for {}",
                second.name(),
                first.name(),
                seconds(both.nanos())
            )
        },
        [first.evidence(), second.evidence()],
    );
}

/// Requires that later holders have higher tokens, and that no two tokens are equal.
fn tokens_rise(path: &str, holds: &[Hold<'_>], findings: &mut Findings) {
    let mut seen: HashMap<u64, &Hold<'_>> = HashMap::new();
    let mut highest: Option<&Hold<'_>> = None;
    for hold in holds {
        let Some(token) = hold.token() else { continue };
        if let Some(earlier) = seen.insert(token, hold) {
            findings.violation(
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
                    lower_token(path, before, hold, findings);
                }
            }
            _ => highest = Some(hold),
        }
    }
}

pub(super) fn lower_token(path: &str, before: &Hold<'_>, hold: &Hold<'_>, findings: &mut Findings) {
    findings.violation(
        "token not higher",
        || {
            format!(
                "{} held {path} after {}: the token must be higher",
                hold.name(),
                before.name()
            )
        },
        [before.evidence(), hold.evidence()],
    );
}

fn in_order(path: &str, holds: &[Hold<'_>], findings: &mut Findings) {
    let mut highest: Option<(&Hold<'_>, i64)> = None;
    for hold in holds.iter().filter(|hold| !hold.span.is_empty()) {
        let Some(sequence) = hold.sequence() else {
            continue;
        };
        match highest {
            Some((before, passed)) if sequence <= passed => findings.violation(
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

/// Counts the grants of one lock.
fn count(findings: &mut Findings, holds: &Holds<'_>) {
    findings.count("grants", holds.granted.len());
    findings.count("acquires unknown", holds.unknown);
    findings.count("acquires failed", holds.failed);
}

/// Requires at most one successful release per grant.
fn released_twice(findings: &mut Findings, holds: &Holds<'_>) {
    for (release, earlier) in &holds.strays {
        let (client, op) = (&release.client, &release.op);
        let evidence = earlier.iter().chain([release]);
        findings.violation(
            "released twice",
            || match earlier {
                Some(_) => format!("{client}: {op} succeeded a second time for one grant"),
                None => format!("{client}: {op} succeeded though it held nothing"),
            },
            evidence.map(|call: &&Call| Evidence::of(call)),
        );
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
pub(super) const fn is_false(setting: &bool) -> bool {
    !*setting
}

#[cfg(test)]
mod tests;
