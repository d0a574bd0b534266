//! What a process knows of a queue's items: which are listed, in flight, quarantined and prefetched, and which is next.
//!
//! Moments are durations since a fixed moment of this process; `now` is the leader's time in milliseconds.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::active_segment::ActiveSegment;
use super::item_content::ItemContent;
use super::list_epoch::ListEpoch;
use crate::batch_limits::prefetch_count;
use crate::contention::Contention;
use crate::layout::Layout;
use crate::preconditions::{ItemsNode, Preconditions};
use crate::ready_items::{ItemId, ListedItem, ReadyItems};

/// The items of the last list that this process read, and what its tasks do with them.
#[derive(Debug)]
pub(super) struct Inventory {
    layout: Layout,
    items: ReadyItems,
    /// When reading the list began, and how long that took.
    read: Option<(Duration, Duration)>,
    /// Whether all segments were read, and not only as many as were needed to find an item.
    is_complete: bool,
    /// Whether the server had caught up with everything that was committed before reading began.
    is_synced: bool,
    /// The `czxid` of the items node, and the version of the control node, of the last list.
    nodes: Option<(Option<i64>, i32)>,
    /// Children that are not items; they are reported once.
    foreign: BTreeSet<ItemId>,
    /// Items that are never taken, because their data or their node is malformed.
    quarantined: BTreeSet<ItemId>,
    /// The epoch of the list, if its items may be taken.
    epoch: Option<ListEpoch>,
    /// Items that were read ahead; `None` while the read is pending.
    prefetched: BTreeMap<ItemId, Option<Prefetched>>,
    /// Which items to take while other consumers take them, too.
    pub(super) contention: Contention,
    /// The `czxid` of the items node if the servers refuse to let this session write it.
    read_only_items_node: Option<i64>,
}

/// An item that was read ahead.
#[derive(Debug)]
struct Prefetched {
    preconditions: Arc<Preconditions>,
    item: ItemContent,
}

/// The children of a queue's nodes.
#[derive(Debug)]
pub(super) struct Listing {
    /// The preconditions of items in segments; `None` if there was no fence before the children were read.
    pub(super) for_segments: Option<Preconditions>,
    pub(super) active: ActiveSegment,
    /// The items node, if it exists.
    pub(super) items_node: Option<ItemsNode>,
    /// The children of each segment that was listed, in the order of the segments.
    pub(super) segments: Vec<(u32, Vec<String>)>,
    /// The names of the claims.
    pub(super) claims: BTreeSet<String>,
    /// Whether all segments were listed.
    pub(super) is_complete: bool,
}

/// What the caller wants an item for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    /// To take or claim it, in a transaction that checks the preconditions of the list.
    Change,
}

/// An item that was marked as in flight, and what taking it has to check. One that is only read is not marked.
pub(super) type Started = (ListedItem, Option<Arc<Preconditions>>);

/// The first item of a list.
#[derive(Debug)]
pub(super) enum Next {
    Item(Started),
    Nothing,
    /// There is an item, but the list's epoch does not allow taking it.
    NoEpoch,
    /// The list is too old.
    Stale,
}

