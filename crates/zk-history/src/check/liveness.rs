//! Checks that enough operations succeed, and that none waits too long.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::timeline::seconds;
use super::verdict::{Evidence, Span, Verdict};
use crate::{Call, History};

/// Enough operations succeed before the first and after the last fault, and none waits too long without a fault.
///
/// | rule | broken if |
/// |---|---|
/// | `too slow` | with [`with_rate`](Self::with_rate): fewer operations a second succeeded before the first fault began |
/// | `no progress after healing` | with [`with_progress_after`](Self::with_progress_after): fewer operations succeeded after the last fault ended |
/// | `stuck` | with [`with_bound`](Self::with_bound): an operation did not end for longer than this without a fault |
///
/// Without settings, it only requires that one operation succeeded.
/// The time for `stuck` is the longest interval without a fault between the invoke and the end of an operation: a waiter
/// may wait as long as a fault lasts, and then for the bound.
///
/// Time is O(n log n) in the number of operations, and for `stuck` O(n f) with f faults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Liveness {
    #[serde(skip_serializing_if = "Option::is_none")]
    op: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    bound: Option<Duration>,
}

impl Liveness {
    /// Judges only operations of one name, such as `acquire`. Default: all.
    #[must_use]
    pub fn with_op(mut self, name: impl Into<String>) -> Self {
        self.op = Some(name.into());
        self
    }

    /// Requires this many successes per second before the first fault. Default: not required.
    #[must_use]
    pub const fn with_rate(mut self, per_second: u32) -> Self {
        self.rate = Some(per_second);
        self
    }

    /// Requires this many successes after the last fault ended. Default: not required.
    #[must_use]
    pub const fn with_progress_after(mut self, successes: u64) -> Self {
        self.after = Some(successes);
        self
    }

    /// Limits the time of an operation without a fault. Default: no limit.
    #[must_use]
    pub const fn with_bound(mut self, bound: Duration) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut verdict = Verdict::new("progress");
        let wanted = |call: &&Call| self.op.as_deref().is_none_or(|op| op == call.op.name());
        let calls: Vec<&Call> = history.calls.iter().filter(wanted).collect();
        let succeeded: Vec<u64> = calls
            .iter()
            .filter(|call| call.outcome.is_ok())
            .filter_map(|call| call.returned)
            .collect();
        verdict.count("operations", calls.len());
        verdict.count("succeeded", succeeded.len());
        verdict.count("faults", history.faults.len());
        if succeeded.is_empty() {
            verdict.violation(
                "nothing succeeded",
                || format!("none of {} operations succeeded", calls.len()),
                calls.first().map(|call| Evidence::of(call)),
            );
            return verdict;
        }
        if let Some(rate) = self.rate {
            too_slow(rate, &calls, &succeeded, history, &mut verdict);
        }
        if let Some(least) = self.after {
            after(least, &succeeded, history, &mut verdict);
        }
        if let Some(bound) = self.bound {
            stuck(bound, &calls, history, &mut verdict);
        }
        verdict
    }
}

fn too_slow(
    rate: u32,
    calls: &[&Call],
    succeeded: &[u64],
    history: &History,
    verdict: &mut Verdict,
) {
    let begun = calls.first().map_or(0, |call| call.invoked);
    let last = succeeded.iter().copied().max().unwrap_or(begun);
    let until = history.faults.first().map_or(last, |fault| fault.begun);
    let time = Span::new(begun, until);
    let count = succeeded.iter().filter(|at| **at <= until).count() as u64;
    let nanos = u128::from(until.saturating_sub(begun)).max(1);
    let per_second = u128::from(count) * 1_000_000_000 / nanos;
    let per_second = u64::try_from(per_second).unwrap_or(u64::MAX);
    verdict.highest("a second before the first fault", per_second);
    if per_second < u64::from(rate) {
        verdict.violation(
            "too slow",
            || {
                format!(
                    "{count} operations succeeded in the {} before the first fault, {per_second} a second; {rate} are required",
                    seconds(time.nanos())
                )
            },
            [],
        );
    }
}

fn after(least: u64, succeeded: &[u64], history: &History, verdict: &mut Verdict) {
    if history.faults.is_empty() {
        verdict.cannot_judge("no fault was recorded, so nothing was healed".to_owned());
        return;
    }
    let mut healed = 0;
    for fault in &history.faults {
        let Some(ended) = fault.ended else {
            verdict.cannot_judge(format!("the fault {fault} never ended"));
            return;
        };
        healed = healed.max(ended);
    }
    let count = succeeded.iter().filter(|at| healed < **at).count() as u64;
    verdict.highest("succeeded after healing", count);
    if count < least {
        verdict.violation(
            "no progress after healing",
            || {
                format!(
                    "{count} operations succeeded after the last fault ended; {least} are required"
                )
            },
            [],
        );
    }
}

fn stuck(bound: Duration, calls: &[&Call], history: &History, verdict: &mut Verdict) {
    let quiet = without_fault(history);
    let mut longest = Duration::ZERO;
    for call in calls {
        let alive = history.last_line_of(&call.client);
        let ended = call.returned.or(call.given_up).unwrap_or(alive);
        let waited = Span::new(call.invoked, ended);
        let most = quiet
            .iter()
            .map(|time| time.intersection(waited))
            .max_by_key(|time| time.duration());
        let Some(most) = most else { continue };
        longest = longest.max(most.duration());
        if most.duration() > bound {
            verdict.violation(
                "stuck",
                || {
                    format!(
                        "{}: {} had no end for {} without a fault; the bound is {bound:?}",
                        call.client,
                        call.op,
                        seconds(most.nanos())
                    )
                },
                [Evidence::with_span(call, most)],
            );
        }
    }
    let longest = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
    verdict.highest("ms at most without an end", longest);
}

/// Returns the intervals without a fault.
fn without_fault(history: &History) -> Vec<Span> {
    let mut quiet = Vec::new();
    let mut from = 0;
    for fault in &history.faults {
        if from < fault.begun {
            quiet.push(Span::new(from, fault.begun));
        }
        from = from.max(fault.ended.unwrap_or(u64::MAX));
    }
    quiet.push(Span::new(from, u64::MAX));
    quiet
}

#[cfg(test)]
mod tests;
