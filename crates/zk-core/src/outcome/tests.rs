//! Every rule, as a table.

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
        ephemeral_owner: owner.map(SessionId::from_i64),
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

#[test]
fn node_found_by_a_repeated_create_is_judged_by_owner_and_data() {
    use Verdict::{Applied, NotApplied, SameEffect, Unknown};
    for (owner, found, verdict) in [
        (None, None, Unknown),
        (Some(7), None, Unknown),
        (Some(7), Some((b"x", stat(0, Some(7)))), Applied),
        (Some(7), Some((b"y", stat(0, Some(7)))), NotApplied),
        (Some(7), Some((b"x", stat(1, Some(7)))), Unknown),
        (Some(7), Some((b"y", stat(3, Some(7)))), Unknown),
        (Some(7), Some((b"x", stat(0, Some(8)))), NotApplied),
        (Some(7), Some((b"x", stat(1, Some(8)))), NotApplied),
        (Some(7), Some((b"x", stat(0, None))), NotApplied),
        (None, Some((b"x", stat(0, Some(7)))), NotApplied),
        (None, Some((b"x", stat(0, None))), SameEffect),
        (None, Some((b"y", stat(0, None))), NotApplied),
        (None, Some((b"x", stat(1, None))), Unknown),
    ] {
        let wanted = Wanted {
            data: b"x",
            owner: owner.map(SessionId::from_i64),
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
            assert_eq!(judge(Some(&before)), NotApplied, "{wanted:?} {before:?}");
        }
    }
}

#[test]
fn create_is_judged_by_the_children_that_the_parent_has_had() {
    use Verdict::{NotApplied, SameEffect, Unknown};
    let parent = |czxid, changes: i32| Stat {
        czxid,
        pzxid: i64::from(changes),
        cversion: changes,
        ..stat(0, None)
    };
    let (x, y, later) = (
        Some((b"x", stat(0, None))),
        Some((b"y", stat(0, None))),
        Some((b"x", stat(1, None))),
    );
    // How often the list of children has changed, and whether the parent is the same.
    for (found, changes, is_same_parent, verdict) in [
        (None, 0, true, NotApplied),
        (None, 0, false, Unknown),
        (None, 1, true, Unknown),
        (None, 2, true, Unknown),
        (x, 1, true, SameEffect),
        (x, 3, true, SameEffect),
        (x, 1, false, SameEffect),
        (y, 1, true, NotApplied),
        (y, 1, false, Unknown),
        // Ours may have been deleted before.
        (y, 3, true, Unknown),
        (later, 1, true, Unknown),
    ] {
        let before = parent(1, 5);
        let after = parent(if is_same_parent { 1 } else { 2 }, 5 + changes);
        let found_node = found.as_ref().map(|(data, stat)| (data.as_slice(), stat));
        let judged = judge_create_below(b"x", found_node, Some((&before, &after)));
        assert_eq!(judged, verdict, "{found:?} {changes} {is_same_parent}");
        let judged = judge_create_below(b"x", found_node, None);
        let is_wanted = verdict == SameEffect;
        assert_eq!(judged, if is_wanted { SameEffect } else { Unknown });
    }
}

#[test]
fn overwrite_is_repeated_only_if_no_client_wrote_since() {
    for (data, mzxid, verdict) in [
        (b"x", SEEN - 1, Verdict::NotApplied),
        (b"y", SEEN - 1, Verdict::NotApplied),
        (b"y", SEEN, Verdict::NotApplied),
        (b"x", SEEN + 1, Verdict::SameEffect),
        (b"y", SEEN + 1, Verdict::Unknown),
    ] {
        let judged = judge_overwrite(b"x", SEEN, (data, &old(3, mzxid)));
        assert_eq!(judged, verdict, "{data:?} {mzxid}");
    }
    // A session that has seen nothing cannot decide.
    let judged = judge_overwrite(b"x", i64::MIN, (b"y", &old(0, 1)));
    assert_eq!(judged, Verdict::Unknown);
}

#[test]
fn version_found_after_a_lost_write_is_ours_only_if_the_data_tells() {
    use Verdict::{NotApplied, SameEffect, Unknown};
    for (expected, data, found, verdict) in [
        (4, b"x", old(5, SEEN + 1), SameEffect),
        (4, b"y", old(5, SEEN + 1), NotApplied),
        (4, b"x", old(6, SEEN + 1), Unknown),
        (4, b"y", old(6, SEEN + 1), Unknown),
        (4, b"x", old(0, SEEN + 1), Unknown),
        (4, b"x", stat(0, None), Unknown),
        (i32::MAX, b"x", old(i32::MIN, SEEN + 1), SameEffect),
        // No client has written.
        (4, b"y", old(4, SEEN), NotApplied),
        (4, b"x", old(4, SEEN), NotApplied),
        (4, b"x", old(3, SEEN), NotApplied),
        // A later node.
        (0, b"x", stat(0, None), Unknown),
        (0, b"y", stat(1, None), Unknown),
    ] {
        let judged = judge_set(b"x", expected, SEEN, (data, &found));
        assert_eq!(judged, verdict, "{expected} {data:?} {found:?}");
    }
}

#[test]
fn delete_is_repeated_only_for_the_node_that_was_there() {
    let (before, after) = (old(1, SEEN + 5), stat(0, None));
    for (seen, found, verdict) in [
        (SEEN, None, Verdict::SameEffect),
        (SEEN, Some(before), Verdict::NotApplied),
        (SEEN, Some(after), Verdict::Unknown),
        (SEEN + 1, Some(after), Verdict::NotApplied),
        (SEEN - 1, Some(before), Verdict::Unknown),
    ] {
        let judged = judge_delete(seen, found.as_ref());
        assert_eq!(judged, verdict, "{seen} {found:?}");
    }
}

#[test]
fn acl_is_set_again_only_if_no_client_changed_it() {
    use Verdict::{NotApplied, SameEffect, Unknown};
    let (ours, other) = (Acl::open(), Acl::read_only());
    let found = |aversion| Stat {
        aversion,
        ..old(9, SEEN)
    };
    for (expected, acl, stat, verdict) in [
        (None, &other, found(0), NotApplied),
        (None, &ours, found(0), NotApplied),
        (None, &other, found(1), Unknown),
        (None, &ours, found(1), SameEffect),
        (None, &ours, stat(0, None), SameEffect),
        (None, &other, stat(0, None), Unknown),
        (Some(4), &other, found(4), NotApplied),
        (Some(4), &ours, found(5), Unknown),
        (Some(4), &other, found(5), Unknown),
        (Some(4), &other, found(0), Unknown),
        (Some(0), &other, stat(0, None), Unknown),
    ] {
        let judged = judge_acl(&ours, expected, SEEN, (acl, &stat));
        assert_eq!(judged, verdict, "{expected:?} {acl:?} {stat:?}");
    }
}

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

#[test]
fn only_a_token_that_was_used_shows_a_commit() {
    use ErrorKind::{BadVersion, NoAuth, NoNode, NodeExists};
    for (is_new, refusal, expected) in [
        (true, NodeExists, true),
        (true, NoNode, false),
        (true, BadVersion, false),
        (true, NoAuth, false),
        (false, BadVersion, true),
        // Another client has deleted it.
        (false, NoNode, false),
        (false, NodeExists, false),
        (false, NoAuth, false),
    ] {
        let judged = was_token_used(is_new, refusal);
        assert_eq!(judged, expected, "{is_new} {refusal:?}");
    }
}
