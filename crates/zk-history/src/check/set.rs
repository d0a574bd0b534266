//! A set whose elements are read again and again.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::holds::by_path;
use super::mutex::is_false;
use super::verdict::{Evidence, Findings, Verdict};
use crate::{Call, History, Op, Value};

/// What was added stays.
///
/// An element is known from when its add returned, or from when a read first returned it.
/// Each element is one of: *ok* (there in all reads that began after it was known), *stale* (missed by such a read and
/// there in a later one), *lost* (missed by the last such reads), *never read* (no read began after it was known).
///
/// | rule | broken if |
/// |---|---|
/// | `lost` | an element is lost |
/// | `stale` | with [`with_fresh_reads`](Self::with_fresh_reads): an element is stale |
/// | `unexpected` | a read returns an element that nobody added before the read ended, or whose add failed |
/// | `twice in one read` | a read returns an element twice |
///
/// Each element is added once in a history, and none is removed.
///
/// Time is O(n log n) in the number of adds, reads and elements read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SetFull {
    #[serde(skip_serializing_if = "is_false")]
    fresh_reads: bool,
}

impl SetFull {
    /// Requires that a read sees what was known when it began.
    ///
    /// A read of a ZooKeeper server that lags does not, unless there is a `sync` before it. Default: reads may be stale.
    #[must_use]
    pub const fn with_fresh_reads(mut self) -> Self {
        self.fresh_reads = true;
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let mut findings = Findings::default();
        for (path, calls) in by_path(history) {
            self.judge(path, &calls, &mut findings);
        }
        if findings.counted("elements") == 0 || findings.counted("reads") == 0 {
            findings.cannot_judge("the history has no element that was added, or no read of all");
        }
        findings.verdict("set-full")
    }

    fn judge(&self, path: &str, calls: &[&Call], findings: &mut Findings) {
        let mut adds: BTreeMap<&Value, &Call> = BTreeMap::new();
        let mut reads: Vec<(&Call, &[Value])> = Vec::new();
        for call in calls {
            match (&call.op, call.outcome.answer()) {
                (Op::Add { element, .. }, _) => {
                    adds.insert(element, call);
                }
                (Op::ReadAll { .. }, Some(answer)) => reads.push((call, &answer.items)),
                _ => {}
            }
        }
        findings.count("elements", adds.len());
        findings.count("reads", reads.len());
        // Which reads have an element, in their order.
        let mut present: HashMap<&Value, Vec<usize>> = HashMap::new();
        for (at, (read, elements)) in reads.iter().enumerate() {
            let mut seen = HashSet::new();
            for element in *elements {
                if !seen.insert(element) {
                    findings.violation(
                        "twice in one read",
                        || format!("{} read {element} of {path} twice at once", read.client),
                        [Evidence::of(read)],
                    );
                    continue;
                }
                present.entry(element).or_default().push(at);
                unexpected(path, element, adds.get(element).copied(), read, findings);
            }
        }
        for (element, add) in adds {
            let present = present.get(element).map_or(&[][..], Vec::as_slice);
            self.element(path, (element, add), (&reads, present), findings);
        }
    }

    fn element(
        &self,
        path: &str,
        (element, add): (&Value, &Call),
        (reads, present): (&[(&Call, &[Value])], &[usize]),
        findings: &mut Findings,
    ) {
        let added = add.returned.filter(|_| add.outcome.is_ok());
        let first_seen = present.iter().filter_map(|at| reads[*at].0.returned).min();
        let Some(known) = added.into_iter().chain(first_seen).min() else {
            findings.count("adds without effect", 1);
            return;
        };
        // Reads are in the order of their invokes: those from here on have to have the element.
        let after = reads.partition_point(|(read, _)| read.invoked <= known);
        let present_after = &present[present.partition_point(|at| *at < after)..];
        let (there, all) = (present_after.len(), reads.len() - after);
        if all == 0 {
            findings.count("never read", 1);
            return;
        }
        if there == all {
            findings.count("ok", 1);
            return;
        }
        // The last read without it: the last place at which the row of those with it has a gap.
        let mut missed = reads.len() - 1;
        for at in present_after.iter().rev() {
            if *at != missed {
                break;
            }
            missed -= 1;
        }
        let lost = missed == reads.len() - 1;
        findings.count(if lost { "lost" } else { "stale" }, 1);
        let read = reads[missed].0;
        if lost {
            findings.violation(
                "lost",
                || {
                    format!(
                        "{element} of {path} was known, and {} did not read it at the end",
                        read.client
                    )
                },
                [Evidence::of(add), Evidence::of(read)],
            );
        } else if self.fresh_reads {
            findings.violation(
                "stale",
                || {
                    format!(
                        "{element} of {path} was known, and {} did not read it",
                        read.client
                    )
                },
                [Evidence::of(add), Evidence::of(read)],
            );
        }
    }
}

fn unexpected(
    path: &str,
    element: &Value,
    add: Option<&Call>,
    read: &Call,
    findings: &mut Findings,
) {
    let possible = |add: &Call| {
        !add.outcome.is_failed() && read.returned.is_none_or(|returned| add.invoked <= returned)
    };
    if !add.is_some_and(possible) {
        findings.violation(
            "unexpected",
            || match add {
                Some(add) if add.outcome.is_failed() => {
                    format!(
                        "{} read {element} of {path}, the add of which had failed",
                        read.client
                    )
                }
                Some(_) => format!(
                    "{} read {element} of {path} before it was added",
                    read.client
                ),
                None => format!(
                    "{} read {element} of {path}, which nobody added",
                    read.client
                ),
            },
            add.into_iter().chain([read]).map(Evidence::of),
        );
    }
}

#[cfg(test)]
mod tests;
