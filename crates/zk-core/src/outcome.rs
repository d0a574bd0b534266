//! Decides from the state of a node whether a write with a lost reply was applied.
//!
//! `seen` is the newest transaction that the session had seen when it sent the write. If the write was applied, its
//! transaction has a greater number.
//! The node was read from a server that had caught up after the loss, so a write without effect by then has none later.
//!
//! Pure: no I/O and no clock.

use crate::acl::Acl;
use crate::error::ErrorKind;
use crate::stat::SessionId;
use crate::stat::Stat;

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was applied, or the node is in the requested state anyway.
    Ours,
    /// It was not applied.
    NotOurs,
    /// The node does not show it.
    Unknown,
}

/// What a create requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) data: &'a [u8],
    /// The session, for an ephemeral node.
    pub(crate) owner: Option<SessionId>,
    /// Whether the data identifies its writer.
    pub(crate) is_idempotent: bool,
}

/// Judges the node that a repeated create found.
pub(crate) fn judge_create(
    wanted: Wanted<'_>,
    seen: i64,
    found: Option<(&[u8], &Stat)>,
) -> Verdict {
    let Some((data, stat)) = found else {
        // It was deleted again, whichever client created it.
        return Verdict::Unknown;
    };
    match (wanted.owner, stat.ephemeral_owner) {
        // It was there before.
        _ if stat.czxid <= seen => Verdict::NotOurs,
        (Some(owner), Some(found)) if owner != found => Verdict::NotOurs,
        (Some(_), None) | (None, Some(_)) => Verdict::NotOurs,
        _ if stat.version != 0 => Verdict::Unknown,
        _ if data != wanted.data => Verdict::NotOurs,
        (Some(_), Some(_)) => Verdict::Ours,
        (None, None) if wanted.is_idempotent => Verdict::Ours,
        // Another client may have created a node with the same data.
        (None, None) => Verdict::Unknown,
    }
}

/// Judges a write without a version.
pub(crate) fn judge_overwrite(data: &[u8], seen: i64, found: (&[u8], &Stat)) -> Verdict {
    let (found_data, stat) = found;
    if stat.mzxid <= seen {
        Verdict::NotOurs
    } else if found_data == data {
        // Even if another client wrote it, this is the requested data.
        Verdict::Ours
    } else {
        // Others have written, maybe over the data of this call.
        Verdict::Unknown
    }
}

/// Judges a write that required the version `expected`.
pub(crate) fn judge_set(
    data: &[u8],
    expected: i32,
    is_idempotent: bool,
    seen: i64,
    found: (&[u8], &Stat),
) -> Verdict {
    let (found_data, stat) = found;
    if stat.mzxid <= seen {
        Verdict::NotOurs
    } else if stat.version != expected.wrapping_add(1) {
        // Another client has written since, or this is another node.
        Verdict::Unknown
    } else if found_data != data {
        Verdict::NotOurs
    } else if is_idempotent {
        Verdict::Ours
    } else {
        // Two clients that count from 5 to 6 write the same data, and only one of them succeeded.
        Verdict::Unknown
    }
}

/// Judges a deletion. `meant` is the transaction that created the node to delete, if known.
pub(crate) fn judge_delete(meant: Option<i64>, seen: i64, found: Option<&Stat>) -> Verdict {
    let Some(stat) = found else {
        return Verdict::Ours;
    };
    match meant {
        Some(meant) if stat.czxid == meant => Verdict::NotOurs,
        // Another node has replaced the one to delete.
        Some(_) => Verdict::Ours,
        None if stat.czxid <= seen => Verdict::NotOurs,
        // It may be the node to delete, or a later one.
        None => Verdict::Unknown,
    }
}

/// Judges a change of access rules. `expected` is the version of the rules that it required, if any.
///
/// A stat does not contain the transaction that changed the rules, only their version.
pub(crate) fn judge_acl(
    acl: &Acl,
    expected: Option<i32>,
    seen: i64,
    found: (&Acl, &Stat),
) -> Verdict {
    let (found_acl, stat) = found;
    // Without a required version, version 0 shows that the rules were never changed.
    if stat.czxid <= seen && stat.aversion == expected.unwrap_or(0) {
        Verdict::NotOurs
    } else if expected.is_none() && found_acl == acl {
        Verdict::Ours
    } else {
        Verdict::Unknown
    }
}

/// Returns whether a transaction that replaces data without versions may be repeated under the versions that were
/// found.
///
/// `nodes` has, for each node, the data of the transaction, the data found and the stat found. All operations of the
/// transaction were applied or none.
pub(crate) fn may_set_again(seen: i64, nodes: &[(&[u8], &[u8], &Stat)]) -> bool {
    let is_countable = nodes.iter().all(|(.., stat)| stat.version != ANY_VERSION);
    let was_not_applied = nodes.iter().any(|(.., stat)| stat.mzxid <= seen);
    let is_so_anyway = nodes.iter().all(|(data, found, _)| data == found);
    is_countable && (was_not_applied || is_so_anyway)
}

/// Returns whether the refusal of a repeated transaction because of its idempotency token shows that an earlier attempt
/// was committed: the token exists although the transaction creates it, or has another version than it requires.
pub(crate) fn was_token_used(is_new: bool, refusal: ErrorKind) -> bool {
    matches!(
        (is_new, refusal),
        (true, ErrorKind::NodeExists) | (false, ErrorKind::BadVersion)
    )
}

/// The version that servers treat as any version.
pub(crate) const ANY_VERSION: i32 = -1;

#[cfg(test)]
mod tests;
