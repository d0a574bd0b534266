use std::collections::BTreeMap;

use super::*;

const ALL: [Allocation; 2] = [Allocation::Rendezvous, Allocation::Kazoo];

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{prefix}{at:03}")).collect()
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// Returns the owner of each item, and checks that there is one.
fn owners<'a>(
    allocation: Allocation,
    members: &[&'a str],
    items: &[&'a str],
) -> BTreeMap<&'a str, &'a str> {
    let mut owners = BTreeMap::new();
    for (own, id) in members.iter().enumerate() {
        let share = allocation.share(own, members, items);
        let (fewest, rest) = (items.len() / members.len(), items.len() % members.len());
        let most = fewest + usize::from(rest > 0);
        assert!(
            (fewest..=most).contains(&share.len()),
            "{members:?}: {share:?}"
        );
        for item in share {
            let other = owners.insert(item, *id);
            assert_eq!(other, None, "{allocation:?}, {members:?}: {item} twice");
        }
    }
    assert_eq!(owners.len(), items.len(), "{allocation:?}, {members:?}");
    owners
}

/// All groups of up to six members of three ids, so that many are equal, and up to nine items.
#[test]
fn each_item_has_exactly_one_owner_and_shares_are_equal() {
    for allocation in ALL {
        for ids in 0..3_usize.pow(6) {
            for count in 1..=6 {
                let mut members: Vec<_> = (0..count)
                    .map(|at| ["a", "b", "c"][ids / 3_usize.pow(at) % 3])
                    .collect();
                members.sort_unstable();
                for items in 0..=9 {
                    owners(allocation, &members, &texts(&names("item-", items)));
                }
            }
        }
    }
}

#[test]
fn shares_are_those_of_kazoo() {
    let (members, items) = (["a", "b", "c"], ["1", "10", "2", "3", "x"]);
    let share = |own| Allocation::Kazoo.share(own, &members, &items);
    assert_eq!(
        [share(0), share(1), share(2)],
        [vec!["1", "3"], vec!["10", "x"], vec!["2"]]
    );
}

/// Members of different versions must agree.
#[test]
fn shares_never_change() {
    let (members, items) = (["host-1", "host-1", "host-2"], names("queue-", 7));
    let share = |own| {
        Allocation::Rendezvous
            .share(own, &members, &texts(&items))
            .join(" ")
    };
    let expected = [
        "queue-003 queue-004",
        "queue-005 queue-006",
        "queue-000 queue-001 queue-002",
    ];
    assert_eq!([share(0), share(1), share(2)], expected);
}

#[test]
fn few_items_move_when_a_member_joins() {
    let (members, items) = (names("host-", 11), names("item-", 1000));
    let (all, items) = (texts(&members), texts(&items));
    let moved = |allocation, gone: usize| {
        let mut rest = all.clone();
        rest.remove(gone);
        let (before, after) = (
            owners(allocation, &rest, &items),
            owners(allocation, &all, &items),
        );
        items
            .iter()
            .filter(|item| before[*item] != after[*item])
            .count()
    };
    for gone in 0..all.len() {
        let (ours, kazoo) = (
            moved(Allocation::Rendezvous, gone),
            moved(Allocation::Kazoo, gone),
        );
        assert!(
            ours < 125 && kazoo > 850,
            "{ours} and {kazoo} of 1000 moved"
        );
    }
}
