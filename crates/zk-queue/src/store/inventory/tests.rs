//! Every state of a list, and what a caller gets from it.

use zk_core::{NodePath, Stat};

use super::*;
use crate::contention::Partition;

const MS: Duration = Duration::from_millis(1);

/// A list of the items node with nothing that allows taking an item.
fn listing(names: &[&str]) -> Listing {
    Listing {
        for_segments: None,
        active: ActiveSegment {
            segment: 0,
            control_version: 3,
        },
        items_node: None,
        segments: vec![(0, names.iter().map(|name| (*name).to_owned()).collect())],
        claims: BTreeSet::new(),
        is_complete: true,
    }
}

fn inventory(layout: Layout, listing: Listing) -> Inventory {
    let mut inventory = Inventory::new(layout);
    inventory.replace(listing, MS, MS);
    inventory
}

/// The names of the items that are ready, which are in flight from then on.
fn all(inventory: &mut Inventory, now: u64) -> Vec<String> {
    let ready = std::iter::from_fn(|| inventory.next(Purpose::Change, 0, now));
    ready.map(|(item, _)| item.name.to_string()).collect()
}

fn is_stale(next: &Next) -> bool {
    matches!(next, Next::Stale)
}

fn take_first(inventory: &mut Inventory) -> ListedItem {
    inventory
        .next(Purpose::Change, 0, 0)
        .expect("an item is ready")
        .0
}

fn content(bytes: usize) -> ItemContent {
    let unframed = ItemContent::parse(Layout::Recipe, vec![7; bytes], &Stat::default());
    unframed.expect("any data is an item")
}

/// A list with a fence, of an items node with this version.
fn listing_with_fence(names: &[&str], version: i32) -> Listing {
    let control_node = NodePath::parse("/q-receipts").unwrap();
    Listing {
        items_node: Some(ItemsNode {
            path: control_node.clone(),
            version,
            czxid: 40,
        }),
        for_segments: Some(Preconditions {
            fence: NodePath::parse("/q-receipts/token").unwrap(),
            control_node: (control_node, 3),
            items_node: None,
        }),
        ..listing(names)
    }
}

/// The same nodes, read again.
fn again(nodes: &Listing, names: &[&str]) -> Listing {
    Listing {
        for_segments: nodes.for_segments.clone(),
        active: nodes.active,
        items_node: nodes.items_node.clone(),
        ..listing(names)
    }
}

#[test]
fn a_list_has_no_claimed_items_and_reports_each_foreign_child_once() {
    let names = ["w-0-0-0-0000000002", "lock", "w-n1-0-0-0000000007"];
    let mut inventory = Inventory::new(Layout::Native);
    let foreign: ItemId = (0, Arc::from("lock"));
    for expected in [vec![foreign], vec![]] {
        assert_eq!(inventory.replace(listing(&names), MS, MS), expected);
    }
    assert_eq!(all(&mut inventory, 0), [names[2], names[0]]);
    let mut claimed = listing(&names);
    claimed
        .claims
        .extend(["0-w-n1-0-0-0000000007", "1-w-0-0-0-0000000002"].map(str::to_owned));
    let mut inventory = Inventory::new(Layout::Native);
    assert_eq!(inventory.replace(claimed, MS, MS).len(), 1);
    assert_eq!(all(&mut inventory, 0), [names[0]]);
    // A foreign child that was gone for one list is reported again.
    inventory.replace(listing(&[]), MS, MS);
    assert_eq!(inventory.replace(listing(&names), MS, MS).len(), 1);
}

#[test]
fn only_a_complete_list_of_a_server_that_caught_up_is_empty() {
    let mut unread = Inventory::new(Layout::Recipe);
    assert!(is_stale(&unread.next_of_new(Purpose::Read, 0, 0, MS)));
    for (is_complete, is_synced) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut inventory = inventory(
            Layout::Recipe,
            Listing {
                is_complete,
                ..listing(&["other"])
            },
        );
        if is_synced {
            inventory.set_synced();
        }
        for purpose in [Purpose::Read, Purpose::Change] {
            let next = inventory.next_of_new(purpose, 0, 0, MS);
            let is_empty = matches!(next, Next::Nothing);
            assert_eq!(is_empty, is_complete && is_synced);
            assert!(is_empty || is_stale(&next));
            // It was read before the call.
            assert!(is_stale(&inventory.next_of_new(purpose, 0, 0, 2 * MS)));
        }
        let firsts = inventory.first_of_each_priority(0);
        assert_eq!(firsts.is_none(), is_complete);
        // The next list starts as not synced.
        inventory.replace(listing(&[]), MS, MS);
        assert!(is_stale(&inventory.next_of_new(Purpose::Read, 0, 0, MS)));
    }
}

