//! Decides where a consumer takes items while other consumers take them, too.
//!
//! All consumers try the first item, and one of them gets it. A consumer that was refused twice therefore chooses an item
//! at random, and continues after it: the consumers are then at different places, and rarely refused.
//!
//! - The window in which it chooses doubles with each refusal, as in the back-off of Ethernet. Without that, the slower
//!   consumers would be refused for ever.
//! - After [`ITEMS_PER_RUN`] items it chooses again, in half the window, so that items at the front do not wait long, and
//!   a consumer that is left alone returns to the front.
//!
//! Only what other consumers do counts as a refusal: a consumer that is alone keeps the order.
//!
//! Pure: no I/O and no clock.

use crate::ready_items::SortKey;

/// What one process knows of other consumers of a queue.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// The refusals, minus one for each run of items that were taken since.
    refusals: u32,
    /// How many items were taken in this run.
    taken: usize,
    /// The item after which it continues.
    resume_after: Option<SortKey>,
}

impl Contention {
    /// Returns among how many further items, beyond the first one, to choose at random, for a call that takes up to `max`
    /// items; zero for the first item. One refusal is chance.
    pub(crate) fn window(&self, max: usize) -> usize {
        if self.is_contended() {
            max.saturating_mul(1 << self.refusals)
        } else {
            0
        }
    }

    /// Returns the item after which the next one is taken, if one was chosen.
    pub(crate) const fn resume_after(&self) -> Option<&SortKey> {
        self.resume_after.as_ref()
    }

    /// Notes that an item is being taken.
    pub(crate) fn on_pick(&mut self, item: SortKey) {
        self.resume_after = self.is_contended().then_some(item);
    }

    /// Notes that items were taken.
    pub(crate) fn on_success(&mut self, items: usize) {
        self.taken += items;
        if self.taken >= ITEMS_PER_RUN {
            self.taken = 0;
            self.refusals = self.refusals.saturating_sub(1);
            self.resume_after = None;
        }
    }

    /// Notes that another consumer had taken an item that this one tried to take.
    pub(crate) fn on_refusal(&mut self) {
        self.refusals = (self.refusals + 1).min(MAX_DOUBLINGS);
        self.taken = 0;
        self.resume_after = None;
    }

    /// Notes that an item was gone before this consumer tried to take it: it is where another one was.
    pub(crate) fn on_missing(&mut self) {
        self.resume_after = None;
    }

    const fn is_contended(&self) -> bool {
        self.refusals > 1
    }
}

/// How many items are taken after a chosen one.
const ITEMS_PER_RUN: usize = 32;
const MAX_DOUBLINGS: u32 = 9;

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

    // covers: Q1 Q3
    #[test]
    fn the_window_doubles_from_the_second_refusal() {
        for (refusals, max, expected) in [
            (0, 1, 0),
            (1, 500, 0),
            (2, 1, 4),
            (3, 1, 8),
            (3, 10, 80),
            (9, 1, 512),
            (99, 1, 512),
            (99, usize::MAX, usize::MAX),
        ] {
            let window = refused(refusals).window(max);
            assert_eq!(window, expected, "{refusals}, {max}");
        }
    }

    // covers: Q1 Q3
    #[test]
    fn a_consumer_continues_after_the_item_that_it_chose() {
        let mut contention = refused(1);
        contention.on_pick(key(1));
        assert_eq!(contention.resume_after(), None, "it is at the front");
        contention.on_refusal();
        contention.on_pick(key(7));
        assert_eq!(contention.resume_after(), Some(&key(7)));
        contention.on_success(1);
        contention.on_pick(key(8));
        assert_eq!(contention.resume_after(), Some(&key(8)));
        contention.on_refusal();
        assert_eq!(contention.resume_after(), None, "it chooses again");
    }

    // covers: Q1 Q3
    #[test]
    fn items_that_are_gone_move_a_consumer_and_are_no_refusals() {
        let mut contention = refused(2);
        contention.on_pick(key(7));
        contention.on_missing();
        assert_eq!((contention.window(1), contention.resume_after()), (4, None));
        let mut alone = Contention::default();
        for _ in 0..9 {
            alone.on_missing();
        }
        assert_eq!(alone.window(1), 0);
    }

    // covers: Q1 Q3
    #[test]
    fn a_consumer_that_is_left_alone_returns_to_the_front() {
        for at_once in [1, 4, 32, 1000] {
            let mut contention = refused(20);
            for window in [512, 256, 128, 64, 32, 16, 8, 4, 0, 0] {
                assert_eq!(contention.window(1), window);
                contention.on_pick(key(1));
                for _ in 0..ITEMS_PER_RUN.div_ceil(at_once) {
                    assert_eq!(contention.resume_after().is_some(), window > 0);
                    contention.on_success(at_once);
                }
                assert_eq!(contention.resume_after(), None);
            }
        }
    }
}
