//! What the answer to a repeated request says about the first try, whose answer was lost.

use crate::stat::SessionId;
use crate::stat::Stat;

/// Whose work was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The first try was applied.
    Ours,
    /// The first try was not applied: somebody else's work is there.
    NotOurs,
    /// Nobody can tell.
    Unknown,
}

/// What was asked of a create.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) data: &'a [u8],
    /// The session, for an ephemeral node.
    pub(crate) owner: Option<SessionId>,
    /// Whether the data tells its writer.
    pub(crate) is_idempotent: bool,
}

/// A node is there when a create is repeated: which one is it?
pub(crate) fn judge_create(wanted: Wanted<'_>, found: Option<(&[u8], &Stat)>) -> Verdict {
    let Some((data, stat)) = found else {
        // It is gone again: whoever made it.
        return Verdict::Unknown;
    };
    match (wanted.owner, stat.ephemeral_owner) {
        (Some(owner), Some(found)) if owner == found => Verdict::Ours,
        (Some(_), _) | (None, Some(_)) => Verdict::NotOurs,
        (None, None) if stat.version != 0 => Verdict::Unknown,
        (None, None) if data != wanted.data => Verdict::NotOurs,
        (None, None) if wanted.is_idempotent => Verdict::Ours,
        // Somebody else may have made a node with the same data.
        (None, None) => Verdict::Unknown,
    }
}

/// The version is another one when a write under the version `expected` is repeated: is it the one that was written?
pub(crate) fn judge_set(
    data: &[u8],
    expected: i32,
    is_idempotent: bool,
    found: (&[u8], &Stat),
) -> Verdict {
    let (found_data, stat) = found;
    if stat.version != expected.wrapping_add(1) {
        // Others have written since, or the node is another one.
        Verdict::Unknown
    } else if found_data != data {
        Verdict::NotOurs
    } else if is_idempotent {
        Verdict::Ours
    } else {
        // Two writers that count from 5 to 6 write the same, and only one of them did.
        Verdict::Unknown
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn stat(version: i32, owner: Option<i64>) -> Stat {
        Stat {
            czxid: 1,
            mzxid: 1,
            pzxid: 1,
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
            (Some(7), false, Some((b"y", stat(3, Some(7)))), Ours),
            (Some(7), true, Some((b"x", stat(0, Some(8)))), NotOurs),
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
            let found = found.as_ref().map(|(data, stat)| (data.as_slice(), stat));
            assert_eq!(judge_create(wanted, found), verdict, "{wanted:?} {found:?}");
        }
    }

    // covers: C3
    #[test]
    fn version_found_by_a_repeated_write_is_ours_only_if_the_data_tells() {
        use Verdict::NotOurs;
        use Verdict::Ours;
        use Verdict::Unknown;
        for (expected, idempotent, data, version, verdict) in [
            (4, true, b"x", 5, Ours),
            (4, false, b"x", 5, Unknown),
            (4, true, b"y", 5, NotOurs),
            (4, true, b"x", 6, Unknown),
            (4, true, b"x", 0, Unknown),
            (i32::MAX, true, b"x", i32::MIN, Ours),
        ] {
            let found = stat(version, None);
            let judged = judge_set(b"x", expected, idempotent, (data, &found));
            assert_eq!(judged, verdict, "{expected} {idempotent} {version}");
        }
    }
}