#[test]
fn an_item_is_read_without_an_epoch_and_not_taken() {
    let mut inventory = inventory(Layout::Recipe, listing(&["qn-0000000001"]));
    for at in [MS, 2 * MS] {
        let recent = inventory.next_of_recent(Purpose::Change, 0, 0, at, MS);
        assert!(recent.is_none(), "{at:?}");
    }
    let next = inventory.next_of_new(Purpose::Change, 0, 0, MS);
    assert!(matches!(next, Next::NoEpoch));
    assert!(inventory.has_item_since(MS, 0));
    assert!(!inventory.has_item_since(2 * MS, 0));
    let Next::Item((item, preconditions)) = inventory.next_of_new(Purpose::Read, 0, 0, MS) else {
        panic!("the list has an item");
    };
    assert!(preconditions.is_none());
    assert!(inventory.has_item_since(MS, 0), "others may take it");
    inventory.forget(&item);
    assert!(!inventory.has_item_since(MS, 0));
}

#[test]
fn a_list_is_used_for_its_refresh_time_or_longer_if_it_was_slow() {
    for (took, refresh, age, is_used) in [
        (1, 1000, 1000, true),
        (1, 1000, 1001, false),
        (100, 1000, 2000, true),
        (100, 1000, 2001, false),
        (0, 0, 0, true),
        (0, 0, 1, false),
    ] {
        let mut inventory = Inventory::new(Layout::Recipe);
        inventory.replace(listing(&["qn-0000000001"]), 5 * MS, took * MS);
        let next = inventory.next_of_recent(Purpose::Read, 0, 0, (5 + age) * MS, refresh * MS);
        assert_eq!(next.is_some(), is_used, "{took}, {refresh}, {age}");
    }
    let mut unread = Inventory::new(Layout::Recipe);
    let next = unread.next_of_recent(Purpose::Read, 0, 0, MS, Duration::MAX);
    assert!(next.is_none());
}

#[test]
fn an_item_is_quarantined_while_it_is_listed() {
    let names = ["qn-0000000001", "qn-0000000002"];
    let mut inventory = inventory(Layout::Recipe, listing(&names));
    let first = take_first(&mut inventory);
    inventory.complete(&first);
    assert!(inventory.quarantine(&first));
    assert!(!inventory.quarantine(&first));
    inventory.replace(listing(&names), MS, MS);
    assert_eq!(all(&mut inventory, 0), [names[1]]);
    inventory.replace(listing(&[]), MS, MS);
    // Created again under the same name.
    inventory.replace(listing(&names), MS, MS);
    assert_eq!(all(&mut inventory, 0), [names[0]]);
}

#[test]
fn an_available_item_is_in_nothing_else() {
    let name = "qn-0000000001".to_owned();
    let names = std::slice::from_ref(&name);
    let none = BTreeSet::new();
    let mut inventory = inventory(Layout::Recipe, listing(&[name.as_str()]));
    assert!(inventory.has_available(0, names, &none, 7));
    assert!(!inventory.has_available(0, &[], &none, 7));
    assert!(!inventory.has_available(0, &["other".to_owned()], &none, 7));
    let item = take_first(&mut inventory);
    assert!(!inventory.has_available(0, names, &none, 7));
    assert!(
        inventory.has_available(1, names, &none, 7),
        "another segment"
    );
    inventory.complete(&item);
    assert!(inventory.has_available(0, names, &none, 7));
    let claims = BTreeSet::from([Layout::Recipe.claim_name(0, &name)]);
    assert!(!inventory.has_available(0, names, &claims, 7));
    inventory.defer(item.clone(), 99);
    assert!(!inventory.has_available(0, names, &none, 98));
    assert!(inventory.has_available(0, names, &none, 99), "it is due");
    inventory.complete(&item);
    inventory.quarantine(&item);
    assert!(!inventory.has_available(0, names, &none, 7));
}

