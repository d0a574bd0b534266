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
    std::iter::from_fn(|| next(items, now)).collect()
}

fn next(items: &mut ReadyItems, now: u64) -> Option<ListedItem> {
    items.next_of(Partition::ALL, None, now)
}

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

#[test]
fn a_delayed_item_is_ready_when_it_is_due() {
    let (early, late) = (item(0, 0, 100, 1), item(0, 0, 0, 2));
    let mut items = ReadyItems::default();
    items.replace([late.clone(), early.clone()], []);
    assert_eq!(items.next_due(), Some(100));
    assert_eq!(next(&mut items, 99), Some(late.clone()));
    assert_eq!(next(&mut items, 99), None);
    items.release(late.clone());
    assert_eq!(all(&mut items, 100), [early, late]);
    assert_eq!(items.next_due(), None);
}

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
    assert_eq!(next(&mut items, 0), Some(one.clone()));
    items.replace([one.clone()], []);
    assert_eq!(next(&mut items, 0), None);
    items.complete(&one);
    // Listed again after it was taken: it was put back.
    items.replace([one.clone()], []);
    assert_eq!(next(&mut items, 0), Some(one));
}

#[test]
fn a_partition_goes_through_its_items_of_the_first_priority() {
    let partition = Partition::of(1, 0);
    let of = |priority| (0..20).map(move |number| item(0, priority, 0, number));
    let (urgent, other): (Vec<_>, Vec<_>) = (of(1).collect(), of(2).collect());
    let ours = |of: &[ListedItem]| -> Vec<_> {
        let ours = of.iter().filter(|item| partition.has(&item.sort_key()));
        ours.cloned().collect()
    };
    let mut items = ReadyItems::default();
    items.replace(urgent.iter().chain(&other).cloned(), []);
    let expected = ours(&urgent);
    assert!((5..15).contains(&expected.len()), "{}", expected.len());
    let listed: Vec<_> = items.after(partition, None, 0).cloned().collect();
    assert_eq!(listed, expected);
    let (third, last) = (expected[2].sort_key(), expected.last().unwrap().sort_key());
    assert_eq!(
        items.next_of(partition, Some(&third), 0),
        Some(expected[3].clone())
    );
    assert_eq!(
        items.next_of(partition, Some(&third), 0),
        Some(expected[4].clone())
    );
    assert_eq!(items.next_of(partition, Some(&last), 0), None);
    assert_eq!(
        items.next_of(partition, Some(&other[3].sort_key()), 0),
        None
    );
    assert_eq!(items.next_of(partition, None, 0), Some(expected[0].clone()));
    // All items are those of any priority.
    let last = urgent[19].sort_key();
    assert_eq!(
        items.next_of(Partition::ALL, Some(&last), 0),
        Some(other[0].clone())
    );
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
