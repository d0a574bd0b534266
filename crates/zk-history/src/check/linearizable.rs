//! Checks the linearizability of a history of locks or registers.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::hold_intervals::{Hold, Holds, Pauses, by_path};
use super::linear::{
    Linearized, Model, MutexModel, MutexOp, RegisterModel, RegisterOp, Timed, linearize,
};
use super::verdict::{Evidence, Findings, Verdict};
use crate::{Call, History, Op, Value};

/// The model of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelName {
    /// `acquire` and `release` of a lock with fencing tokens.
    #[default]
    Mutex,
    /// `read`, `write` and `cas` of a value.
    Register,
}

/// The operations are linearizable: some order of them, each between its invoke and return, is valid for a
/// [model](super::linear).
///
/// The mutex model checks the rules of [`FencedMutex`](super::FencedMutex) with another algorithm, in case one of them has
/// a bug: a grant ends at some time after the holder last relied on it.
/// The register begins with the value of [`with_initial`](Self::with_initial), or with none. A read of a ZooKeeper server
/// is not linearizable, unless there is a `sync` before it and no other write in between.
///
/// Failed operations are ignored; unknown ones may take effect at any later time, or never.
///
/// The rule `not linearizable` is broken if there is no such order. If the search takes more than
/// [a number of steps](Self::with_budget), the history cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Linearizable {
    model: ModelName,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial: Option<Value>,
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    session_timeout: Option<Duration>,
    budget: u64,
}

impl Linearizable {
    /// Uses the model of a lock with fencing tokens.
    pub fn mutex() -> Self {
        Self::default()
    }

    /// Uses the model of a register.
    pub fn register() -> Self {
        Self {
            model: ModelName::Register,
            ..Self::default()
        }
    }

    /// Sets the value before all operations. Default: none.
    #[must_use]
    pub fn with_initial(mut self, value: impl Into<Value>) -> Self {
        self.initial = Some(value.into());
        self
    }

    /// Ignores holders from the start of a pause of at least this long. Default: none.
    #[must_use]
    pub const fn with_session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = Some(timeout);
        self
    }

    /// Limits the steps of the search for each path. Default: ten million.
    #[must_use]
    pub const fn with_budget(mut self, steps: u64) -> Self {
        self.budget = steps;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut findings = Findings::default();
        for (path, calls) in by_path(history) {
            match self.model {
                ModelName::Mutex => self.check_mutex(path, &calls, history, &mut findings),
                ModelName::Register => self.check_register(path, &calls, &mut findings),
            }
        }
        if findings.counted("operations") == 0 {
            findings.cannot_judge("the history has no operation of the model");
        }
        findings.verdict("linearizable")
    }

    fn check_mutex(&self, path: &str, calls: &[&Call], history: &History, findings: &mut Findings) {
        let pauses = Pauses::longer_than(self.session_timeout, history);
        let holds = Holds::of(calls, history, &pauses);
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
        self.search(path, &MutexModel::default(), ops, findings);
    }

    fn check_register(&self, path: &str, calls: &[&Call], findings: &mut Findings) {
        let mut numbers: HashMap<Value, u64> = HashMap::new();
        let mut number = |value: &Value| {
            let next = numbers.len() as u64;
            Some(*numbers.entry(value.clone()).or_insert(next))
        };
        let initial = self.initial.as_ref().and_then(&mut number);
        let mut ops = Vec::new();
        for call in calls.iter().filter(|call| !call.outcome.is_failed()) {
            let op = match (&call.op, call.outcome.return_value()) {
                (Op::Read { .. }, Some(answer)) => {
                    RegisterOp::Read(answer.value.as_ref().and_then(&mut number))
                }
                (Op::Write { value, .. }, _) => RegisterOp::Write(number(value)),
                (Op::Cas { from, to, .. }, _) => RegisterOp::Cas(number(from), number(to)),
                _ => continue,
            };
            ops.push((*call, Timed::new(op, call.invoked, call.returned)));
        }
        self.search(path, &RegisterModel { initial }, ops, findings);
    }

    fn search<M: Model>(
        &self,
        path: &str,
        model: &M,
        ops: Vec<(&Call, Timed<M::Op>)>,
        findings: &mut Findings,
    ) {
        let (calls, timed): (Vec<&Call>, Vec<Timed<M::Op>>) = ops.into_iter().unzip();
        findings.count("operations", calls.len());
        match linearize(model, &timed, self.budget) {
            Linearized::Yes(_) => {}
            Linearized::GaveUp { steps } => findings.cannot_judge(format!(
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
                findings.violation(
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
            initial: None,
            session_timeout: None,
            budget: 10_000_000,
        }
    }
}

/// Returns the interval in which a grant ended.
fn end_of<'a>(grant: usize, hold: &Hold<'a>) -> (&'a Call, Timed<MutexOp>) {
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