#[test]
fn waiting_ends_when_an_item_is_ready_or_due() {
    let names = ["w-0-64-0-0000000001", "w-0-c8-0-0000000002"];
    let mut inventory = inventory(Layout::Native, listing(&names));
    assert_eq!(inventory.ready_at(99), Some(100));
    assert_eq!(inventory.ready_at(100), Some(100));
    assert_eq!(all(&mut inventory, 100), [names[0]]);
    assert_eq!(inventory.ready_at(101), Some(200));
    assert_eq!(all(&mut inventory, 200), [names[1]]);
    assert_eq!(inventory.ready_at(300), None);
}

#[test]
fn a_deferred_item_is_due_later() {
    let name = "w-0-64-0-0000000001";
    let mut inventory = inventory(Layout::Native, listing(&[name]));
    let (item, _) = inventory.next(Purpose::Read, 0, 100).unwrap();
    inventory.complete(&item);
    inventory.defer(item, 125);
    assert_eq!(inventory.ready_at(100), Some(125));
    inventory.replace(listing(&[name]), MS, MS);
    assert_eq!(inventory.ready_at(100), Some(125));
}

#[test]
fn the_oldest_items_are_the_first_ones_of_their_priorities() {
    let names = [
        "w-0-0-0-0000000005",
        "w-0-0-0-0000000004",
        "w-9-0-0-0000000001",
        "w-n1-64-0-0000000000",
    ];
    let mut inventory = inventory(Layout::Native, listing(&names));
    let expected: [ItemId; 2] = [names[1], names[2]].map(|name| (0, Arc::from(name)));
    assert_eq!(inventory.first_of_each_priority(0), Some(expected.to_vec()));
    let with_due = inventory.first_of_each_priority(100).unwrap();
    assert_eq!(&*with_due[0].1, names[3]);
    assert_eq!(with_due.len(), 3);
}

#[test]
fn a_fresh_items_node_is_written_before_its_items_are_taken() {
    let names = ["qn-0000000001"];
    for (version, expected) in [(0, false), (1, true)] {
        let listing = listing_with_fence(&names, version);
        let mut inventory = inventory(Layout::Recipe, again(&listing, &names));
        let next = inventory.next_of_new(Purpose::Change, 0, 0, MS);
        assert_eq!(matches!(next, Next::Item(_)), expected, "{version}");
        if expected {
            continue;
        }
        // The servers refuse to write it.
        let mut epoch = inventory.epoch().cloned().unwrap();
        let fresh = epoch.fresh.take().unwrap();
        inventory.accept_read_only(epoch, fresh);
        inventory.replace(again(&listing, &names), MS, MS);
        let next = inventory.next_of_recent(Purpose::Change, 0, 0, MS, MS);
        let (item, preconditions) = next.unwrap();
        assert!(preconditions.unwrap().items_node.is_some());
        inventory.release(item);
        // Another node is refused again.
        let mut other = again(&listing, &names);
        other.items_node.as_mut().unwrap().czxid = 41;
        inventory.replace(other, MS, MS);
        let next = inventory.next_of_new(Purpose::Change, 0, 0, MS);
        assert!(matches!(next, Next::NoEpoch));
    }
    // A fresh node without items is not written; segments have items.
    let mut listing = listing_with_fence(&[], 0);
    listing.segments.push((1, vec![names[0].to_owned()]));
    let mut inventory = inventory(Layout::Recipe, listing);
    let next = inventory.next_of_recent(Purpose::Change, 0, 0, MS, MS);
    assert!(next.unwrap().1.unwrap().items_node.is_none());
}

#[test]
fn an_epoch_lasts_while_the_same_nodes_are_listed() {
    let names = ["qn-0000000001", "qn-0000000002", "qn-0000000003"];
    let listing = listing_with_fence(&names, 1);
    let mut inventory = inventory(Layout::Recipe, again(&listing, &names));
    let (first, old) = inventory.next(Purpose::Change, 0, 0).unwrap();
    inventory.replace(again(&listing, &names), MS, MS);
    let (second, same) = inventory.next_after(&first, 0).unwrap();
    let (old, same) = (old.unwrap(), same.unwrap());
    assert!(Arc::ptr_eq(&old, &same));
    let mut changed = again(&listing, &names);
    changed.active.control_version += 1;
    inventory.replace(changed, MS, MS);
    let (_, new) = inventory.next_after(&second, 0).unwrap();
    assert!(!Arc::ptr_eq(&old, &new.unwrap()));
    // Preconditions of an epoch that has ended change nothing.
    inventory.invalidate_if(&old);
    assert!(inventory.epoch().is_some());
    let current = inventory.epoch().unwrap().preconditions_for(0).unwrap();
    inventory.invalidate_if(&current);
    assert!(inventory.epoch().is_none());
    let next = inventory.next_of_new(Purpose::Read, 0, 0, MS);
    assert!(is_stale(&next));
}

