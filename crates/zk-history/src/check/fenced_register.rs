//! Checks that a resource accepts no write with a lower fencing token than an earlier one.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

use super::hold_intervals::by_path;
use super::order::after_highest;
use super::verdict::{Evidence, Findings, Verdict};
use crate::{Call, History, Op};

/// After a write with a fencing token, the resource accepts no lower token.
///
/// Only writes with a token count. `ok` means accepted, `failed` refused.
/// A write that returned before another one began precedes it. If return values have versions, these order all writes.
///
/// Time is O(n log n) in the number of writes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FencedRegister {}

impl FencedRegister {
    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut findings = Findings::default();
        for (path, calls) in by_path(history) {
            let mut accepted: Vec<Write<'_>> = Vec::new();
            for call in calls {
                let Op::Write {
                    token: Some(token), ..
                } = call.op
                else {
                    continue;
                };
                match (&call.outcome, call.returned) {
                    (outcome, Some(returned)) if outcome.is_ok() => accepted.push(Write {
                        call,
                        token,
                        returned,
                    }),
                    (outcome, _) if outcome.is_failed() => findings.count("writes refused", 1),
                    _ => findings.count("writes unknown", 1),
                }
            }
            findings.count("writes accepted", accepted.len());
            by_time(path, &accepted, &mut findings);
            by_version(path, accepted, &mut findings);
        }
        if findings.counted("writes accepted") == 0 {
            findings.cannot_judge("the history has no write with a token that was accepted");
        }
        findings.verdict("fenced-register")
    }
}

#[derive(Clone, Copy)]
struct Write<'a> {
    call: &'a Call,
    token: u64,
    returned: u64,
}

fn by_time(path: &str, accepted: &[Write<'_>], findings: &mut Findings) {
    let calls: Vec<&Call> = accepted.iter().map(|write| write.call).collect();
    after_highest(&calls, token, |before, highest, call| {
        if token(call).is_some_and(|token| token < highest) {
            lower(path, before, call, findings);
        }
    });
}

fn by_version(path: &str, mut accepted: Vec<Write<'_>>, findings: &mut Findings) {
    let version = |write: &Write<'_>| {
        write
            .call
            .outcome
            .return_value()
            .and_then(|value| value.version)
    };
    accepted.retain(|write| version(write).is_some());
    accepted.sort_by_key(version);
    let mut highest: Option<Write<'_>> = None;
    for write in accepted {
        match highest {
            // `by_time` reports the others.
            Some(before) if write.token < before.token => {
                if write.call.invoked <= before.returned {
                    lower(path, before.call, write.call, findings);
                }
            }
            _ => highest = Some(write),
        }
    }
}

fn lower(path: &str, before: &Call, after: &Call, findings: &mut Findings) {
    let token = |call| token(call).unwrap_or(0);
    findings.violation(
        "lower token accepted",
        || {
            format!(
                "{path} accepted token {} of {} after token {} of {}",
                token(after),
                after.client,
                token(before),
                before.client
            )
        },
        [before, after].map(Evidence::of),
    );
}

fn token(call: &Call) -> Option<u64> {
    match call.op {
        Op::Write { token, .. } => token,
        _ => None,
    }
}

#[cfg(test)]
mod tests;
