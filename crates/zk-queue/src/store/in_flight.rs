//! The inventory as all tasks of a process share it, and the items that they are taking.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use zk_core::NodePath;

use super::inventory::{Inventory, Purpose, Started};
use crate::layout::Layout;
use crate::mutex::lock;
use crate::paths::QueuePaths;
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;

/// The inventory of one queue, shared by all tasks of a process.
#[derive(Debug)]
pub(crate) struct SharedInventory {
    inventory: Mutex<Inventory>,
    /// Notified when an item in flight is released and can be taken by other tasks.
    pub(super) released: Notify,
    paths: QueuePaths,
}

/// An item that one task of this process is taking, so that no other task takes it; or one that it only reads.
///
/// Returns an item that was being taken to the inventory when it is dropped, unless it is complete.
#[derive(Debug)]
pub(crate) struct InFlightItem {
    inventory: Arc<SharedInventory>,
    listed: ListedItem,
    /// What taking the item has to check; `None` if the caller only reads it.
    pub(crate) preconditions: Option<Arc<Preconditions>>,
    /// Whether the inventory has marked it as in flight.
    is_marked: bool,
}

impl SharedInventory {
    pub(super) fn new(layout: Layout, paths: QueuePaths) -> Self {
        Self {
            inventory: Mutex::new(Inventory::new(layout)),
            released: Notify::new(),
            paths,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inventory> {
        lock(&self.inventory)
    }

    /// Returns the handle of an item that the inventory has started for this purpose.
    pub(super) fn in_flight(
        self: &Arc<Self>,
        (listed, preconditions): Started,
        purpose: Purpose,
    ) -> InFlightItem {
        InFlightItem {
            inventory: Arc::clone(self),
            listed,
            preconditions,
            is_marked: purpose == Purpose::Change,
        }
    }

    /// Never takes an item from now on, and logs one warning.
    pub(crate) fn quarantine(&self, listed: &ListedItem, reason: &str) {
        if self.lock().quarantine(listed) {
            let path = self.paths.item(listed.segment, &listed.name);
            tracing::warn!(%path, reason, "an item is skipped from now on");
        }
    }

    /// Returns how many listed items are skipped.
    pub(crate) fn quarantined(&self) -> usize {
        self.lock().quarantined()
    }

    /// Leaves an item to other consumers until then, although it is due before.
    pub(crate) fn defer(&self, listed: ListedItem, until: u64) {
        self.lock().defer(listed, until);
    }

    /// Makes the next call read the list again if it has these preconditions, which no longer hold.
    pub(crate) fn invalidate_if(&self, preconditions: &Arc<Preconditions>) {
        self.lock().invalidate_if(preconditions);
    }

    /// Makes the next call read the list again, because an item has no preconditions.
    pub(crate) fn invalidate(&self) {
        self.lock().invalidate();
    }
}

impl InFlightItem {
    pub(crate) fn path(&self) -> NodePath {
        let paths = &self.inventory.paths;
        paths.item(self.listed.segment, &self.listed.name)
    }

    /// Forgets the item, because it was taken or no longer exists.
    pub(crate) fn complete(mut self) {
        self.forget();
    }

    /// Never takes the item from now on, and logs one warning.
    pub(crate) fn quarantine(mut self, reason: &str) {
        self.forget();
        self.inventory.quarantine(&self.listed, reason);
    }

    fn forget(&mut self) {
        let mut inventory = self.inventory.lock();
        if std::mem::take(&mut self.is_marked) {
            inventory.complete(&self.listed);
        } else {
            inventory.forget(&self.listed);
        }
    }
}

impl Deref for InFlightItem {
    type Target = ListedItem;

    fn deref(&self) -> &ListedItem {
        &self.listed
    }
}

impl Drop for InFlightItem {
    fn drop(&mut self) {
        if self.is_marked {
            self.inventory.lock().release(self.listed.clone());
            // No watch fires for the other tasks of this process.
            self.inventory.released.notify_waiters();
        }
    }
}