#[test]
fn an_epoch_advances_if_the_order_of_its_items_is_known() {
    for (layout, name, has_segment, is_kept) in [
        (Layout::Recipe, "qn-0000000001", false, true),
        (Layout::Recipe, "qn-0000000001", true, false),
        (Layout::Native, "w-0-0-0-0000000001", false, false),
    ] {
        let mut listing = listing_with_fence(&[name], 1);
        if has_segment {
            listing.segments.push((1, vec![name.to_owned()]));
        }
        let mut inventory = inventory(layout, listing);
        let (item, old) = inventory.begin_prefetch(0, 1).remove(0);
        let id = item.id();
        inventory.finish_prefetch(&id, Arc::clone(&old), content(1));
        let mut new = Preconditions::clone(&old);
        new.control_node.1 += 1;
        let new = Arc::new(new);
        // Not those of the list: nothing is known to have changed.
        inventory.advance(&new, &old);
        assert!(inventory.epoch().unwrap().is_for_items_node(&old));
        inventory.advance(&old, &new);
        assert_eq!(inventory.epoch().is_some(), is_kept, "{layout:?}");
        let prefetched = inventory.take_prefetched(&id, &new);
        assert_eq!(prefetched.is_some(), is_kept);
        if is_kept {
            let epoch = inventory.epoch().unwrap();
            assert!(epoch.is_for_items_node(&new));
            assert_eq!(epoch.active.control_version, new.control_node.1);
            assert_eq!(epoch.for_segments.control_node, new.control_node);
            // New segments may have been started.
            take_first(&mut inventory);
            inventory.set_synced();
        }
        let next = inventory.next_of_new(Purpose::Read, 0, 0, MS);
        assert!(is_stale(&next));
    }
}

#[test]
fn an_item_is_read_ahead_once_and_used_in_its_epoch() {
    let names = ["qn-0000000001", "qn-0000000002"];
    let listing = listing_with_fence(&names, 1);
    let mut inventory = inventory(Layout::Recipe, again(&listing, &names));
    let mut begun = inventory.begin_prefetch(0, 2);
    let (second, _) = begun.pop().unwrap();
    let (first, preconditions) = begun.pop().unwrap();
    let (first, second) = (first.id(), second.id());
    assert_eq!([&*first.1, &*second.1], names);
    assert!(inventory.begin_prefetch(0, 2).is_empty());
    // A read that was dropped can be repeated.
    inventory.cancel_prefetch(&first);
    assert_eq!(inventory.begin_prefetch(0, 2)[0].0.id(), first);
    inventory.finish_prefetch(&first, Arc::clone(&preconditions), content(1));
    inventory.cancel_prefetch(&first);
    let read = inventory.take_prefetched(&first, &preconditions);
    assert_eq!(read, Some(content(1)));
    assert_eq!(inventory.take_prefetched(&first, &preconditions), None);
    assert_eq!(inventory.take_prefetched(&second, &preconditions), None);
    let other = Arc::new(Preconditions::clone(&preconditions));
    inventory.keep_prefetched([(first.clone(), Some(other), content(1))]);
    assert_eq!(inventory.take_prefetched(&first, &preconditions), None);
    // A read that ends after the list was replaced is not used.
    let (first, _) = inventory.begin_prefetch(0, 2).remove(0);
    let first = first.id();
    inventory.replace(again(&listing, &names), MS, MS);
    inventory.finish_prefetch(&first, Arc::clone(&preconditions), content(1));
    assert_eq!(inventory.take_prefetched(&first, &preconditions), None);
}

