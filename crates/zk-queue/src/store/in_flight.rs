//! An item that one task of this process is taking, so that no other task takes it.

use std::ops::Deref;
use std::sync::Arc;

use zk_core::NodePath;

use super::ItemStore;
use crate::mutex::lock;
use crate::preconditions::Preconditions;
use crate::ready_items::ListedItem;

/// Returns the item to the list when it is dropped, unless it is complete.
#[derive(Debug)]
pub(crate) struct InFlightItem {
    store: Arc<ItemStore>,
    listed: ListedItem,
    /// What taking the item has to check; `None` if the caller only reads it.
    pub(crate) preconditions: Option<Arc<Preconditions>>,
    is_complete: bool,
}

impl InFlightItem {
    pub(super) fn new(
        store: &Arc<ItemStore>,
        listed: ListedItem,
        preconditions: Option<Arc<Preconditions>>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            listed,
            preconditions,
            is_complete: false,
        }
    }

    pub(crate) fn path(&self) -> NodePath {
        self.store
            .context
            .paths
            .item(self.listed.segment, &self.listed.name)
    }

    /// Forgets the item, because it was taken or no longer exists.
    pub(crate) fn complete(mut self) {
        self.forget();
    }

    /// Never takes the item from now on, and logs one warning.
    pub(crate) fn quarantine(mut self, reason: &str) {
        self.forget();
        self.store.quarantine(&self.listed, reason);
    }

    fn forget(&mut self) {
        self.is_complete = true;
        lock(&self.store.list).items.complete(&self.listed);
    }
}

impl ItemStore {
    /// Never takes an item from now on, and logs one warning.
    pub(crate) fn quarantine(&self, listed: &ListedItem, reason: &str) {
        let id = listed.id();
        if lock(&self.list).quarantined.insert(id) {
            let path = self.context.paths.item(listed.segment, &listed.name);
            tracing::warn!(%path, reason, "an item is skipped from now on");
        }
    }

    /// Leaves an item to other consumers until then, although it is due before.
    pub(crate) fn defer(&self, listed: ListedItem, until: u64) {
        lock(&self.list).items.defer(listed, until);
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
        if !self.is_complete {
            lock(&self.store.list).items.release(self.listed.clone());
            // No watch fires for the other tasks of this process.
            self.store.released.notify_waiters();
        }
    }
}
