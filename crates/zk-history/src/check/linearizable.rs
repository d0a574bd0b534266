//! Checks the linearizability of a history of locks.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};

use super::hold_intervals::{Hold, Holds};
use super::verdict::{Evidence, Verdict};
use crate::{Call, History};

mod model;
mod search;

use model::MutexOp;
use search::{Linearized, Timed, linearize};

/// The model in `run.json`, which once named others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ModelName {
    #[default]
    Mutex,
}

/// The operations on a lock are linearizable: some order of them, each between its invoke and return, is possible.
///
/// It checks the rules of [`FencedMutex`](super::FencedMutex) with another algorithm, in case one of them has a bug: a
/// grant ends at some time after the holder last relied on it, and later grants have higher tokens.
///
/// Failed acquires and unknown ones are ignored; a release with an unknown outcome may take effect at any later time.
///
/// The rule `not linearizable` is broken if there is no such order. If the search takes more than ten million steps for
/// a path, the history cannot be judged. `zk-check` takes another number as `linearizable:budget=STEPS`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Linearizable {
    model: ModelName,
    budget: u64,
}

impl Linearizable {
    /// Judges locks with fencing tokens.
    pub fn mutex() -> Self {
        Self::default()
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut verdict = Verdict::new("linearizable");
        for (path, calls) in history.by_path() {
            self.check_lock(path, &calls, history, &mut verdict);
        }
        if verdict.counted("operations") == 0 {
            verdict.cannot_judge("the history has no acquire that was granted");
        }
        verdict
    }

    fn check_lock(&self, path: &str, calls: &[&Call], history: &History, verdict: &mut Verdict) {
        let holds = Holds::of(calls, history);
        let mut ops = Vec::new();
        for (grant, hold) in holds.granted.iter().enumerate() {
            let token = hold.token();
            let acquire = MutexOp::Acquire { grant, token };
            ops.push((
                hold.call,
                Timed::new(acquire, hold.call.invoked, Some(hold.span.from)),
            ));
            ops.push(end_of(grant, hold));
        }
        self.search(path, ops, verdict);
    }

    fn search(&self, path: &str, ops: Vec<(&Call, Timed)>, verdict: &mut Verdict) {
        let (calls, timed): (Vec<&Call>, Vec<Timed>) = ops.into_iter().unzip();
        verdict.count("operations", calls.len());
        match linearize(&timed, self.budget) {
            Linearized::Yes(_) => {}
            Linearized::GaveUp { steps } => verdict.cannot_judge(format!(
                "{path}: {steps} steps were not enough to find an order of {} operations",
                calls.len()
            )),
            Linearized::No { longest, stuck } => {
                let stuck = calls[stuck];
                let last: Vec<&Call> = longest
                    .iter()
                    .rev()
                    .take(3)
                    .rev()
                    .map(|at| calls[*at])
                    .collect();
                verdict.violation(
                    "not linearizable",
                    || {
                        format!(
                            "{}: {} ({}) has no place in any order of the operations on {path}; the longest order has {} of {}, and these last",
                            stuck.client,
                            stuck.op,
                            stuck.outcome,
                            longest.len(),
                            calls.len()
                        )
                    },
                    last.into_iter().chain([stuck]).map(Evidence::of),
                );
            }
        }
    }
}

impl Default for Linearizable {
    fn default() -> Self {
        Self {
            model: ModelName::default(),
            budget: 10_000_000,
        }
    }
}

/// Returns the interval in which a grant ended.
fn end_of<'a>(grant: usize, hold: &Hold<'a>) -> (&'a Call, Timed) {
    let end = MutexOp::End { grant };
    let released = hold.release.filter(|release| release.outcome.is_ok());
    // A failed or unknown release does not bound the end.
    let returned = released.and_then(|release| release.returned);
    let call = hold.release.unwrap_or(hold.call);
    // A holder that saw its grant too late may have lost it as soon as it was granted.
    let from = if hold.span.is_empty() {
        hold.call.invoked
    } else {
        hold.span.to
    };
    (call, Timed::new(end, from, returned))
}

#[cfg(test)]
mod tests;
