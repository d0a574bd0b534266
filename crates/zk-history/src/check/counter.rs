//! Checks a shared counter: no update is lost or applied twice.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

use super::verdict::{Evidence, Verdict};
use crate::{Call, History, Op, Value};

/// Each read lies between the sum of the certain updates and that of all possible ones.
///
/// The rule `too low` is broken if a read returns less than the sum of all certain additions before it began and all
/// possible subtractions; `too high` if it returns more than all possible additions before it ended allow.
/// A lost update shows as a value that is too low, an update that was applied twice as one that is too high, at the
/// latest in a read after all updates.
///
/// The counter begins at zero, or at [`with_initial`](Self::with_initial).
///
/// Time is O(n log n) in the number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Counter {
    initial: i64,
}

impl Counter {
    /// Sets the value before all updates. Default: zero.
    #[must_use]
    pub const fn with_initial(mut self, initial: i64) -> Self {
        self.initial = initial;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut verdict = Verdict::new("counter");
        for (path, calls) in history.by_path() {
            self.judge(path, &calls, &mut verdict);
        }
        if verdict.counted("updates") == 0 || verdict.counted("reads") == 0 {
            verdict.cannot_judge("the history has no update of a counter, or no read of one");
        }
        verdict
    }

    fn judge(&self, path: &str, calls: &[&Call], verdict: &mut Verdict) {
        let mut begun = Sums::default();
        let mut done = Sums::default();
        for call in calls {
            let Op::Increment { by, .. } = call.op else {
                continue;
            };
            verdict.count("updates", 1);
            match (&call.outcome, call.returned) {
                (outcome, _) if outcome.is_failed() => verdict.count("updates failed", 1),
                (outcome, Some(returned)) if outcome.is_ok() => {
                    begun.add(call.invoked, by);
                    done.add(returned, by);
                }
                _ => {
                    verdict.count("updates unknown", 1);
                    begun.add(call.invoked, by);
                }
            }
        }
        if begun.is_empty() {
            return;
        }
        begun.sum();
        done.sum();
        let initial = i128::from(self.initial);
        for call in calls {
            let value = match (&call.op, call.outcome.return_value()) {
                (Op::Read { .. }, Some(answer)) => answer.value.as_ref(),
                _ => continue,
            };
            let Some(Value::Number(value)) = value else {
                verdict.count("reads without a number", 1);
                continue;
            };
            verdict.count("reads", 1);
            // Updates that returned before the read began are visible; those that began before it returned may be.
            let (done, begun) = (
                done.before(call.invoked),
                begun.until(call.returned.unwrap_or(u64::MAX)),
            );
            let lowest = initial + done.up + begun.down;
            let highest = initial + begun.up + done.down;
            let value = i128::from(*value);
            let rule = if value < lowest {
                "too low"
            } else if highest < value {
                "too high"
            } else {
                continue;
            };
            verdict.violation(
                rule,
                || {
                    format!(
                        "{} read {value} from {path}, which was between {lowest} and {highest}",
                        call.client
                    )
                },
                [Evidence::of(call)],
            );
        }
    }
}

/// Sums of updates by time.
#[derive(Default)]
struct Sums {
    /// Each time with the sums up to and including it.
    updates: Vec<(u64, Sum)>,
}

/// The sums of additions and of subtractions; the latter is negative.
#[derive(Clone, Copy, Default)]
struct Sum {
    up: i128,
    down: i128,
}

impl Sums {
    fn add(&mut self, at: u64, by: i64) {
        let by = i128::from(by);
        let (up, down) = (by.max(0), by.min(0));
        self.updates.push((at, Sum { up, down }));
    }

    fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    fn sum(&mut self) {
        self.updates.sort_by_key(|(at, _)| *at);
        let mut total = Sum::default();
        for (_, sum) in &mut self.updates {
            total.up += sum.up;
            total.down += sum.down;
            *sum = total;
        }
    }

    fn before(&self, at: u64) -> Sum {
        self.first(self.updates.partition_point(|(update, _)| *update < at))
    }

    fn until(&self, at: u64) -> Sum {
        self.first(self.updates.partition_point(|(update, _)| *update <= at))
    }

    fn first(&self, count: usize) -> Sum {
        count
            .checked_sub(1)
            .map_or_else(Sum::default, |last| self.updates[last].1)
    }
}

#[cfg(test)]
mod tests;
