//! Decides whether a transaction with a lost reply was committed, from its keys as they are afterwards.
//!
//! [`zk_core::outcome`] judges each node; the nodes of a transaction are changed together or not at all.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;
use zk_core::outcome::{Verdict, judge_create_below, judge_delete, judge_set};

use crate::plan::{NodeContent, Step};

/// The state of one key before and after a transaction with a lost reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteEvidence<'a> {
    pub(crate) step: Step,
    pub(crate) wanted: Option<&'a [u8]>,
    /// The node that the transaction was planned on.
    pub(crate) before: Option<&'a NodeContent>,
    /// The parent, read before `before`.
    pub(crate) parent_before: Option<&'a Stat>,
    /// The node after the server has caught up.
    pub(crate) after: Option<&'a NodeContent>,
    /// The parent, read after `after`.
    pub(crate) parent_after: Option<&'a Stat>,
    pub(crate) history: HistoryEvidence,
}

/// What the history shows about the transaction that replaced the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistoryEvidence {
    /// The entry of this transaction exists.
    Own,
    /// An entry of another transaction for the same revision exists. A revision is replaced only once.
    Other,
    /// There is no such entry, or no history.
    Missing,
}

/// Judges a transaction by its keys.
pub(crate) fn judge(keys: &[WriteEvidence<'_>]) -> Verdict {
    let verdicts: Vec<_> = keys.iter().copied().filter_map(verdict_of).collect();
    // All or nothing: a certain verdict on one key holds for all.
    for certain in [Verdict::NotApplied, Verdict::Applied, Verdict::Unknown] {
        if verdicts.contains(&certain) {
            return certain;
        }
    }
    // The transactions that had the effect, as far as they are visible.
    let changed = keys.iter().filter(|key| key.step.is_change());
    let mut zxids = changed.filter_map(|key| Some(key.after?.stat.mzxid));
    let first = zxids.next();
    if zxids.all(|zxid| Some(zxid) == first) {
        Verdict::SameEffect
    } else {
        Verdict::Unknown
    }
}

/// Returns the stat of one key of an applied transaction, unless the node was changed again since.
pub(crate) fn stat_of(key: WriteEvidence<'_>) -> Option<Stat> {
    let after = key.after?;
    let now = after.stat;
    let has_wanted = key.wanted == Some(&after.data);
    let is_unchanged = match (key.step, key.before) {
        (Step::Create, _) => has_wanted && now.version == 0 && now.czxid == now.mzxid,
        (Step::Set { version }, Some(before)) => {
            has_wanted && now.czxid == before.stat.czxid && now.version == version.wrapping_add(1)
        }
        (Step::Check { .. }, Some(before)) => now.mzxid == before.stat.mzxid,
        _ => false,
    };
    is_unchanged.then_some(now)
}

/// Judges one key; `None` if its step leaves no trace.
fn verdict_of(key: WriteEvidence<'_>) -> Option<Verdict> {
    match key.history {
        HistoryEvidence::Own => return Some(Verdict::Applied),
        HistoryEvidence::Other => return Some(Verdict::NotApplied),
        HistoryEvidence::Missing => {}
    }
    let wanted = key.wanted.unwrap_or_default();
    let found = key.after.map(|after| (after.data.as_slice(), &after.stat));
    Some(match (key.step, key.before, found) {
        (Step::Nothing | Step::Check { .. }, ..) => return None,
        (Step::Create, ..) => {
            judge_create_below(wanted, found, key.parent_before.zip(key.parent_after))
        }
        (Step::Set { version }, Some(before), Some((data, stat)))
            if stat.czxid == before.stat.czxid =>
        {
            judge_set(wanted, version, before.stat.mzxid, (data, stat))
        }
        (Step::Delete { .. }, Some(before), found) => {
            judge_delete(before.stat.czxid, found.map(|(_, stat)| stat))
        }
        // The node is gone or was created again; `plan` returns no such step without a node.
        (Step::Set { .. } | Step::Delete { .. }, ..) => Verdict::Unknown,
    })
}

#[cfg(test)]
mod tests;
