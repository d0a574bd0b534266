//! Versions that only grow.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::holds::by_path;
use super::mutex::is_false;
use super::order::after_highest;
use super::verdict::{Evidence, Findings, Verdict};
use crate::{Call, Client, History, Op};

/// What a client sees never goes back, and in the end all see the last of it.
///
/// | rule | broken if |
/// |---|---|
/// | `went back` | a client is shown a lower version of a path than before: by a read, a listener, or its own write |
/// | `not converged` | with [`with_convergence`](Self::with_convergence): the last version that a client read or saw is not the last that was written |
///
/// A version is any number that grows with each change, such as `mzxid`; the version of a node's data is one only as long
/// as the node is not created anew.
/// A client is a process, or a task of it if it records one.
///
/// Time is O(n log n) in the number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Versions {
    #[serde(skip_serializing_if = "is_false")]
    convergence: bool,
}

impl Versions {
    /// Also requires that each client that ever read or saw a path saw the last version of it at the end.
    ///
    /// The last version is the highest that a write returned, or a higher one that anybody saw. Clients whose process did
    /// not end in order are not judged. Default: not required.
    #[must_use]
    pub const fn with_convergence(mut self) -> Self {
        self.convergence = true;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut findings = Findings::default();
        for (path, calls) in by_path(history) {
            let mut clients: BTreeMap<&Client, Vec<&Call>> = BTreeMap::new();
            for call in calls {
                if version(call).is_some() {
                    clients.entry(&call.client).or_default().push(call);
                }
            }
            for calls in clients.values() {
                findings.count("versions", calls.len());
                went_back(path, calls, &mut findings);
            }
            if self.convergence {
                converged(path, &clients, history, &mut findings);
            }
        }
        if findings.counted("versions") == 0 {
            findings.cannot_judge("the history has no answer with a version");
        }
        findings.verdict("versions")
    }
}

fn version(call: &Call) -> Option<u64> {
    match call.op {
        Op::Read { .. } | Op::Saw { .. } | Op::Write { .. } | Op::Cas { .. } => {
            call.outcome.answer()?.version
        }
        _ => None,
    }
}

fn is_look(call: &Call) -> bool {
    matches!(call.op, Op::Read { .. } | Op::Saw { .. })
}

fn went_back(path: &str, calls: &[&Call], findings: &mut Findings) {
    after_highest(calls, version, |before, highest, call| {
        let Some(seen) = version(call).filter(|seen| *seen < highest) else {
            return;
        };
        findings.violation(
            "went back",
            || {
                format!(
                    "{} was shown version {seen} of {path} after version {highest}",
                    call.client
                )
            },
            [before, call].map(Evidence::of),
        );
    });
}

fn converged(
    path: &str,
    clients: &BTreeMap<&Client, Vec<&Call>>,
    history: &History,
    findings: &mut Findings,
) {
    let all = clients.values().flatten().copied();
    let Some(last) = all.max_by_key(|call| (version(call), !is_look(call))) else {
        return;
    };
    let highest = version(last).unwrap_or(0);
    for (client, calls) in clients {
        let Some(seen) = calls.iter().copied().rfind(|call| is_look(call)) else {
            continue;
        };
        let process = history.processes.get(client.process);
        if !process.is_some_and(|process| process.ended) {
            findings.count("clients that did not end in order", 1);
            continue;
        }
        findings.count("clients that look", 1);
        if version(seen) < Some(highest) {
            findings.violation(
                "not converged",
                || {
                    format!(
                        "{client} saw version {} of {path} at the end, and the last one is {highest}",
                        version(seen).unwrap_or(0)
                    )
                },
                [last, seen].map(Evidence::of),
            );
        }
    }
}

#[cfg(test)]
mod tests;
