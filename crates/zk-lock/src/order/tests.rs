use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn names(numbers: impl IntoIterator<Item = i32>) -> Vec<String> {
    // The prefixes count backwards, so that an order by name would be wrong.
    numbers
        .into_iter()
        .enumerate()
        .map(|(at, number)| format!("_c_{}-lock-{number:010}", 'z' as usize - at))
        .collect()
}

fn at<'a>(children: &'a [String], own: &str) -> QueuePosition<'a> {
    position(children, own, Layout::curator())
}

/// Calls `check` with every order of `items`.
fn permutations<T: Clone>(items: &mut Vec<T>, fixed: usize, check: &mut impl FnMut(&[T])) {
    if fixed == items.len() {
        return check(items);
    }
    for next in fixed..items.len() {
        items.swap(fixed, next);
        permutations(items, fixed + 1, check);
        items.swap(fixed, next);
    }
}

#[test]
fn order_is_by_number_in_every_order_of_listing() {
    let numbers = [0, 1, 5, 9, 10];
    for set in 1..1_u32 << numbers.len() {
        let chosen: Vec<i32> = (0..numbers.len())
            .filter(|bit| set & (1 << bit) != 0)
            .map(|bit| numbers[bit])
            .collect();
        let in_order = names(chosen);
        permutations(&mut in_order.clone(), 0, &mut |listed| {
            for (ahead, own) in in_order.iter().enumerate() {
                let expected = match ahead.checked_sub(1) {
                    None => QueuePosition::First,
                    Some(before) => QueuePosition::Behind {
                        predecessor: &in_order[before],
                        ahead,
                    },
                };
                assert_eq!(at(listed, own), expected, "{own} of {listed:?}");
            }
            let ranked: Vec<String> = ranked(listed.to_vec(), Layout::curator())
                .into_iter()
                .map(|(_, name)| name)
                .collect();
            assert_eq!(ranked, in_order, "{listed:?}");
        });
    }
}

#[test]
fn order_survives_counter_wrap() {
    let margin = 2000;
    let in_order = names([i32::MAX - margin, i32::MAX - margin + 1, i32::MIN + margin]);
    permutations(&mut in_order.clone(), 0, &mut |listed| {
        assert_eq!(at(listed, &in_order[0]), QueuePosition::First);
        for ahead in [1, 2] {
            let predecessor = in_order[ahead - 1].as_str();
            let expected = QueuePosition::Behind { predecessor, ahead };
            assert_eq!(at(listed, &in_order[ahead]), expected);
        }
        let ranked = ranked(listed.to_vec(), Layout::curator());
        assert!(
            ranked
                .into_iter()
                .map(|(_, name)| name)
                .eq(in_order.iter().cloned())
        );
    });
    // Across zero, where an order by the text of the numbers would be the opposite.
    let in_order = names([-10, -1, 0, 1]);
    assert_eq!(at(&in_order, &in_order[0]), QueuePosition::First);
    let predecessor = in_order[1].as_str();
    assert_eq!(
        at(&in_order, &in_order[2]),
        QueuePosition::Behind {
            predecessor,
            ahead: 2
        }
    );
}

#[test]
fn equal_numbers_grant_no_contender() {
    for others in [vec![], vec![3], vec![9], vec![3, 9]] {
        let mut listed = names([7, 7].into_iter().chain(others));
        let (one, other) = (listed[0].clone(), listed[1].clone());
        listed.rotate_left(1);
        assert_eq!(
            at(&listed, &one),
            QueuePosition::Unordered {
                tied_with: Some(&other)
            }
        );
        assert_eq!(
            at(&listed, &other),
            QueuePosition::Unordered {
                tied_with: Some(&one)
            }
        );
    }
    // A tie among contenders ahead does not matter: one of them is waited for, then the other.
    let listed = names([3, 3, 5]);
    assert!(matches!(
        at(&listed, &listed[2]),
        QueuePosition::Behind { ahead: 2, .. }
    ));
}

#[test]
fn near_the_end_of_the_counter_no_contender_is_first() {
    for (number, is_ordered) in [
        (i32::MAX, false),
        (i32::MAX - 1, false),
        (i32::MAX - 1023, false),
        (i32::MAX - 1024, true),
        (i32::MIN, false),
        (i32::MIN + 1023, false),
        (i32::MIN + 1024, true),
        (0, true),
    ] {
        let listed = names([number]);
        let expected = if is_ordered {
            QueuePosition::First
        } else {
            QueuePosition::Unordered { tied_with: None }
        };
        assert_eq!(at(&listed, &listed[0]), expected, "{number}");
    }
    // A number beyond 32 bits.
    let beyond = vec!["_c_x-lock-2147483648".to_owned()];
    assert_eq!(
        at(&beyond, &beyond[0]),
        QueuePosition::Unordered { tied_with: None }
    );
}

