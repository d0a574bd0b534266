//! An item that is being looked at, so that nobody else of this process does.

use std::ops::Deref;
use std::sync::Arc;

use zk_core::NodePath;

use super::Line;
use crate::idempotency::lock;
use crate::preconditions::Ground;
use crate::ready_items::Spot;

/// Gives the item back to the list when it is dropped, unless it is done with.
#[derive(Debug)]
pub(crate) struct Hand {
    line: Arc<Line>,
    spot: Spot,
    /// What was known before the item was looked at; nothing if it is only looked at.
    pub(crate) ground: Option<Arc<Ground>>,
    is_done: bool,
}

impl Hand {
    pub(super) fn new(line: &Arc<Line>, spot: Spot, ground: Option<Arc<Ground>>) -> Self {
        Self {
            line: Arc::clone(line),
            spot,
            ground,
            is_done: false,
        }
    }

    pub(crate) fn path(&self) -> NodePath {
        self.line.place.item(self.spot.segment, &self.spot.name)
    }

    /// Forgets the item: it was taken, or is gone.
    pub(crate) fn done(mut self) {
        self.forget();
    }

    /// Leaves the item alone from now on, with one warning.
    pub(crate) fn shun(mut self, why: &str) {
        self.forget();
        self.line.shun(&self.spot, why);
    }

    fn forget(&mut self) {
        self.is_done = true;
        lock(&self.line.stock).shelf.done(&self.spot);
    }
}

impl Line {
    /// Leaves an item alone from now on, with one warning.
    pub(crate) fn shun(&self, spot: &Spot, why: &str) {
        let key = spot.key();
        if lock(&self.stock).shunned.insert(key) {
            let path = self.place.item(spot.segment, &spot.name);
            tracing::warn!(%path, why, "an item is left alone");
        }
    }

    /// Leaves an item to others until then, although it is due before.
    pub(crate) fn hold_back(&self, spot: Spot, until: u64) {
        lock(&self.stock).shelf.hold_back(spot, until);
    }
}

impl Deref for Hand {
    type Target = Spot;

    fn deref(&self) -> &Spot {
        &self.spot
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if !self.is_done {
            lock(&self.line.stock).shelf.give_back(self.spot.clone());
            // No watch tells the other tasks of this process.
            self.line.given_back.notify_waiters();
        }
    }
}
