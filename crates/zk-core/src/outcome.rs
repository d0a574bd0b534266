//! Decides from the state of a node whether a write with a lost reply was applied.
//!
//! Operations of a session apply these rules themselves. Recipes use them for transactions to which no
//! [idempotency token](crate::IdempotencyTokens) can be added, because other clients own the layout.
//!
//! `seen` is a transaction that was committed before the write was sent: the newest one that the session had seen, or
//! the one that last changed the node when it was read. If the write was applied, its transaction has a greater number.
//! The node has to be read after the loss from a server that had caught up with all proposals (see
//! [`Sync::with_quorum`](crate::Sync::with_quorum)). Then a write without effect by then has none later.
//!
//! Pure: no I/O and no clock.

use zk_wire::{Acl, SessionId, Stat};

use crate::error::ErrorKind;

/// The outcome of a write, as a node shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum Verdict {
    /// It was applied.
    Applied,
    /// It was applied, or a write of another client had the same effect.
    SameEffect,
    /// It was not applied, and will not be.
    NotApplied,
    /// The node does not show it.
    Unknown,
}

/// What a create requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) data: &'a [u8],
    /// The session, for an ephemeral node.
    pub(crate) owner: Option<SessionId>,
}

/// Judges the node that a repeated create found: whether it is the one that was to be created.
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
        _ if stat.czxid <= seen => Verdict::NotApplied,
        (Some(owner), Some(found)) if owner != found => Verdict::NotApplied,
        (Some(_), None) | (None, Some(_)) => Verdict::NotApplied,
        _ if stat.version != 0 => Verdict::Unknown,
        _ if data != wanted.data => Verdict::NotApplied,
        (Some(_), Some(_)) => Verdict::Applied,
        // Another client may have created a node with the same data.
        (None, None) => Verdict::SameEffect,
    }
}

/// Judges the create of a persistent node that did not exist, by the node and its parent.
///
/// `parents` is the parent as it was read before the node was found missing, and after `found` was read.
pub fn judge_create_below(
    data: &[u8],
    found: Option<(&[u8], &Stat)>,
    parents: Option<(&Stat, &Stat)>,
) -> Verdict {
    let parents = parents.filter(|(before, after)| before.czxid == after.czxid);
    match (found, parents) {
        // The list of children has not changed.
        (None, Some((before, after))) if before.pzxid == after.pzxid => Verdict::NotApplied,
        (Some((found_data, stat)), _) if stat.version == 0 && found_data == data => {
            Verdict::SameEffect
        }
        // One child was created or deleted, and that is this node, with other data.
        (Some((_, stat)), Some((before, after)))
            if stat.version == 0 && after.cversion == before.cversion.wrapping_add(1) =>
        {
            Verdict::NotApplied
        }
        _ => Verdict::Unknown,
    }
}

/// Judges a write without a version.
pub(crate) fn judge_overwrite(data: &[u8], seen: i64, found: (&[u8], &Stat)) -> Verdict {
    let (found_data, stat) = found;
    if stat.mzxid <= seen {
        Verdict::NotApplied
    } else if found_data == data {
        Verdict::SameEffect
    } else {
        // Others have written, maybe over the data of this call.
        Verdict::Unknown
    }
}

/// Judges a write that required the version `expected`.
///
/// Two clients that count from 5 to 6 write the same data, and only one of them succeeds: [`Verdict::SameEffect`]
/// means success only if the data identifies its writer, or if it does not matter which client wrote it.
pub fn judge_set(data: &[u8], expected: i32, seen: i64, found: (&[u8], &Stat)) -> Verdict {
    let (found_data, stat) = found;
    if stat.mzxid <= seen {
        Verdict::NotApplied
    } else if stat.version != expected.wrapping_add(1) {
        // Another client has written since, or this is another node.
        Verdict::Unknown
    } else if found_data == data {
        Verdict::SameEffect
    } else if stat.czxid <= seen {
        // The one write since then was another one.
        Verdict::NotApplied
    } else {
        // This may be a later node, and the write was applied to the one before.
        Verdict::Unknown
    }
}

/// Judges a deletion. If the node to delete is known, `seen` is the transaction that created it.
pub fn judge_delete(seen: i64, found: Option<&Stat>) -> Verdict {
    match found {
        None => Verdict::SameEffect,
        Some(stat) if stat.czxid <= seen => Verdict::NotApplied,
        // A later node has replaced the one to delete, which may have been deleted by another client.
        Some(_) => Verdict::Unknown,
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
        Verdict::NotApplied
    } else if expected.is_none() && found_acl == acl {
        Verdict::SameEffect
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