#[test]
fn items_are_kept_up_to_a_number_and_a_size() {
    let names: Vec<_> = (0..40).map(|number| format!("qn-{number:010}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let listing = listing_with_fence(&names, 1);
    let mut inventory = inventory(Layout::Recipe, again(&listing, &names));
    // Three in flight: four have to be ahead, and then eight more are read.
    for _ in 0..3 {
        let _started = inventory.next_of_new(Purpose::Change, 0, 0, MS);
    }
    let counts = [0; 4].map(|_| inventory.begin_prefetch(0, 8).len());
    assert_eq!(counts, [8, 0, 0, 0]);
    for _ in 0..5 {
        let _started = inventory.next_of_new(Purpose::Change, 0, 0, MS);
    }
    let counts = [0; 4].map(|_| inventory.begin_prefetch(0, 8).len());
    assert_eq!(counts, [8, 0, 0, 0]);
    inventory.replace(again(&listing, &names), MS, MS);
    let preconditions = inventory.epoch().unwrap().preconditions_for(0);
    let ids: Vec<ItemId> = names.iter().map(|name| (0, Arc::from(*name))).collect();
    let sizes = [1, MAX_KEPT_BYTES - 1, 1];
    let read = ids.iter().cloned().zip(sizes);
    inventory.keep_prefetched(read.map(|(id, size)| (id, preconditions.clone(), content(size))));
    inventory.keep_prefetched([(ids[3].clone(), preconditions.clone(), content(1))]);
    inventory.keep_prefetched([(ids[4].clone(), None, content(0))]);
    let preconditions = preconditions.unwrap();
    let kept = ids[..5]
        .iter()
        .map(|id| inventory.take_prefetched(id, &preconditions).is_some());
    assert_eq!(kept.collect::<Vec<_>>(), [true, true, false, false, false]);
}

/// An item that was gone when it was to be read ahead is not tried any more.
#[test]
fn an_item_that_is_gone_is_forgotten_unless_a_task_takes_it() {
    let names = ["qn-0000000001", "qn-0000000002", "qn-0000000003"];
    let listing = listing_with_fence(&names, 1);
    let mut inventory = inventory(Layout::Recipe, listing);
    let begun = inventory.begin_prefetch(0, 3);
    take_first(&mut inventory);
    for (item, _) in &begun[..2] {
        inventory.forget_prefetch(item);
    }
    inventory.release(begun[0].0.clone());
    let left: Vec<_> = inventory
        .items
        .ready(0)
        .map(|item| item.name.to_string())
        .collect();
    assert_eq!(left, ["qn-0000000001", "qn-0000000003"]);
}

/// While other consumers take items, the next ones are those of a partition, which are read ahead, too.
#[test]
fn a_crowded_consumer_takes_its_partition() {
    let names: Vec<_> = (0..40).map(|number| format!("qn-{number:010}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut inventory = inventory(Layout::Recipe, listing_with_fence(&names, 1));
    let next = |inventory: &mut Inventory, random| {
        let next = inventory.next_of_new(Purpose::Change, random, 0, MS);
        let Next::Item((item, _)) = next else {
            panic!("{next:?}")
        };
        item.key.sequence.number()
    };
    let read_ahead = |inventory: &mut Inventory| -> Vec<_> {
        let ahead = inventory.begin_prefetch(0, 3).into_iter();
        ahead.map(|(item, _)| item.key.sequence.number()).collect()
    };
    let of_partition = |seed| -> Vec<i32> {
        let partition = Partition::of(2, seed);
        let has = |number: &i32| partition.has(&(0, 0, *number, Arc::from("")));
        (2..40).filter(has).collect()
    };
    inventory.contention.on_refusal();
    assert_eq!(next(&mut inventory, 9), 0);
    inventory.contention.on_refusal();
    assert_eq!(
        read_ahead(&mut inventory),
        [0; 0],
        "the partition is not known"
    );
    // Reading is not taking.
    assert!(
        matches!(inventory.next_of_new(Purpose::Read, 9, 0, MS), Next::Item((item, _)) if item.key.sequence.number() == 1)
    );
    let (first, other) = (of_partition(0), of_partition(u32::MAX));
    assert_eq!(next(&mut inventory, 0), first[0]);
    assert_eq!(next(&mut inventory, u32::MAX), first[1]);
    assert_eq!(read_ahead(&mut inventory), first[2..5]);
    inventory.contention.on_missing();
    // Another partition goes on at the same place, and with those before it at the end; then the partition is larger.
    let count = |of: &[i32]| of.iter().filter(|number| **number > first[1]).count();
    let behind = count(&other);
    let taken: Vec<_> = (0..other.len())
        .map(|_| next(&mut inventory, u32::MAX))
        .collect();
    let (before, after) = other.split_at(other.len() - behind);
    assert_eq!(taken, [after, before].concat());
    let rest = 38 - other.len() - 2;
    let mut taken: Vec<_> = (0..rest).map(|_| next(&mut inventory, u32::MAX)).collect();
    taken.sort_unstable();
    taken.dedup();
    assert_eq!(taken.len(), rest, "each once: {taken:?}");
}
