//! The order in which a consumer takes the items it has read of.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::layout::Slot;

/// Where an item is: in which segment, and under which name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Zero for the queue's own node.
    pub(crate) segment: u32,
    pub(crate) name: Arc<str>,
    pub(crate) slot: Slot,
}

/// The segment and the name of an item, which no other one has.
pub(crate) type Key = (u32, Arc<str>);

/// Priority, then segment, then number.
pub(crate) type Rank = (i32, u32, i32, Arc<str>);

/// The items of the last list that are still to be taken, in their order.
///
/// An item whose time has not come is set aside until it has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    ready: BTreeMap<Rank, Spot>,
    later: BTreeMap<(u64, Rank), Spot>,
    /// What is being taken right now: a list that was read meanwhile shows it still.
    in_hand: BTreeSet<Rank>,
    /// What others are to take first, and until when.
    held_back: BTreeMap<Rank, u64>,
}

impl Spot {
    pub(crate) fn key(&self) -> Key {
        (self.segment, Arc::clone(&self.name))
    }

    pub(crate) fn rank(&self) -> Rank {
        (
            self.slot.priority,
            self.segment,
            self.slot.sequence.number(),
            Arc::clone(&self.name),
        )
    }
}

impl Shelf {
    /// Takes what was listed in place of what it had.
    pub(crate) fn restock(&mut self, listed: impl IntoIterator<Item = Spot>) {
        self.ready.clear();
        self.later.clear();
        let mut held_back = std::mem::take(&mut self.held_back);
        for spot in listed {
            let rank = spot.rank();
            if let Some((rank, until)) = held_back.remove_entry(&rank) {
                self.held_back.insert(rank, until);
            }
            if !self.in_hand.contains(&rank) {
                self.put(spot);
            }
        }
    }

    /// Leaves an item to others until then, although it is due before.
    pub(crate) fn hold_back(&mut self, spot: Spot, until: u64) {
        let rank = spot.rank();
        self.ready.remove(&rank);
        self.later.remove(&(spot.slot.due, rank.clone()));
        self.held_back.insert(rank, until);
        self.put(spot);
    }

    /// The next item that may be taken at `now`, which is in hand from then on; or the one so many `ahead` of it among
    /// those of its priority, counted round if they are fewer.
    pub(crate) fn next(&mut self, now: u64, ahead: usize) -> Option<Spot> {
        self.sort_out(now);
        let (priority, ..) = *self.ready.first_key_value()?.0;
        let its = || self.ready.keys().take_while(|rank| rank.0 == priority);
        let ahead = match its().take(ahead + 1).count() {
            fewer if fewer <= ahead => ahead % fewer,
            _ => ahead,
        };
        let rank = its().nth(ahead)?.clone();
        self.take_in_hand(&rank)
    }

    /// The next item behind another one that may be taken at `now`, which is in hand from then on.
    pub(crate) fn next_behind(&mut self, other: &Spot, now: u64) -> Option<Spot> {
        self.sort_out(now);
        let behind = (Bound::Excluded(other.rank()), Bound::Unbounded);
        let rank = self.ready.range(behind).next()?.0.clone();
        self.take_in_hand(&rank)
    }

    fn take_in_hand(&mut self, rank: &Rank) -> Option<Spot> {
        let (rank, spot) = self.ready.remove_entry(rank)?;
        self.in_hand.insert(rank);
        Some(spot)
    }

    /// The items that may be taken at `now`, in their order; they stay where they are.
    pub(crate) fn ready(&mut self, now: u64) -> impl Iterator<Item = &Spot> {
        self.sort_out(now);
        self.ready.values()
    }

    /// Puts back what was not taken after all.
    pub(crate) fn give_back(&mut self, spot: Spot) {
        self.in_hand.remove(&spot.rank());
        self.put(spot);
    }

    /// Forgets what was taken, or is gone.
    pub(crate) fn done(&mut self, spot: &Spot) {
        self.in_hand.remove(&spot.rank());
    }

    /// Whether all items are of this segment, but for those in hand.
    pub(crate) fn is_all_of(&self, segment: u32) -> bool {
        let mut all = self.ready.values().chain(self.later.values());
        all.all(|spot| spot.segment == segment)
    }

    /// Whether it is being taken right now.
    pub(crate) fn is_in_hand(&self, spot: &Spot) -> bool {
        self.in_hand.contains(&spot.rank())
    }

    /// When the next item is due of those that are not yet.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.later.keys().next().map(|(due, _)| *due)
    }

    /// Puts to the others what is due by now.
    fn sort_out(&mut self, now: u64) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let spot = entry.remove();
            self.ready.insert(spot.rank(), spot);
        }
    }

    fn put(&mut self, spot: Spot) {
        let rank = spot.rank();
        let due = self.held_back.get(&rank).copied();
        match due.unwrap_or(spot.slot.due) {
            0 => self.ready.insert(rank, spot),
            due => self.later.insert((due, rank), spot),
        };
    }
}

#[cfg(test)]
mod tests;