#[test]
fn an_unlisted_contender_is_missing() {
    let own = "_c_me-lock-0000000005";
    for others in [vec![], vec![1], vec![9], vec![1, 9], vec![5]] {
        assert_eq!(
            at(&names(others.clone()), own),
            QueuePosition::Missing,
            "{others:?}"
        );
    }
}

#[test]
fn foreign_children_change_nothing() {
    let own = "_c_me-lock-0000000005".to_owned();
    let mut listed: Vec<String> = [
        "0",
        "lock-0",
        "0000000000",
        "_c_x-lease-0000000000",
        "_c_x-lease-0000000001",
        "revoke",
        "lock-00000000000",
    ]
    .map(str::to_owned)
    .to_vec();
    listed.push(own.clone());
    assert_eq!(at(&listed, &own), QueuePosition::First);
    listed.push("theirs__lock__0000000004".to_owned());
    let expected = QueuePosition::Behind {
        predecessor: "theirs__lock__0000000004",
        ahead: 1,
    };
    assert_eq!(at(&listed, &own), expected);
    assert_eq!(ranked(listed, Layout::curator()).len(), 2);
}

proptest! {
    // For all names: at most one contender is first, and each of the others waits for an existing one, so that the
    // queue has no cycle and no contender waits forever.
    #[test]
    fn at_most_one_is_first_and_waiting_leads_to_it(
        start in any::<i32>(),
        steps in proptest::collection::vec((0_u32..4, any::<bool>()), 1..12),
        rotate in any::<usize>(),
    ) {
        let mut number = start;
        let mut listed = Vec::new();
        for (at, (step, is_ours)) in steps.into_iter().enumerate() {
            number = number.wrapping_add_unsigned(step);
            let marker = if is_ours { "-lock-" } else { "__lock__" };
            listed.push(format!("_c_{}{marker}{number:010}", 100 - at));
        }
        let turn = rotate % listed.len();
        listed.rotate_left(turn);
        let firsts = listed.iter().filter(|own| at(&listed, own) == QueuePosition::First).count();
        prop_assert!(firsts <= 1);
        for own in &listed {
            let mut seen = BTreeSet::from([own.as_str()]);
            let mut here = own.as_str();
            while let QueuePosition::Behind { predecessor, ahead } = at(&listed, here) {
                prop_assert!(ahead < listed.len());
                prop_assert!(seen.insert(predecessor), "{} waits for itself", own);
                here = predecessor;
            }
        }
    }

    #[test]
    fn no_children_make_it_panic(children in proptest::collection::vec("(lock-|__lock__|x-1-|)[-0-9]{0,11}", 0..8), own in "lock-[-0-9]{9,11}") {
        let _ = at(&children, &own);
        drop(ranked(children, Layout::curator()));
    }
}

/// A model of the rule: a list in order of arrival, in which a reader waits for writers only.
fn expected(queue: &[(String, Kind)], own: usize) -> (Option<&str>, usize) {
    let blocks = |kind: &Kind| *kind == Kind::Exclusive || queue[own].1 == Kind::Exclusive;
    let blockers: Vec<&str> = queue[..own]
        .iter()
        .filter(|(_, kind)| blocks(kind))
        .map(|(name, _)| name.as_str())
        .collect();
    (blockers.last().copied(), blockers.len())
}

