//! Orders of small queues, and of random ones against a plain sort.

use proptest::prelude::*;
use zk_core::Sequence;

use super::*;

fn spot(segment: u32, priority: i32, due: u64, number: i32) -> Spot {
    Spot {
        segment,
        name: Arc::from(format!("{segment}/{priority}/{due}/{number}")),
        slot: Slot {
            priority,
            due,
            deliveries: 0,
            sequence: Sequence::new(number),
        },
    }
}

fn all(shelf: &mut Shelf, now: u64) -> Vec<Spot> {
    std::iter::from_fn(|| shelf.next(now, 0)).collect()
}

// covers: Q1 Q4 Q5
#[test]
fn items_come_by_priority_then_segment_then_number() {
    let ordered = [
        spot(1, -2, 0, 9),
        spot(0, 0, 0, 3),
        spot(0, 0, 0, 4),
        spot(1, 0, 0, 0),
        spot(0, 7, 0, 1),
    ];
    let mut shelf = Shelf::default();
    shelf.restock(ordered.iter().rev().cloned());
    assert_eq!(all(&mut shelf, 0), ordered);
}

// covers: Q4
#[test]
fn an_item_is_set_aside_until_it_is_due_and_then_in_its_place() {
    let (early, late) = (spot(0, 0, 100, 1), spot(0, 0, 0, 2));
    let mut shelf = Shelf::default();
    shelf.restock([late.clone(), early.clone()]);
    assert_eq!(shelf.next_due(), Some(100));
    assert_eq!(shelf.next(99, 0), Some(late.clone()));
    assert_eq!(shelf.next(99, 0), None);
    shelf.give_back(late.clone());
    assert_eq!(all(&mut shelf, 100), [early, late]);
    assert_eq!(shelf.next_due(), None);
}

// covers: Q3
#[test]
fn an_item_that_is_held_back_is_left_to_others_until_then() {
    let (strange, plain) = (spot(0, 0, 100, 1), spot(0, 0, 100, 2));
    let mut shelf = Shelf::default();
    for is_listed_before in [true, false] {
        if is_listed_before {
            shelf.restock([strange.clone(), plain.clone()]);
        }
        shelf.hold_back(strange.clone(), 125);
        if !is_listed_before {
            shelf.restock([strange.clone(), plain.clone()]);
        }
        assert_eq!(all(&mut shelf, 124), std::slice::from_ref(&plain));
        shelf.done(&plain);
        assert_eq!(shelf.next_due(), Some(125));
        assert_eq!(all(&mut shelf, 125), std::slice::from_ref(&strange));
        shelf.done(&strange);
    }
    shelf.restock([plain]);
    assert!(shelf.held_back.is_empty());
}

#[test]
fn what_is_in_hand_is_not_given_out_again_by_a_list_that_still_shows_it() {
    let one = spot(0, 0, 0, 1);
    let mut shelf = Shelf::default();
    shelf.restock([one.clone()]);
    assert_eq!(shelf.next(0, 0), Some(one.clone()));
    shelf.restock([one.clone()]);
    assert_eq!(shelf.next(0, 0), None);
    shelf.done(&one);
    // Listed again after it was taken: it was put back.
    shelf.restock([one.clone()]);
    assert_eq!(shelf.next(0, 0), Some(one));
}

// covers: Q1 Q3
#[test]
fn an_item_further_ahead_is_one_of_the_same_priority() {
    let first = [spot(0, 1, 0, 1), spot(0, 1, 0, 2), spot(1, 1, 0, 0)];
    let others = [spot(0, 2, 0, 0), spot(0, 2, 0, 4)];
    for (ahead, expected) in [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1), (1000, 1)] {
        let mut shelf = Shelf::default();
        shelf.restock(first.iter().chain(&others).cloned());
        let taken = shelf.next(0, ahead);
        assert_eq!(taken.as_ref(), Some(&first[expected]), "{ahead}");
        // What is behind it follows, whatever its priority; what is before it is still there.
        let behind = std::iter::successors(taken, |last| shelf.next_behind(last, 0));
        let all_behind: Vec<_> = behind.collect();
        let expected_behind = first[expected..].iter().chain(&others);
        assert!(all_behind.iter().eq(expected_behind), "{all_behind:?}");
        assert_eq!(all(&mut shelf, 0), first[..expected]);
    }
}

proptest! {
    #[test]
    fn every_item_comes_once_and_in_order(
        listed in prop::collection::vec((0..3_u32, -2..3, 0..4_u64, 0..20), 0..40),
        now in 0..5_u64,
    ) {
        let mut shelf = Shelf::default();
        let spots: Vec<_> = listed.iter().map(|(s, p, d, n)| spot(*s, *p, *d, *n)).collect();
        shelf.restock(spots.iter().cloned());
        let mut expected: Vec<_> = spots.into_iter().filter(|spot| spot.slot.due <= now).collect();
        expected.sort_by_key(Spot::rank);
        expected.dedup();
        prop_assert_eq!(all(&mut shelf, now), expected);
    }
}
