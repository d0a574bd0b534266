//! Ids that are made once.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::holds::by_path;
use super::mutex::is_false;
use super::order::after_highest;
use super::verdict::{Evidence, Findings, Verdict};
use crate::{Call, Client, History, Op};

/// No id is made twice.
///
/// | rule | broken if |
/// |---|---|
/// | `made twice` | two calls answered one id, or one call answered it twice |
/// | `not rising` | with [`with_rising`](Self::with_rising): a client is answered an id that is not higher than one before |
///
/// An answer may have many ids.
///
/// Time is O(n log n) in the number of ids. Memory is 8 bytes for each id, and as much again for the history: 10⁸ ids in
/// one history take 1.6 GB. [`repeated`] judges ids that are in no history, in place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct UniqueIds {
    #[serde(skip_serializing_if = "is_false")]
    rising: bool,
}

impl UniqueIds {
    /// Also requires that the ids of one client rise: of one process, or of one of its tasks. Default: any order.
    #[must_use]
    pub const fn with_rising(mut self) -> Self {
        self.rising = true;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut findings = Findings::default();
        for (path, calls) in by_path(history) {
            let made: Vec<&Call> = calls
                .into_iter()
                .filter(|call| matches!(call.op, Op::NewId { .. }))
                .collect();
            let unknown = made.iter().filter(|call| call.outcome.is_unknown());
            findings.count("calls unknown", unknown.count());
            let mut all: Vec<u64> = made
                .iter()
                .flat_map(|call| ids(call).iter().copied())
                .collect();
            findings.count("ids", all.len());
            twice(path, &made, &repeated(&mut all), &mut findings);
            if self.rising {
                rising(path, &made, &mut findings);
            }
        }
        if findings.counted("ids") == 0 {
            findings.cannot_judge("the history has no id");
        }
        findings.verdict("unique-ids")
    }
}

/// Sorts ids, and finds those that are there more than once; each is answered once.
///
/// Time is O(n log n), and memory that of the ids: 10⁸ take 0.8 GB.
pub fn repeated(ids: &mut [u64]) -> Vec<u64> {
    ids.sort_unstable();
    let mut repeated: Vec<u64> = ids
        .windows(2)
        .filter(|pair| pair[0] == pair[1])
        .map(|pair| pair[0])
        .collect();
    repeated.dedup();
    repeated
}

fn ids(call: &Call) -> &[u64] {
    call.outcome
        .answer()
        .map_or(&[], |answer| answer.ids.as_slice())
}

fn twice(path: &str, made: &[&Call], repeated: &[u64], findings: &mut Findings) {
    if repeated.is_empty() {
        return;
    }
    let mut makers: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for call in made {
        for id in ids(call) {
            if repeated.binary_search(id).is_ok() {
                makers.entry(*id).or_default().push(call);
            }
        }
    }
    for (id, calls) in makers {
        let clients: Vec<String> = calls.iter().map(|call| call.client.to_string()).collect();
        findings.violation(
            "made twice",
            || format!("{id} of {path} was made by {}", clients.join(" and by ")),
            calls.iter().copied().map(Evidence::of),
        );
    }
}

fn rising(path: &str, made: &[&Call], findings: &mut Findings) {
    let mut clients: BTreeMap<&Client, Vec<&Call>> = BTreeMap::new();
    for call in made.iter().filter(|call| !ids(call).is_empty()) {
        clients.entry(&call.client).or_default().push(call);
        if !ids(call).is_sorted_by(|a, b| a < b) {
            not_rising(path, (call, call), findings);
        }
    }
    for calls in clients.into_values() {
        let highest_id = |call: &Call| ids(call).iter().max().copied();
        after_highest(&calls, highest_id, |before, highest, call| {
            if ids(call).iter().any(|id| *id <= highest) {
                not_rising(path, (before, call), findings);
            }
        });
    }
}

fn not_rising(path: &str, (before, after): (&Call, &Call), findings: &mut Findings) {
    let (client, alone) = (&after.client, before == after);
    findings.violation(
        "not rising",
        || {
            if alone {
                format!("{client} was answered ids of {path} that do not rise")
            } else {
                format!("{client} was answered an id of {path} that is not higher than one before")
            }
        },
        [before, after]
            .into_iter()
            .take(if alone { 1 } else { 2 })
            .map(Evidence::of),
    );
}

#[cfg(test)]
mod tests;
