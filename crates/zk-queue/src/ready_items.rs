//! Orders the items of a list, and keeps track of those that this process is taking.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use crate::contention::Partition;
use crate::layout::ItemKey;

/// An item of a list: its segment and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedItem {
    /// Zero for the items node.
    pub(crate) segment: u32,
    pub(crate) name: Arc<str>,
    pub(crate) key: ItemKey,
}

/// The segment and the name of an item, which are unique.
pub(crate) type ItemId = (u32, Arc<str>);

/// Priority, then segment, then number.
pub(crate) type SortKey = (i32, u32, i32, Arc<str>);

/// The items of the last list that are still to be taken.
///
/// An item is *ready*, *delayed* until it is due, or *in flight* while a task of this process is taking it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadyItems {
    ready: BTreeMap<SortKey, ListedItem>,
    delayed: BTreeMap<(u64, SortKey), ListedItem>,
    /// Kept when the list is replaced: the new list may have been read while these were being taken.
    in_flight: BTreeSet<SortKey>,
    /// Items that other consumers are to take first, and until when.
    deferred: BTreeMap<SortKey, u64>,
}

impl ListedItem {
    pub(crate) fn id(&self) -> ItemId {
        (self.segment, Arc::clone(&self.name))
    }

    pub(crate) fn sort_key(&self) -> SortKey {
        (
            self.key.priority,
            self.segment,
            self.key.sequence.number(),
            Arc::clone(&self.name),
        )
    }
}

impl ReadyItems {
    /// Replaces the list. Consumers have the `claimed` items, which so are not ready; they stay deferred.
    pub(crate) fn replace(
        &mut self,
        listed: impl IntoIterator<Item = ListedItem>,
        claimed: impl IntoIterator<Item = ListedItem>,
    ) {
        self.ready.clear();
        self.delayed.clear();
        let mut deferred = std::mem::take(&mut self.deferred);
        for item in claimed {
            self.deferred
                .extend(deferred.remove_entry(&item.sort_key()));
        }
        for item in listed {
            let sort_key = item.sort_key();
            self.deferred.extend(deferred.remove_entry(&sort_key));
            if !self.in_flight.contains(&sort_key) {
                self.insert(item);
            }
        }
    }

    /// Leaves an item to other consumers until then, although it is due before.
    pub(crate) fn defer(&mut self, item: ListedItem, until: u64) {
        let sort_key = item.sort_key();
        self.ready.remove(&sort_key);
        self.delayed.remove(&(item.key.due, sort_key.clone()));
        self.deferred.insert(sort_key, until);
        self.insert(item);
    }

    /// Marks the next ready item of a partition as in flight, and returns it: the first one of [`after`](Self::after).
    pub(crate) fn next_of(
        &mut self,
        partition: Partition,
        last: Option<&SortKey>,
        now: u64,
    ) -> Option<ListedItem> {
        let sort_key = self.after(partition, last, now).next()?.sort_key();
        self.mark_in_flight(&sort_key)
    }

    /// Returns the ready items of a partition in their order: those after the `last` one, if there is one.
    ///
    /// They are of the first priority that any ready item has, unless it is the partition of all items: a less urgent item
    /// is not taken while others of that priority wait. So there are none if the last item has another priority.
    pub(crate) fn after(
        &mut self,
        partition: Partition,
        last: Option<&SortKey>,
        now: u64,
    ) -> impl Iterator<Item = &ListedItem> {
        self.promote_due(now);
        let first_priority = self.ready.keys().next().map(|key| key.0);
        let is_urgent =
            move |key: &SortKey| partition == Partition::ALL || Some(key.0) == first_priority;
        let from = match last {
            None => Some(Bound::Unbounded),
            Some(last) => is_urgent(last).then(|| Bound::Excluded(last.clone())),
        };
        let after = from.map(|from| self.ready.range((from, Bound::Unbounded)));
        let after = after.into_iter().flatten();
        after
            .take_while(move |(key, _)| is_urgent(key))
            .filter(move |(key, _)| partition.has(key))
            .map(|(_, item)| item)
    }

    fn mark_in_flight(&mut self, sort_key: &SortKey) -> Option<ListedItem> {
        let (sort_key, item) = self.ready.remove_entry(sort_key)?;
        self.in_flight.insert(sort_key);
        Some(item)
    }

    /// Returns the ready items in their order, without taking them.
    pub(crate) fn ready(&mut self, now: u64) -> impl Iterator<Item = &ListedItem> {
        self.promote_due(now);
        self.ready.values()
    }

    /// Returns an item in flight to the list, because it was not taken.
    pub(crate) fn release(&mut self, item: ListedItem) {
        self.in_flight.remove(&item.sort_key());
        self.insert(item);
    }

    /// Forgets an item in flight, because it was taken or no longer exists.
    pub(crate) fn complete(&mut self, item: &ListedItem) {
        self.in_flight.remove(&item.sort_key());
    }

    /// Forgets a ready item, because it no longer exists.
    pub(crate) fn forget(&mut self, item: &ListedItem) {
        self.ready.remove(&item.sort_key());
    }

    /// Returns whether all items that are not in flight are in this segment.
    pub(crate) fn has_only_segment(&self, segment: u32) -> bool {
        let mut all = self.ready.values().chain(self.delayed.values());
        all.all(|item| item.segment == segment)
    }

    /// Returns how many items the tasks of this process are taking.
    pub(crate) fn in_flight_count(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn is_in_flight_or_deferred(&self, item: &ListedItem, now: u64) -> bool {
        let sort_key = item.sort_key();
        let deferred = self.deferred.get(&sort_key);
        self.in_flight.contains(&sort_key) || deferred.is_some_and(|until| *until > now)
    }

    /// Returns when the next delayed item is due.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.delayed.keys().next().map(|(due, _)| *due)
    }

    /// Makes the delayed items ready that are due.
    fn promote_due(&mut self, now: u64) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let item = entry.remove();
            self.ready.insert(item.sort_key(), item);
        }
    }

    fn insert(&mut self, item: ListedItem) {
        let sort_key = item.sort_key();
        let due = self.deferred.get(&sort_key).copied();
        match due.unwrap_or(item.key.due) {
            0 => self.ready.insert(sort_key, item),
            due => self.delayed.insert((due, sort_key), item),
        };
    }
}

#[cfg(test)]
mod tests;
