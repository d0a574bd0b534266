//! Decides whether a transaction with a lost reply was committed, from the nodes as they are afterwards.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;

use crate::plan::NodeContent;
use crate::plan::Step;

/// Whether a transaction was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitVerdict {
    /// It was, or another transaction had the same effect on the same state and the caller accepts that.
    Applied,
    /// It was not and will not be.
    NotApplied,
    /// The nodes do not show it.
    Unknown,
}

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

/// What one key shows about the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyVerdict {
    Applied,
    NotApplied,
    /// This transaction or another one with the same effect was applied; with its zxid, if that is visible.
    SameEffect(Option<i64>),
    Unknown,
    /// The step leaves no trace.
    NoTrace,
}

/// Judges a transaction by its keys.
///
/// With `accepts_same_effect` it does not matter which transaction had the effect.
pub(crate) fn judge(keys: &[WriteEvidence<'_>], accepts_same_effect: bool) -> CommitVerdict {
    let verdicts: Vec<_> = keys.iter().copied().map(verdict_of).collect();
    // All or nothing: a certain verdict on one key holds for all.
    if verdicts.contains(&KeyVerdict::NotApplied) {
        return CommitVerdict::NotApplied;
    }
    if verdicts.contains(&KeyVerdict::Applied) {
        return CommitVerdict::Applied;
    }
    let mut transactions = verdicts.iter().filter_map(|verdict| match verdict {
        KeyVerdict::SameEffect(zxid) => *zxid,
        _ => None,
    });
    let first = transactions.next();
    let is_one = transactions.all(|zxid| Some(zxid) == first);
    if accepts_same_effect && is_one && !verdicts.contains(&KeyVerdict::Unknown) {
        CommitVerdict::Applied
    } else {
        CommitVerdict::Unknown
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

fn verdict_of(key: WriteEvidence<'_>) -> KeyVerdict {
    match key.history {
        HistoryEvidence::Own => return KeyVerdict::Applied,
        HistoryEvidence::Other => return KeyVerdict::NotApplied,
        HistoryEvidence::Missing => {}
    }
    match (key.step, key.before) {
        (Step::Nothing | Step::Check { .. }, _) => KeyVerdict::NoTrace,
        (Step::Create, _) => created(key),
        (Step::Set { .. }, Some(before)) => set(key, before),
        (Step::Delete { .. }, Some(before)) => deleted(key, before),
        // `plan` returns no such step.
        (Step::Set { .. } | Step::Delete { .. }, None) => KeyVerdict::Unknown,
    }
}

fn created(key: WriteEvidence<'_>) -> KeyVerdict {
    let parents = match (key.parent_before, key.parent_after) {
        (Some(before), Some(after)) if before.czxid == after.czxid => Some((before, after)),
        _ => None,
    };
    match (key.after, parents) {
        // The list of children has not changed.
        (None, Some((before, after))) if before.pzxid == after.pzxid => KeyVerdict::NotApplied,
        (Some(found), _) if found.stat.version == 0 && key.wanted == Some(&found.data) => {
            KeyVerdict::SameEffect(Some(found.stat.czxid))
        }
        // One child was created or deleted, and that is this node, with other data.
        (Some(found), Some((before, after)))
            if found.stat.version == 0 && after.cversion == before.cversion.wrapping_add(1) =>
        {
            KeyVerdict::NotApplied
        }
        _ => KeyVerdict::Unknown,
    }
}

fn set(key: WriteEvidence<'_>, before: &NodeContent) -> KeyVerdict {
    let Some(after) = key.after else {
        return KeyVerdict::Unknown;
    };
    if after.stat.czxid != before.stat.czxid {
        KeyVerdict::Unknown
    } else if after.stat.mzxid == before.stat.mzxid {
        KeyVerdict::NotApplied
    } else if after.stat.version != before.stat.version.wrapping_add(1) {
        KeyVerdict::Unknown
    } else if key.wanted == Some(&after.data) {
        KeyVerdict::SameEffect(Some(after.stat.mzxid))
    } else {
        // The one write since then was another one.
        KeyVerdict::NotApplied
    }
}

fn deleted(key: WriteEvidence<'_>, before: &NodeContent) -> KeyVerdict {
    match key.after {
        None => KeyVerdict::SameEffect(None),
        Some(after) if after.stat.czxid == before.stat.czxid => KeyVerdict::NotApplied,
        Some(_) => KeyVerdict::Unknown,
    }
}

#[cfg(test)]
mod tests;