impl Inventory {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            items: ReadyItems::default(),
            read: None,
            is_complete: false,
            is_synced: false,
            nodes: None,
            foreign: BTreeSet::new(),
            quarantined: BTreeSet::new(),
            epoch: None,
            prefetched: BTreeMap::new(),
            contention: Contention::default(),
            read_only_items_node: None,
        }
    }

    /// Replaces the list by one that was read from `began` on; returns the children that are not items, each once.
    ///
    /// Items in flight stay so, and quarantined ones as long as they are listed in the same nodes.
    pub(super) fn replace(
        &mut self,
        listing: Listing,
        began: Duration,
        took: Duration,
    ) -> Vec<ItemId> {
        let czxid = listing.items_node.as_ref().map(|node| node.czxid);
        let nodes = (czxid, listing.active.control_version);
        if self.nodes.replace(nodes) != Some(nodes) {
            // In a new items node or segment, other items may have the same names.
            self.quarantined.clear();
        }
        let is_item = |name: &String| self.layout.parse(name).is_some();
        let mut all = listing.segments.iter();
        let has_items = all.any(|(segment, names)| *segment == 0 && names.iter().any(is_item));
        let epoch = listing.for_segments.map(|for_segments| {
            ListEpoch::new(for_segments, listing.active, listing.items_node, has_items)
                .accepting_read_only(self.read_only_items_node)
        });
        // Items in flight have the preconditions of the known epoch; it stays if it is the same.
        let is_same = (self.epoch.as_ref().zip(epoch.as_ref()))
            .is_some_and(|(known, read)| known.agrees_with(read));
        if !is_same {
            self.epoch = epoch;
        }
        self.prefetched.clear();
        let (mut items, mut claimed) = (Vec::new(), Vec::new());
        let mut newly_foreign = Vec::new();
        // Nodes that no longer exist are forgotten.
        let foreign = std::mem::take(&mut self.foreign);
        let quarantined = std::mem::take(&mut self.quarantined);
        for (segment, names) in listing.segments {
            for name in names {
                let is_claimed = !listing.claims.is_empty()
                    && listing
                        .claims
                        .contains(&self.layout.claim_name(segment, &name));
                let key = self.layout.parse(&name);
                let name: Arc<str> = Arc::from(name);
                let id = (segment, Arc::clone(&name));
                match key {
                    None => {
                        if !foreign.contains(&id) {
                            newly_foreign.push(id.clone());
                        }
                        self.foreign.insert(id);
                    }
                    Some(key) if is_claimed => claimed.push(ListedItem { segment, name, key }),
                    Some(_) if quarantined.contains(&id) => {
                        self.quarantined.insert(id);
                    }
                    Some(key) => items.push(ListedItem { segment, name, key }),
                }
            }
        }
        self.items.replace(items, claimed);
        self.contention.on_list();
        self.is_complete = listing.is_complete;
        self.is_synced = false;
        self.read = Some((began, took));
        newly_foreign
    }

    /// Records that the server had caught up when the list was read.
    pub(super) fn set_synced(&mut self) {
        self.is_synced = true;
    }

    /// Starts the next item if the list is not older than `refresh` at the moment `at`.
    ///
    /// While other consumers take items, too, the `random` number may determine which one that is.
    pub(super) fn next_of_recent(
        &mut self,
        purpose: Purpose,
        random: u32,
        now: u64,
        at: Duration,
        refresh: Duration,
    ) -> Option<Started> {
        let (began, took) = self.read?;
        let age = at.saturating_sub(began);
        if age > refresh.max(took.saturating_mul(LISTING_SHARE)) || !self.allows(purpose) {
            return None;
        }
        self.next(purpose, random, now)
    }

    /// Starts the next item if the list was read since the moment `began`.
    pub(super) fn next_of_new(
        &mut self,
        purpose: Purpose,
        random: u32,
        now: u64,
        began: Duration,
    ) -> Next {
        if self.read.is_none_or(|(at, _)| at < began) {
            return Next::Stale;
        }
        if self.items.ready(now).next().is_none() {
            // Some segments say nothing about the others, and a lagging server says nothing about new items.
            return if self.is_complete && self.is_synced {
                Next::Nothing
            } else {
                Next::Stale
            };
        }
        if !self.allows(purpose) {
            return Next::NoEpoch;
        }
        match self.next(purpose, random, now) {
            Some(started) => Next::Item(started),
            None => Next::Nothing,
        }
    }

    /// Marks the next item after `other` as in flight, to take it together with `other`.
    pub(super) fn next_after(&mut self, other: &ListedItem, now: u64) -> Option<Started> {
        let partition = self.contention.partition()?;
        let listed = self
            .items
            .next_of(partition, Some(&other.sort_key()), now)?;
        self.contention.on_pick(listed.sort_key());
        Some(self.start(listed))
    }

    fn next(&mut self, purpose: Purpose, random: u32, now: u64) -> Option<Started> {
        // An empty list says nothing about other consumers.
        let first = self.items.ready(now).next()?;
        if purpose == Purpose::Read {
            // Other tasks may take it meanwhile.
            return Some((first.clone(), None));
        }
        if self.contention.partition().is_none() {
            // Of what was read ahead for another partition, little will be taken now.
            self.prefetched.retain(|_, read| read.is_none());
        }
        loop {
            let partition = self.contention.partition_or_choose(random);
            let last = self.contention.continue_after();
            if let Some(listed) = self.items.next_of(partition, last, now) {
                self.contention.on_pick(listed.sort_key());
                return Some(self.start(listed));
            }
            self.contention.on_end();
        }
    }

    fn start(&self, listed: ListedItem) -> Started {
        let epoch = self.epoch.as_ref();
        let preconditions = epoch.and_then(|epoch| epoch.preconditions_for(listed.segment));
        (listed, preconditions)
    }

    fn allows(&self, purpose: Purpose) -> bool {
        match purpose {
            Purpose::Read => true,
            Purpose::Change => self.epoch.as_ref().is_some_and(ListEpoch::is_usable),
        }
    }

    /// Returns an item in flight to the list, because it was not taken.
    pub(super) fn release(&mut self, listed: ListedItem) {
        self.items.release(listed);
    }

    /// Forgets an item in flight, because it was taken or no longer exists.
    pub(super) fn complete(&mut self, listed: &ListedItem) {
        self.items.complete(listed);
    }

    /// Forgets an item that was only read, because it no longer exists or is quarantined.
    pub(super) fn forget(&mut self, listed: &ListedItem) {
        self.items.forget(listed);
    }

    /// Never returns an item again as long as it is listed; returns whether that is new.
    pub(super) fn quarantine(&mut self, listed: &ListedItem) -> bool {
        self.quarantined.insert(listed.id())
    }

    /// Returns how many listed items are never returned.
    pub(super) fn quarantined(&self) -> usize {
        self.quarantined.len()
    }

    /// Leaves an item to other consumers until then, although it is due before.
    pub(super) fn defer(&mut self, listed: ListedItem, until: u64) {
        self.items.defer(listed, until);
    }

    /// Returns when an item is ready: `now` if one is, or when the next one is due.
    pub(super) fn ready_at(&mut self, now: u64) -> Option<u64> {
        if self.items.ready(now).next().is_some() {
            Some(now)
        } else {
            self.items.next_due()
        }
    }

    /// Returns whether the list was read since the moment `began` and has a ready item.
    pub(super) fn has_item_since(&mut self, began: Duration, now: u64) -> bool {
        self.read.is_some_and(|(at, _)| at >= began) && self.items.ready(now).next().is_some()
    }

    /// Returns whether a segment with these children has an item that may be taken at the moment `now`.
    pub(super) fn has_available(
        &self,
        segment: u32,
        names: &[String],
        claims: &BTreeSet<String>,
        now: u64,
    ) -> bool {
        names.iter().any(|name| {
            let Some(key) = self.layout.parse(name) else {
                return false;
            };
            if !claims.is_empty() && claims.contains(&self.layout.claim_name(segment, name)) {
                return false;
            }
            let name: Arc<str> = Arc::from(name.as_str());
            let item = ListedItem { segment, name, key };
            !self.quarantined.contains(&item.id())
                && !self.items.is_in_flight_or_deferred(&item, now)
        })
    }

    /// Returns the first item of each priority: except for items that were put back, it is the oldest one.
    ///
    /// `None` means that the queue has no ready item.
    pub(super) fn first_of_each_priority(&mut self, now: u64) -> Option<Vec<ItemId>> {
        let mut firsts = BTreeMap::new();
        for item in self.items.ready(now) {
            firsts.entry(item.key.priority).or_insert_with(|| item.id());
        }
        let is_empty = firsts.is_empty() && self.is_complete;
        (!is_empty).then(|| firsts.into_values().collect())
    }

    pub(super) fn epoch(&self) -> Option<&ListEpoch> {
        self.epoch.as_ref()
    }

    /// Continues with an epoch that allows taking the items of the list.
    pub(super) fn set_epoch(&mut self, epoch: ListEpoch) {
        self.epoch = Some(epoch);
    }

    /// Continues with `epoch` and a fresh items node that the servers refuse to write.
    pub(super) fn accept_read_only(&mut self, mut epoch: ListEpoch, items_node: ItemsNode) {
        self.read_only_items_node = Some(items_node.czxid);
        epoch.set_items_node(items_node);
        self.epoch = Some(epoch);
    }

    /// Advances from the preconditions `old` of the items node to `new` ones, if those are still of the same node.
    ///
    /// The next call reads the list again if its order may have changed.
    pub(super) fn advance(&mut self, old: &Arc<Preconditions>, new: &Arc<Preconditions>) {
        // Segments may have been created again, and with priorities their items may come before these.
        let is_order_known = self.items.has_only_segment(0) && !self.layout.has_priorities();
        match &mut self.epoch {
            Some(epoch) if epoch.is_for_items_node(old) && is_order_known => {
                epoch.advance_to(new);
                for prefetched in self.prefetched.values_mut().flatten() {
                    if Arc::ptr_eq(&prefetched.preconditions, old) {
                        prefetched.preconditions = Arc::clone(new);
                    }
                }
                self.is_complete = false;
            }
            Some(epoch) if epoch.is_for_items_node(old) => self.invalidate(),
            _ => {}
        }
    }

    /// Makes the next call read the list again.
    pub(super) fn invalidate(&mut self) {
        self.epoch = None;
        self.prefetched.clear();
        self.read = None;
    }

    /// Makes the next call read the list again if it has these preconditions, which no longer hold.
    pub(super) fn invalidate_if(&mut self, preconditions: &Arc<Preconditions>) {
        let epoch = self.epoch.as_ref();
        if epoch.is_some_and(|epoch| epoch.has(preconditions)) {
            self.invalidate();
        }
    }

    /// Returns the first ready items that no task has read ahead, and marks them as pending; none if enough items were
    /// read ahead. The number is that of [`prefetch_count`].
    pub(super) fn begin_prefetch(
        &mut self,
        now: u64,
        wanted: usize,
    ) -> Vec<(ListedItem, Arc<Preconditions>)> {
        let Some(epoch) = &self.epoch else {
            return Vec::new();
        };
        let in_flight = self.items.in_flight_count();
        let prefetched = &self.prefetched;
        let Some(partition) = self.contention.partition() else {
            return Vec::new();
        };
        // The items that are taken next.
        let mut ready = self
            .items
            .after(partition, self.contention.continue_after(), now)
            .peekable();
        let is_read = |item: &ListedItem| prefetched.contains_key(&item.id());
        let mut ahead = 0;
        while ready.next_if(|item| is_read(item)).is_some() {
            ahead += 1;
        }
        let unread = ready.filter(|item| !is_read(item));
        let begun =
            unread.map_while(|item| Some((item.clone(), epoch.preconditions_for(item.segment)?)));
        let begun: Vec<_> = begun
            .take(prefetch_count(in_flight, ahead, wanted))
            .collect();
        for (item, _) in &begun {
            self.prefetched.insert(item.id(), None);
        }
        begun
    }

    /// Forgets an item that was to be read ahead and no longer exists, unless a task is taking it or the list was replaced
    /// since the read began.
    pub(super) fn forget_prefetch(&mut self, item: &ListedItem) {
        if self.prefetched.get(&item.id()).is_some_and(Option::is_none) {
            self.prefetched.remove(&item.id());
            self.items.forget(item);
        }
    }

    /// Keeps an item that was read ahead, unless the list was replaced since the read began.
    pub(super) fn finish_prefetch(
        &mut self,
        id: &ItemId,
        preconditions: Arc<Preconditions>,
        item: ItemContent,
    ) {
        if let Some(prefetched) = self.prefetched.get_mut(id) {
            *prefetched = Some(Prefetched {
                preconditions,
                item,
            });
        }
    }

    /// Lets another task read an item ahead whose read was dropped.
    pub(super) fn cancel_prefetch(&mut self, id: &ItemId) {
        if self.prefetched.get(id).is_some_and(Option::is_none) {
            self.prefetched.remove(id);
        }
    }

    /// Keeps items that were read and not taken, as long as they are not too large in all.
    pub(super) fn keep_prefetched(
        &mut self,
        items: impl IntoIterator<Item = (ItemId, Option<Arc<Preconditions>>, ItemContent)>,
    ) {
        let read = self.prefetched.values().flatten();
        let mut kept: usize = read.map(|prefetched| prefetched.item.size()).sum();
        for (id, preconditions, item) in items {
            kept += item.size();
            if kept > MAX_KEPT_BYTES {
                return;
            }
            if let Some(preconditions) = preconditions {
                let prefetched = Prefetched {
                    preconditions,
                    item,
                };
                self.prefetched.insert(id, Some(prefetched));
            }
        }
    }

    /// Returns and forgets an item that was read ahead under these preconditions.
    pub(super) fn take_prefetched(
        &mut self,
        id: &ItemId,
        preconditions: &Arc<Preconditions>,
    ) -> Option<ItemContent> {
        let prefetched = self.prefetched.remove(id)??;
        Arc::ptr_eq(&prefetched.preconditions, preconditions).then_some(prefetched.item)
    }
}

/// Reading lists takes at most this fraction of the time (one in 20).
const LISTING_SHARE: u32 = 20;
/// The size of the items in bytes beyond which contents are not kept.
const MAX_KEPT_BYTES: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests;
