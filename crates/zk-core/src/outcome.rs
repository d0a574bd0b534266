//! Decides from the state of a node whether a write with a lost reply was applied.
//!
//! `seen` is the newest transaction that the session had seen when it sent the write. If the write was applied, its
//! transaction has a greater number.
//! The node was read from a server that had caught up after the loss, so a write without effect by then has none later.
//!
//! Pure: no I/O and no clock.

use crate::acl::Acl;
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

/// The version that servers treat as any version.
pub(crate) const ANY_VERSION: i32 = -1;

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    /// The newest transaction that was seen before.
    const SEEN: i64 = 10;

    /// A node that was made and written after the write was sent.
    fn stat(version: i32, owner: Option<i64>) -> Stat {
        Stat {
            czxid: SEEN + 1,
            mzxid: SEEN + 1,
            pzxid: SEEN + 1,
            ctime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            version,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: owner.map(SessionId::new),
            data_length: 0,
            num_children: 0,
        }
    }

    /// A node that was there before, last written by the transaction `mzxid`.
    fn old(version: i32, mzxid: i64) -> Stat {
        Stat {
            czxid: SEEN,
            mzxid,
            ..stat(version, None)
        }
    }

    // covers: C3
    #[test]
    fn node_found_by_a_repeated_create_is_judged_by_owner_and_data() {
        use Verdict::NotOurs;
        use Verdict::Ours;
        use Verdict::Unknown;
        for (owner, idempotent, found, verdict) in [
            (None, false, None, Unknown),
            (None, true, None, Unknown),
            (Some(7), false, Some((b"x", stat(0, Some(7)))), Ours),
            (Some(7), false, Some((b"y", stat(0, Some(7)))), NotOurs),
            (Some(7), false, Some((b"x", stat(1, Some(7)))), Unknown),
            (Some(7), false, Some((b"y", stat(3, Some(7)))), Unknown),
            (Some(7), true, Some((b"x", stat(0, Some(8)))), NotOurs),
            (Some(7), true, Some((b"x", stat(1, Some(8)))), NotOurs),
            (Some(7), true, Some((b"x", stat(0, None))), NotOurs),
            (None, true, Some((b"x", stat(0, Some(7)))), NotOurs),
            (None, false, Some((b"x", stat(0, None))), Unknown),
            (None, true, Some((b"x", stat(0, None))), Ours),
            (None, true, Some((b"y", stat(0, None))), NotOurs),
            (None, false, Some((b"y", stat(0, None))), NotOurs),
            (None, true, Some((b"x", stat(1, None))), Unknown),
        ] {
            let wanted = Wanted {
                data: b"x",
                owner: owner.map(SessionId::new),
                is_idempotent: idempotent,
            };
            let judge = |found: Option<&(&[u8; 1], Stat)>| {
                let found = found.map(|(data, stat)| (data.as_slice(), stat));
                judge_create(wanted, SEEN, found)
            };
            assert_eq!(judge(found.as_ref()), verdict, "{wanted:?} {found:?}");
            // A node that existed before was created by another call.
            if let Some((data, stat)) = found {
                let czxid = SEEN;
                let before = (data, Stat { czxid, ..stat });
                assert_eq!(judge(Some(&before)), NotOurs, "{wanted:?} {before:?}");
            }
        }
    }

    // covers: C3
    #[test]
    fn overwrite_is_repeated_only_if_no_client_wrote_since() {
        for (data, mzxid, verdict) in [
            (b"x", SEEN - 1, Verdict::NotOurs),
            (b"y", SEEN - 1, Verdict::NotOurs),
            (b"y", SEEN, Verdict::NotOurs),
            (b"x", SEEN + 1, Verdict::Ours),
            (b"y", SEEN + 1, Verdict::Unknown),
        ] {
            let judged = judge_overwrite(b"x", SEEN, (data, &old(3, mzxid)));
            assert_eq!(judged, verdict, "{data:?} {mzxid}");
        }
        // A session that has seen nothing cannot decide.
        let judged = judge_overwrite(b"x", i64::MIN, (b"y", &old(0, 1)));
        assert_eq!(judged, Verdict::Unknown);
    }

    // covers: C3
    #[test]
    fn version_found_after_a_lost_write_is_ours_only_if_the_data_tells() {
        use Verdict::NotOurs;
        use Verdict::Ours;
        use Verdict::Unknown;
        for (expected, idempotent, data, found, verdict) in [
            (4, true, b"x", old(5, SEEN + 1), Ours),
            (4, false, b"x", old(5, SEEN + 1), Unknown),
            (4, true, b"y", old(5, SEEN + 1), NotOurs),
            (4, true, b"x", old(6, SEEN + 1), Unknown),
            (4, true, b"x", stat(0, None), Unknown),
            (i32::MAX, true, b"x", old(i32::MIN, SEEN + 1), Ours),
            // No client has written.
            (4, false, b"y", old(4, SEEN), NotOurs),
            (4, true, b"x", old(4, SEEN), NotOurs),
            (4, true, b"x", old(3, SEEN), NotOurs),
            // A later node that was written as often.
            (0, true, b"x", stat(0, None), Unknown),
        ] {
            let judged = judge_set(b"x", expected, idempotent, SEEN, (data, &found));
            assert_eq!(judged, verdict, "{expected} {idempotent} {found:?}");
        }
    }

    // covers: C3
    #[test]
    fn delete_is_repeated_only_for_the_node_that_was_there() {
        use Verdict::NotOurs;
        use Verdict::Ours;
        use Verdict::Unknown;
        let (before, after) = (old(1, SEEN + 5), stat(0, None));
        for (meant, found, verdict) in [
            (None, None, Ours),
            (None, Some(before), NotOurs),
            (None, Some(after), Unknown),
            (Some(SEEN), None, Ours),
            (Some(SEEN), Some(before), NotOurs),
            (Some(SEEN), Some(after), Ours),
            (Some(SEEN + 1), Some(after), NotOurs),
            (Some(SEEN - 1), Some(before), Ours),
        ] {
            let judged = judge_delete(meant, SEEN, found.as_ref());
            assert_eq!(judged, verdict, "{meant:?} {found:?}");
        }
    }

    // covers: C3
    #[test]
    fn acl_is_set_again_only_if_no_client_changed_it() {
        use Verdict::NotOurs;
        use Verdict::Ours;
        use Verdict::Unknown;
        let (ours, other) = (Acl::open(), Acl::read_only());
        let found = |aversion| Stat {
            aversion,
            ..old(9, SEEN)
        };
        for (expected, acl, stat, verdict) in [
            (None, &other, found(0), NotOurs),
            (None, &ours, found(0), NotOurs),
            (None, &other, found(1), Unknown),
            (None, &ours, found(1), Ours),
            (None, &ours, stat(0, None), Ours),
            (None, &other, stat(0, None), Unknown),
            (Some(4), &other, found(4), NotOurs),
            (Some(4), &ours, found(5), Unknown),
            (Some(4), &other, found(5), Unknown),
            (Some(4), &other, found(0), Unknown),
            (Some(0), &other, stat(0, None), Unknown),
        ] {
            let judged = judge_acl(&ours, expected, SEEN, (acl, &stat));
            assert_eq!(judged, verdict, "{expected:?} {acl:?} {stat:?}");
        }
    }

    // covers: C3 C13
    #[test]
    fn transaction_of_sets_is_made_again_only_over_what_it_knows() {
        let (before, after) = (old(3, SEEN), old(4, SEEN + 1));
        let any = old(ANY_VERSION, SEEN);
        let (x, y) = (b"x".as_slice(), b"y".as_slice());
        for (nodes, expected) in [
            // Not applied, as one node shows.
            (vec![(x, y, &before)], true),
            (vec![(x, x, &before), (x, y, &after)], true),
            (vec![(x, y, &after), (x, y, &before)], true),
            // Applied, or in the same state as if it had been.
            (vec![(x, x, &after)], true),
            (vec![(x, x, &after), (y, y, &after)], true),
            // Another client has overwritten one of them.
            (vec![(x, y, &after)], false),
            (vec![(x, x, &after), (y, x, &after)], false),
            // A version that means any.
            (vec![(x, y, &any)], false),
            (vec![(x, x, &after), (y, y, &any)], false),
        ] {
            assert_eq!(may_set_again(SEEN, &nodes), expected, "{nodes:?}");
        }
    }
}
