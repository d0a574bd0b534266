//! What became of a publication whose answer was lost, judged by what is there afterwards.
//!
//! Pure: no I/O and no clock.

use zk_core::Stat;

use crate::plan::Found;
use crate::plan::Step;

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was applied, or another one that had the same effect on the same state, where that makes no difference.
    Applied,
    /// It was not applied and will not be.
    NotApplied,
    /// Nothing tells.
    Unknown,
}

/// One key of a transaction in doubt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trace<'a> {
    pub(crate) step: Step,
    pub(crate) wanted: Option<&'a [u8]>,
    /// What the transaction rested on.
    pub(crate) before: Option<&'a Found>,
    /// The parent, read before that.
    pub(crate) parent_before: Option<&'a Stat>,
    /// What is there after the server has caught up.
    pub(crate) after: Option<&'a Found>,
    /// The parent, read after that.
    pub(crate) parent_after: Option<&'a Stat>,
    pub(crate) mark: Mark,
}

/// What the history says of who replaced the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// It has the entry that this transaction was to make.
    Ours,
    /// It has an entry of another one for the same data. Data is replaced once.
    Others,
    /// It has none, or there is no history.
    None,
}

/// What one key says of the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Applied,
    NotApplied,
    /// Either it was applied, or another one that did the same; which transaction that was, if it can be seen.
    Twin(Option<i64>),
    Unknown,
    /// The step leaves no trace.
    Nothing,
}

/// Judges a transaction by its keys.
///
/// With `is_any_writer_right` the caller wants the nodes to be so, whoever made them so.
pub(crate) fn judge(traces: &[Trace<'_>], is_any_writer_right: bool) -> Verdict {
    let signs: Vec<_> = traces.iter().copied().map(sign_of).collect();
    // All or nothing: what one key knows for certain holds for all.
    if signs.contains(&Sign::NotApplied) {
        return Verdict::NotApplied;
    }
    if signs.contains(&Sign::Applied) {
        return Verdict::Applied;
    }
    let mut transactions = signs.iter().filter_map(|sign| match sign {
        Sign::Twin(zxid) => *zxid,
        _ => None,
    });
    let first = transactions.next();
    let is_one = transactions.all(|zxid| Some(zxid) == first);
    if is_any_writer_right && is_one && !signs.contains(&Sign::Unknown) {
        Verdict::Applied
    } else {
        Verdict::Unknown
    }
}

/// Returns the stat of one key of a transaction that was applied, if what is there is its work and not that of somebody
/// who came after it.
pub(crate) fn stat_of(trace: Trace<'_>) -> Option<Stat> {
    let after = trace.after?;
    let now = after.stat;
    let has_wanted = trace.wanted == Some(&after.data);
    let is_ours = match (trace.step, trace.before) {
        (Step::Create, _) => has_wanted && now.version == 0 && now.czxid == now.mzxid,
        (Step::Set { version }, Some(before)) => {
            has_wanted && now.czxid == before.stat.czxid && now.version == version.wrapping_add(1)
        }
        (Step::Check { .. }, Some(before)) => now.mzxid == before.stat.mzxid,
        _ => false,
    };
    is_ours.then_some(now)
}

fn sign_of(trace: Trace<'_>) -> Sign {
    match trace.mark {
        Mark::Ours => return Sign::Applied,
        Mark::Others => return Sign::NotApplied,
        Mark::None => {}
    }
    match (trace.step, trace.before) {
        (Step::Nothing | Step::Check { .. }, _) => Sign::Nothing,
        (Step::Create, _) => created(trace),
        (Step::Set { .. }, Some(before)) => set(trace, before),
        (Step::Delete { .. }, Some(before)) => deleted(trace, before),
        // Nobody plans that.
        (Step::Set { .. } | Step::Delete { .. }, None) => Sign::Unknown,
    }
}

fn created(trace: Trace<'_>) -> Sign {
    let parents = match (trace.parent_before, trace.parent_after) {
        (Some(before), Some(after)) if before.czxid == after.czxid => Some((before, after)),
        _ => None,
    };
    match (trace.after, parents) {
        // No child has come or gone at all.
        (None, Some((before, after))) if before.pzxid == after.pzxid => Sign::NotApplied,
        (Some(found), _) if found.stat.version == 0 && trace.wanted == Some(&found.data) => {
            Sign::Twin(Some(found.stat.czxid))
        }
        // One child has come or gone, and that is this node, with other data.
        (Some(found), Some((before, after)))
            if found.stat.version == 0 && after.cversion == before.cversion.wrapping_add(1) =>
        {
            Sign::NotApplied
        }
        _ => Sign::Unknown,
    }
}

fn set(trace: Trace<'_>, before: &Found) -> Sign {
    let Some(after) = trace.after else {
        return Sign::Unknown;
    };
    if after.stat.czxid != before.stat.czxid {
        Sign::Unknown
    } else if after.stat.mzxid == before.stat.mzxid {
        Sign::NotApplied
    } else if after.stat.version != before.stat.version.wrapping_add(1) {
        Sign::Unknown
    } else if trace.wanted == Some(&after.data) {
        Sign::Twin(Some(after.stat.mzxid))
    } else {
        // The one write that followed was another one.
        Sign::NotApplied
    }
}

fn deleted(trace: Trace<'_>, before: &Found) -> Sign {
    match trace.after {
        None => Sign::Twin(None),
        Some(after) if after.stat.czxid == before.stat.czxid => Sign::NotApplied,
        Some(_) => Sign::Unknown,
    }
}

#[cfg(test)]
mod tests;
