//! Checks that a resource accepts no write with a lower fencing token than an earlier one.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

use super::verdict::{Evidence, Verdict};
use crate::{Call, History, Op};

/// After a write with a fencing token, the resource accepts no lower token.
///
/// Only writes with a token count. `ok` means accepted, `failed` refused.
/// A write that returned before another one began precedes it.
///
/// Time is O(n log n) in the number of writes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct FencedRegister {}

impl FencedRegister {
    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut verdict = Verdict::new("fenced-register");
        for (path, calls) in history.by_path() {
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
                    (outcome, _) if outcome.is_failed() => verdict.count("writes refused", 1),
                    _ => verdict.count("writes unknown", 1),
                }
            }
            verdict.count("writes accepted", accepted.len());
            lower_tokens(path, &accepted, &mut verdict);
        }
        if verdict.counted("writes accepted") == 0 {
            verdict.cannot_judge("the history has no write with a token that was accepted");
        }
        verdict
    }
}

#[derive(Clone, Copy)]
struct Write<'a> {
    call: &'a Call,
    token: u64,
    returned: u64,
}

/// Compares each write with the one with the highest token that returned before it began.
fn lower_tokens(path: &str, accepted: &[Write<'_>], verdict: &mut Verdict) {
    let mut by_return = accepted.to_vec();
    by_return.sort_by_key(|write| write.returned);
    let mut returned = by_return.into_iter().peekable();
    let mut highest: Option<Write<'_>> = None;
    // In the order of their invokes.
    for write in accepted {
        while let Some(before) = returned.next_if(|before| before.returned < write.call.invoked) {
            if highest.is_none_or(|highest| highest.token < before.token) {
                highest = Some(before);
            }
        }
        if let Some(before) = highest.filter(|before| write.token < before.token) {
            verdict.violation(
                "lower token accepted",
                || {
                    format!(
                        "{path} accepted token {} of {} after token {} of {}",
                        write.token, write.call.client, before.token, before.call.client
                    )
                },
                [before.call, write.call].map(Evidence::of),
            );
        }
    }
}

#[cfg(test)]
mod tests;
