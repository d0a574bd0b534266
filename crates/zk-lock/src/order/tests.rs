use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn names(numbers: impl IntoIterator<Item = i32>) -> Vec<String> {
    // The prefixes count backwards, so that an order by name would be the wrong one.
    numbers
        .into_iter()
        .enumerate()
        .map(|(at, number)| format!("_c_{}-lock-{number:010}", 'z' as usize - at))
        .collect()
}

fn at<'a>(children: &'a [String], own: &str) -> Place<'a> {
    place(children, own, Layout::curator())
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

// covers: L9
#[test]
fn order_is_by_number_for_every_small_set_in_every_order_of_listing() {
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
                    None => Place::First,
                    Some(before) => Place::Behind {
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

// covers: L9
#[test]
fn order_survives_counter_wrap() {
    let margin = 2000;
    let in_order = names([i32::MAX - margin, i32::MAX - margin + 1, i32::MIN + margin]);
    permutations(&mut in_order.clone(), 0, &mut |listed| {
        assert_eq!(at(listed, &in_order[0]), Place::First);
        for ahead in [1, 2] {
            let predecessor = in_order[ahead - 1].as_str();
            let expected = Place::Behind { predecessor, ahead };
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
    // Across zero, where the text of the numbers would say the opposite.
    let in_order = names([-10, -1, 0, 1]);
    assert_eq!(at(&in_order, &in_order[0]), Place::First);
    let predecessor = in_order[1].as_str();
    assert_eq!(
        at(&in_order, &in_order[2]),
        Place::Behind {
            predecessor,
            ahead: 2
        }
    );
}

// covers: L9
#[test]
fn equal_numbers_grant_nobody() {
    for others in [vec![], vec![3], vec![9], vec![3, 9]] {
        let mut listed = names([7, 7].into_iter().chain(others));
        let (one, other) = (listed[0].clone(), listed[1].clone());
        listed.rotate_left(1);
        assert_eq!(
            at(&listed, &one),
            Place::Unordered {
                tied_with: Some(&other)
            }
        );
        assert_eq!(
            at(&listed, &other),
            Place::Unordered {
                tied_with: Some(&one)
            }
        );
    }
    // A tie among those before is not ours to judge: one of them is waited for, then the other.
    let listed = names([3, 3, 5]);
    assert!(matches!(
        at(&listed, &listed[2]),
        Place::Behind { ahead: 2, .. }
    ));
}

#[test]
fn near_the_end_of_the_counter_nobody_is_granted() {
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
            Place::First
        } else {
            Place::Unordered { tied_with: None }
        };
        assert_eq!(at(&listed, &listed[0]), expected, "{number}");
    }
    // A number that is no longer one of 32 bits.
    let beyond = vec!["_c_x-lock-2147483648".to_owned()];
    assert_eq!(
        at(&beyond, &beyond[0]),
        Place::Unordered { tied_with: None }
    );
}

#[test]
fn who_is_not_listed_is_missing_whatever_else_is() {
    let own = "_c_me-lock-0000000005";
    for others in [vec![], vec![1], vec![9], vec![1, 9], vec![5]] {
        assert_eq!(
            at(&names(others.clone()), own),
            Place::Missing,
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
        "_c_x-__WRIT__0000000001",
        "revoke",
        "lock-00000000000",
    ]
    .map(str::to_owned)
    .to_vec();
    listed.push(own.clone());
    assert_eq!(at(&listed, &own), Place::First);
    listed.push("theirs__lock__0000000004".to_owned());
    let expected = Place::Behind {
        predecessor: "theirs__lock__0000000004",
        ahead: 1,
    };
    assert_eq!(at(&listed, &own), expected);
    assert_eq!(ranked(listed, Layout::curator()).len(), 2);
}

proptest! {
    // Whatever the names are: at most one contender is first, and each of the others waits for somebody who is there,
    // so that the queue has no cycle and nobody waits for ever.
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
        let firsts = listed.iter().filter(|own| at(&listed, own) == Place::First).count();
        prop_assert!(firsts <= 1);
        for own in &listed {
            let mut seen = BTreeSet::from([own.as_str()]);
            let mut here = own.as_str();
            while let Place::Behind { predecessor, ahead } = at(&listed, here) {
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
