//! Decides which items a consumer takes while other consumers take them, too.
//!
//! All consumers try the first item, and one of them gets it. A consumer that was refused twice therefore takes the items of
//! one partition only, which their numbers determine. Consumers with different partitions go through the queue side by side,
//! and are not refused.
//!
//! - Each further refusal halves the partition, and another one is chosen at random, as in the back-off of Ethernet. Without
//!   that, the slower consumers would be refused for ever.
//! - With the next list after [`ITEMS_PER_RUN`] items it doubles: items that are in the partition of no consumer do not wait
//!   long, and a consumer that is left alone returns to the order of the queue. Not before that list, because others have
//!   taken most of what would be added. Until then, it doubles only if it is empty.
//! - Until the next list, a consumer continues behind its last item. Of those before it, others have taken what was not in
//!   its partition, which the list does not show.
//!
//! An item that is gone when this consumer tries to take it counts as a refusal, also if it was cancelled. A
//! consumer that is alone keeps the order.
//!
//! Pure: no I/O and no clock.

use crate::ready_items::SortKey;

/// What one process knows of other consumers of a queue.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The refusals, minus one for each list that was read after a run of items without any.
    refusals: u32,
    /// How many items were taken since the last refusal, and since the partition doubled with a list.
    taken: usize,
    /// How often the partition doubled since the last list because it was empty.
    widened: u32,
    /// The random number that determines the partition; `None` if another one has to be chosen.
    seed: Option<u32>,
    /// The item behind which the consumer continues.
    continue_after: Option<SortKey>,
}

/// A part of the items: those whose mixed number begins with certain bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    /// How many bits; none for all items.
    bits: u32,
    first_bits: u32,
}

impl Partition {
    /// All items.
    pub(crate) const ALL: Self = Self::of(0, 0);

    /// Returns the partition that the first bits of a number determine.
    pub(crate) const fn of(bits: u32, number: u32) -> Self {
        Self {
            bits,
            first_bits: first_bits(number, bits),
        }
    }

    pub(crate) fn has(self, item: &SortKey) -> bool {
        let (_, _, number, _) = item;
        // Numbers of one kind of items may have a pattern, such as each second one.
        let mixed = number.cast_unsigned().wrapping_mul(MULTIPLIER);
        first_bits(mixed, self.bits) == self.first_bits
    }
}

const fn first_bits(number: u32, bits: u32) -> u32 {
    match number.checked_shr(u32::BITS - bits) {
        Some(first) => first,
        None => 0,
    }
}

impl Contention {
    /// Returns the partition of this consumer; `None` if another one has to be chosen.
    pub(crate) fn partition(&self) -> Option<Partition> {
        match self.refusals.saturating_sub(self.widened) {
            // One refusal is chance.
            0 | 1 => Some(Partition::ALL),
            bits => Some(Partition::of(bits, self.seed?)),
        }
    }

    /// Returns the partition of this consumer, which the `random` number determines if another one has to be chosen.
    pub(crate) fn partition_or_choose(&mut self, random: u32) -> Partition {
        self.seed.get_or_insert(random);
        self.partition().expect("it is chosen")
    }

    /// Returns the item behind which the consumer continues.
    pub(crate) const fn continue_after(&self) -> Option<&SortKey> {
        self.continue_after.as_ref()
    }

    /// Notes that an item is being taken.
    pub(crate) fn on_pick(&mut self, item: SortKey) {
        let is_partial = self.partition() != Some(Partition::ALL);
        self.continue_after = is_partial.then_some(item);
    }

    /// Notes that the list was read.
    pub(crate) fn on_list(&mut self) {
        self.widened = 0;
        self.continue_after = None;
        if self.taken >= ITEMS_PER_RUN {
            self.taken = 0;
            self.refusals = self.refusals.saturating_sub(1);
        }
    }

    /// Notes that the partition has no item behind the last one: it continues with those before it, or with a larger
    /// partition.
    pub(crate) fn on_end(&mut self) {
        if self.continue_after.take().is_none() {
            self.widened += 1;
        }
    }

    /// Notes that items were taken.
    pub(crate) fn on_success(&mut self, items: usize) {
        self.taken += items;
    }

    /// Notes that an item was gone when this consumer tried to take it.
    pub(crate) fn on_refusal(&mut self) {
        self.refusals = (self.refusals + 1).min(MAX_BITS);
        self.taken = 0;
        self.widened = 0;
        self.seed = None;
    }

    /// Notes that an item was gone before this consumer tried to take it: another one has the same partition.
    pub(crate) fn on_missing(&mut self) {
        self.seed = None;
    }
}

