//! The order of small lists, and of random ones compared with a plain sort.

use proptest::prelude::*;
use zk_core::Sequence;

use super::*;

fn item(segment: u32, priority: i32, due: u64, number: i32) -> ListedItem {
    ListedItem {
        segment,
        name: Arc::from(format!("{segment}/{priority}/{due}/{number}")),
        key: ItemKey {
            priority,
            due,
            deliveries: 0,
            sequence: Sequence::new(number),
        },
    }
}

fn all(items: &mut ReadyItems, now: u64) -> Vec<ListedItem> {
    std::iter::from_fn(|| items.next(now, 0)).collect()
}

// covers: Q1 Q4 Q5
#[test]
fn items_come_by_priority_then_segment_then_number() {
    let ordered = [
        item(1, -2, 0, 9),
        item(0, 0, 0, 3),
        item(0, 0, 0, 4),
        item(1, 0, 0, 0),
        item(0, 7, 0, 1),
    ];
    let mut items = ReadyItems::default();
    items.replace(ordered.iter().rev().cloned(), []);
    assert_eq!(all(&mut items, 0), ordered);
}

// covers: Q4
#[test]
fn a_delayed_item_is_ready_when_it_is_due() {
    let (early, late) = (item(0, 0, 100, 1), item(0, 0, 0, 2));
    let mut items = ReadyItems::default();
    items.replace([late.clone(), early.clone()], []);
    assert_eq!(items.next_due(), Some(100));
    assert_eq!(items.next(99, 0), Some(late.clone()));
    assert_eq!(items.next(99, 0), None);
    items.release(late.clone());
    assert_eq!(all(&mut items, 100), [early, late]);
    assert_eq!(items.next_due(), None);
}

// covers: Q3
#[test]
fn a_deferred_item_is_left_to_others_until_then() {
    let (deferred, plain) = (item(0, 0, 100, 1), item(0, 0, 100, 2));
    let mut items = ReadyItems::default();
    for is_listed_before in [true, false] {
        if is_listed_before {
            items.replace([deferred.clone(), plain.clone()], []);
        }
        items.defer(deferred.clone(), 125);
        if !is_listed_before {
            items.replace([deferred.clone(), plain.clone()], []);
        }
        assert_eq!(all(&mut items, 124), std::slice::from_ref(&plain));
        items.complete(&plain);
        assert_eq!(items.next_due(), Some(125));
        assert_eq!(all(&mut items, 125), std::slice::from_ref(&deferred));
        items.complete(&deferred);
    }
    // While another consumer has it, the time goes on.
    items.defer(deferred.clone(), 225);
    items.replace([plain.clone()], [deferred.clone()]);
    assert_eq!(items.next_due(), Some(100));
    items.replace([deferred.clone()], []);
    assert_eq!(all(&mut items, 224), []);
    assert_eq!(all(&mut items, 225), [deferred]);
    items.replace([plain], []);
    assert!(items.deferred.is_empty());
}

#[test]
fn an_item_in_flight_is_not_returned_again_by_a_stale_list() {
    let one = item(0, 0, 0, 1);
    let mut items = ReadyItems::default();
    items.replace([one.clone()], []);
    assert_eq!(items.next(0, 0), Some(one.clone()));
    items.replace([one.clone()], []);
    assert_eq!(items.next(0, 0), None);
    items.complete(&one);
    // Listed again after it was taken: it was put back.
    items.replace([one.clone()], []);
    assert_eq!(items.next(0, 0), Some(one));
}

// covers: Q1 Q3
#[test]
fn an_offset_selects_an_item_of_the_same_priority() {
    let first = [item(0, 1, 0, 1), item(0, 1, 0, 2), item(1, 1, 0, 0)];
    let others = [item(0, 2, 0, 0), item(0, 2, 0, 4)];
    for (offset, expected) in [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (1000, 1)] {
        let mut items = ReadyItems::default();
        items.replace(first.iter().chain(&others).cloned(), []);
        let taken = items.next(0, offset);
        assert_eq!(taken.as_ref(), Some(&first[expected]), "{offset}");
        // The items behind it follow, whatever their priority; those before it are still ready.
        let following = std::iter::successors(taken, |last| items.next_after(last, 0));
        let all_behind: Vec<_> = following.collect();
        let expected_behind = first[expected..].iter().chain(&others);
        assert!(all_behind.iter().eq(expected_behind), "{all_behind:?}");
        assert_eq!(all(&mut items, 0), first[..expected]);
    }
}

proptest! {
    #[test]
    fn every_item_comes_once_and_in_order(
        listed in prop::collection::vec((0..3_u32, -2..3, 0..4_u64, 0..20), 0..40),
        now in 0..5_u64,
    ) {
        let mut items = ReadyItems::default();
        let all_items: Vec<_> = listed.iter().map(|(s, p, d, n)| item(*s, *p, *d, *n)).collect();
        items.replace(all_items.iter().cloned(), []);
        let mut expected: Vec<_> = all_items.into_iter().filter(|item| item.key.due <= now).collect();
        expected.sort_by_key(ListedItem::sort_key);
        expected.dedup();
        prop_assert_eq!(all(&mut items, now), expected);
    }
}