#[test]
fn readers_wait_for_earlier_writers_and_writers_for_all() {
    for length in 1..=6_u32 {
        for kinds in 0..1_u32 << length {
            let queue: Vec<(String, Kind)> = (0..length)
                .map(|at| match kinds & (1 << at) {
                    0 => (format!("_c_{}-__READ__{at:010}", 99 - at), Kind::Shared),
                    _ => (format!("_c_{}-__WRIT__{at:010}", 99 - at), Kind::Exclusive),
                })
                .collect();
            let mut listed: Vec<String> = queue.iter().map(|(name, _)| name.clone()).collect();
            for _ in 0..length {
                listed.rotate_left(1);
                for own in 0..queue.len() {
                    let position = at(&listed, &queue[own].0);
                    let seen = match position {
                        QueuePosition::First => (None, 0),
                        QueuePosition::Behind { predecessor, ahead } => (Some(predecessor), ahead),
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(seen, expected(&queue, own), "{own} of {queue:?}");
                }
            }
        }
    }
}

#[test]
fn a_writer_and_its_downgraded_reader_have_an_order() {
    let own_write = "_c_a-__WRIT__0000000005".to_owned();
    let own_read = "_c_b-__READ__0000000005".to_owned();
    let next = "_c_c-__WRIT__0000000006".to_owned();
    let both = [own_read.clone(), own_write.clone(), next.clone()];
    assert_eq!(at(&both, &own_write), QueuePosition::First);
    assert_eq!(
        at(&both, &own_read),
        QueuePosition::Behind {
            predecessor: &own_write,
            ahead: 1
        }
    );
    // The writer behind them waits for both, one after the other.
    assert!(matches!(
        at(&both, &next),
        QueuePosition::Behind { ahead: 2, .. }
    ));
    let downgraded = [next.clone(), own_read.clone()];
    assert_eq!(at(&downgraded, &own_read), QueuePosition::First);
    assert_eq!(
        at(&downgraded, &next),
        QueuePosition::Behind {
            predecessor: &own_read,
            ahead: 1
        }
    );
}

#[test]
fn readers_near_the_end_of_the_counter_are_granted_nothing() {
    let readers = [
        "_c_a-__READ__2147483647".to_owned(),
        "_c_b-__READ__2147483647".to_owned(),
    ];
    assert!(matches!(
        at(&readers, &readers[0]),
        QueuePosition::Unordered { tied_with: Some(_) }
    ));
    let alone = ["_c_a-__READ__2147483647".to_owned()];
    assert_eq!(
        at(&alone, &alone[0]),
        QueuePosition::Unordered { tied_with: None }
    );
}

/// Calls `visit` with every state that a queue may reach from this one without new contenders: each may leave, and a
/// writer of a read/write lock may become a reader before.
fn futures(queue: &[String], visit: &mut impl FnMut(&[String])) {
    visit(queue);
    for at in 0..queue.len() {
        let mut rest = queue.to_vec();
        let gone = rest.remove(at);
        futures(&rest, visit);
        if let Some((_, number)) = gone.split_once("-__WRIT__") {
            // Its second node exists before the first one is deleted, and is created once.
            rest.push(format!("_c_b-__READ__{number}"));
            let mut both = rest.clone();
            both.push(gone);
            visit(&both);
            futures(&rest, visit);
        }
    }
}

/// What a waiter concludes from an old list stays true, whatever the other contenders do.
#[test]
fn the_next_is_first_once_its_predecessor_is_gone() {
    let mutex = outcomes_of_waiting("_c_own-lock-0000000007");
    assert!(mutex.nexts > 50 && mutex.unknowns > 50, "{mutex:?}");
    // The deletion of the last writer is all that a reader waits for, also if that writer has become a reader.
    let reader = outcomes_of_waiting("_c_own-__READ__0000000007");
    assert!(reader.nexts > 50 && reader.unknowns == 0, "{reader:?}");
}

/// How often a waiter knew what it waits for.
#[derive(Debug, Default)]
struct WaitingOutcomes {
    nexts: usize,
    unknowns: usize,
}

/// Checks what a waiter concludes in every short queue.
fn outcomes_of_waiting(own: &str) -> WaitingOutcomes {
    let own = own.to_owned();
    let kinds = ["-lock-", "-__WRIT__", "-__READ__", "__lock__"];
    let mut outcomes = WaitingOutcomes::default();
    for length in 1..=3_u32 {
        for mut drawn in 0..4_u32.pow(length) {
            let mut queue = Vec::new();
            for number in 0..length {
                queue.push(format!("_c_a{}{number:010}", kinds[drawn as usize % 4]));
                drawn /= 4;
            }
            futures(&queue, &mut |now| {
                let with_own = |others: &[String]| [others, std::slice::from_ref(&own)].concat();
                let listed = with_own(now);
                match position_with_lookahead(&listed, &own, Layout::curator()) {
                    (QueuePosition::Behind { predecessor, ahead }, Lookahead::Next) => {
                        assert_eq!(ahead, 1, "{listed:?}");
                        outcomes.nexts += 1;
                        futures(now, &mut |later| {
                            if !later.iter().any(|name| name == predecessor) {
                                let later = with_own(later);
                                assert_eq!(
                                    at(&later, &own),
                                    QueuePosition::First,
                                    "{listed:?}, then {later:?}"
                                );
                            }
                        });
                    }
                    (QueuePosition::Behind { predecessor, ahead }, Lookahead::After(before)) => {
                        assert!(ahead > 1 && before != predecessor, "{listed:?}");
                        // No other contender that excludes the waiter is between the two.
                        let without: Vec<_> = listed
                            .iter()
                            .filter(|name| *name != predecessor)
                            .cloned()
                            .collect();
                        let waits = at(&without, &own);
                        assert!(
                            matches!(waits, QueuePosition::Behind { predecessor, .. } if predecessor == before),
                            "{listed:?}"
                        );
                    }
                    (QueuePosition::Behind { predecessor, .. }, Lookahead::Unknown) => {
                        outcomes.unknowns += 1;
                        assert!(!predecessor.contains("-lock-"), "{listed:?}");
                    }
                    (position, lookahead) => {
                        assert_eq!(
                            (position, lookahead),
                            (QueuePosition::First, Lookahead::Unknown),
                            "{listed:?}"
                        );
                    }
                }
            });
        }
    }
    outcomes
}

#[test]
fn only_readers_look_ahead_behind_a_read_write_lock_writer() {
    let cases = [
        (
            Layout::curator(),
            "_c_a-lock-0000000001",
            "_c_b-lock-0000000002",
            true,
        ),
        (
            Layout::curator(),
            "x-12-0000000001",
            "_c_b-lock-0000000002",
            true,
        ),
        (
            Layout::curator(),
            "_c_a-__WRIT__0000000001",
            "_c_b-lock-0000000002",
            false,
        ),
        (
            Layout::curator(),
            "_c_a-__WRIT__0000000001",
            "_c_b-__READ__0000000002",
            true,
        ),
        (
            Layout::curator(),
            "a__lock__0000000001",
            "_c_b-lock-0000000002",
            false,
        ),
        (
            Layout::kazoo(),
            "a-__lock__0000000001",
            "b-__lock__0000000002",
            false,
        ),
        (
            Layout::hbase(),
            "write-lock-0000000001",
            "write-b_0000000002",
            false,
        ),
        (
            Layout::zookeeper(),
            "x-1-0000000001",
            "x-2-0000000002",
            true,
        ),
        (
            Layout::curator_latch(),
            "_c_a-latch-0000000001",
            "_c_b-latch-0000000002",
            true,
        ),
    ];
    for (layout, before, own, may) in cases {
        let listed = [own.to_owned(), before.to_owned()];
        let expected = if may {
            Lookahead::Next
        } else {
            Lookahead::Unknown
        };
        let (position, lookahead) = position_with_lookahead(&listed, own, layout);
        assert!(matches!(position, QueuePosition::Behind { .. }), "{before}");
        assert_eq!(lookahead, expected, "{before}");
    }
}

#[test]
fn a_queue_is_free_for_readers_without_writers_and_for_others_without_contenders() {
    let layout = Layout::curator();
    for (children, for_reader, for_writer) in [
        (vec![], true, true),
        (vec!["foreign", "lock-x"], true, true),
        (vec!["_c_1-__READ__0000000003"], true, false),
        (vec!["_c_1-__WRIT__0000000003"], false, false),
        (vec!["_c_1-lock-0000000003"], false, false),
    ] {
        let children: Vec<String> = children.into_iter().map(str::to_owned).collect();
        assert_eq!(
            [Kind::Shared, Kind::Exclusive].map(|kind| is_free(&children, kind, layout)),
            [for_reader, for_writer],
            "{children:?}"
        );
    }
}

#[test]
fn waiters_are_behind_and_do_not_share_or_are_no_contenders_of_the_layout() {
    let (read, write) = ("_c_a-__READ__0000000005", "_c_b-__WRIT__0000000005");
    let layout = Layout::curator();
    let waits = |own: &str, other: &str| {
        let listed = [own.to_owned(), other.to_owned()];
        let waits = has_waiters(&listed, own, layout);
        let turned = [other.to_owned(), own.to_owned()];
        assert_eq!(has_waiters(&turned, own, layout), waits, "{own} {other}");
        waits
    };
    for own in [read, write] {
        assert!(!has_waiters(&[own.to_owned()], own, layout), "{own}");
        assert!(waits(own, "_c_c-__WRIT__0000000006"), "{own}");
        assert!(!waits(own, "_c_c-__WRIT__0000000004"), "{own} is next");
        assert!(waits(own, "theirs"), "{own}");
    }
    assert!(!waits(read, "_c_c-__READ__0000000006"));
    assert!(waits(write, "_c_c-__READ__0000000006"));
    assert!(!waits(read, "_c_c-__READ__0000000004"));
    // It has become that reader.
    assert!(waits(read, "_c_c-__WRIT__0000000005"));
}