/// How many items are taken before the partition doubles with the next list.
const ITEMS_PER_RUN: usize = 32;
/// A consumer with the smallest partition looks at so many items for each of its own, as a power of two.
const MAX_BITS: u32 = 6;
/// 2^32 over the golden ratio: successive numbers are spread evenly.
const MULTIPLIER: u32 = 0x9E37_79B1;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn key(number: i32) -> SortKey {
        (0, 0, number, Arc::from("qn"))
    }

    fn refused(times: u32) -> Contention {
        let mut contention = Contention::default();
        for _ in 0..times {
            contention.on_refusal();
        }
        contention
    }

    #[test]
    fn the_partition_halves_from_the_second_refusal() {
        for (refusals, bits) in [(0, 0), (1, 0), (2, 2), (3, 3), (6, 6), (99, 6)] {
            let part = refused(refusals).partition_or_choose(0xABCD_EF01);
            assert_eq!(part, Partition::of(bits, 0xABCD_EF01), "{refusals}");
        }
    }

    /// Also if the numbers have a pattern.
    #[test]
    fn the_partitions_have_each_item_once_and_are_of_like_size() {
        let parts: Vec<_> = (0..8).map(|first| Partition::of(3, first << 29)).collect();
        for step in [1, 2, 8, 1000] {
            let mut sizes = [0; 8];
            for number in (0..800).map(|at: i32| i32::MAX.wrapping_add(at * step)) {
                let having = (0..8).filter(|at| parts[*at].has(&key(number)));
                let having: Vec<_> = having.collect();
                assert_eq!(having.len(), 1, "{number}");
                sizes[having[0]] += 1;
            }
            assert!(
                sizes.iter().all(|size| (60..140).contains(size)),
                "{sizes:?}"
            );
        }
        assert!((-9..9).all(|number| Partition::ALL.has(&key(number))));
    }

    #[test]
    fn a_partition_stays_until_a_refusal_or_a_gap() {
        let mut contention = refused(1);
        contention.on_pick(key(1));
        assert_eq!(contention.continue_after(), None, "it is at the front");
        contention.on_refusal();
        assert_eq!(contention.partition(), None);
        let part = contention.partition_or_choose(7 << 28);
        contention.on_pick(key(7));
        contention.on_success(1);
        assert_eq!(contention.partition_or_choose(2 << 28), part);
        assert_eq!(contention.continue_after(), Some(&key(7)));
        contention.on_missing();
        assert_eq!(contention.partition(), None);
        assert_eq!(contention.continue_after(), Some(&key(7)));
        assert_eq!(
            contention.partition_or_choose(2 << 28),
            Partition::of(2, 2 << 28)
        );
        contention.on_refusal();
        assert_eq!(
            contention.partition_or_choose(2 << 28),
            Partition::of(3, 2 << 28)
        );
        contention.on_list();
        assert_eq!(contention.continue_after(), None);
    }

    #[test]
    fn items_that_are_gone_are_no_refusals() {
        let mut alone = Contention::default();
        for _ in 0..9 {
            alone.on_missing();
        }
        assert_eq!(alone.partition(), Some(Partition::ALL));
    }

    #[test]
    fn an_empty_partition_doubles_until_the_next_list() {
        let mut contention = refused(4);
        contention.partition_or_choose(u32::MAX);
        for _ in 0..2 {
            contention.on_pick(key(5));
            contention.on_end();
            assert_eq!(contention.partition(), Some(Partition::of(4, u32::MAX)));
            for bits in [3, 2, 0, 0] {
                contention.on_end();
                assert_eq!(contention.partition(), Some(Partition::of(bits, u32::MAX)));
            }
            contention.on_pick(key(6));
            assert_eq!(contention.continue_after(), None, "it takes the first one");
            contention.on_list();
        }
        contention.on_end();
        contention.on_refusal();
        assert_eq!(contention.partition_or_choose(7), Partition::of(5, 7));
    }

    #[test]
    fn a_consumer_that_is_left_alone_takes_all_from_the_front() {
        for at_once in [1, 4, 32, 1000] {
            let mut contention = refused(20);
            let all: Vec<_> = (0..2000).map(key).collect();
            let mut known = Vec::new();
            for bits in [6, 5, 4, 3, 2, 0, 0] {
                let part = contention.partition_or_choose(0x1234_5678);
                assert_eq!(part.bits, bits);
                // What it had is in what it has.
                assert!(known.iter().all(|item| part.has(item)));
                known = all.iter().filter(|item| part.has(item)).cloned().collect();
                contention.on_pick(key(1));
                assert_eq!(contention.continue_after().is_some(), bits > 0);
                for _ in 0..ITEMS_PER_RUN.div_ceil(at_once) {
                    contention.on_list();
                    assert_eq!(contention.partition(), Some(part), "too few items");
                    contention.on_success(at_once);
                }
                assert_eq!(contention.partition(), Some(part), "the list is old");
                contention.on_list();
            }
        }
    }
}
