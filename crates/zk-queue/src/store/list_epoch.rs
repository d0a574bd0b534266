//! The epoch of a list: the preconditions under which its items were read, and may be taken.
//!
//! An epoch ends when the active segment changes or the items node is created again. A transaction of an earlier epoch
//! is refused, and the list is read again, or the preconditions alone if the items node is still the same.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;

use super::active_segment::ActiveSegment;
use crate::preconditions::{ItemsNode, Preconditions};

/// The preconditions of a list's items.
#[derive(Debug, Clone)]
pub(super) struct ListEpoch {
    /// Those of items in the items node, if it exists and is not fresh.
    for_items_node: Option<Arc<Preconditions>>,
    /// Those of items in segments.
    pub(super) for_segments: Arc<Preconditions>,
    pub(super) active: ActiveSegment,
    /// The items node, if it has items and version 0.
    pub(super) fresh: Option<ItemsNode>,
}

impl ListEpoch {
    /// `has_items` is whether the items node has items.
    pub(super) fn new(
        for_segments: Preconditions,
        active: ActiveSegment,
        items_node: Option<ItemsNode>,
        has_items: bool,
    ) -> Self {
        let mut epoch = Self {
            for_items_node: None,
            for_segments: Arc::new(for_segments),
            active,
            fresh: None,
        };
        match items_node {
            Some(fresh) if fresh.version == 0 => epoch.fresh = Some(fresh).filter(|_| has_items),
            Some(known) => epoch.set_items_node(known),
            None => {}
        }
        epoch
    }

    /// Accepts the fresh items node as it is if it is this one, which the session may not write.
    pub(super) fn accepting_read_only(mut self, czxid: Option<i64>) -> Self {
        if let Some(items_node) = self
            .fresh
            .take_if(|items_node| Some(items_node.czxid) == czxid)
        {
            self.set_items_node(items_node);
        }
        self
    }

    pub(super) fn set_items_node(&mut self, items_node: ItemsNode) {
        self.for_items_node = Some(Arc::new(Preconditions {
            items_node: Some(items_node),
            ..Preconditions::clone(&self.for_segments)
        }));
    }

    /// Continues with new preconditions of the same items node. Nothing is known of the segments any more.
    pub(super) fn advance_to(&mut self, new: &Arc<Preconditions>) {
        self.for_segments = Arc::new(Preconditions {
            items_node: None,
            ..Preconditions::clone(new)
        });
        self.active.control_version = new.control_node.1;
        self.for_items_node = Some(Arc::clone(new));
    }

    pub(super) fn is_for_items_node(&self, preconditions: &Arc<Preconditions>) -> bool {
        let ours = self.for_items_node.as_ref();
        ours.is_some_and(|ours| Arc::ptr_eq(ours, preconditions))
    }

    /// Returns whether these are the preconditions of some of its items.
    pub(super) fn has(&self, preconditions: &Arc<Preconditions>) -> bool {
        Arc::ptr_eq(&self.for_segments, preconditions) || self.is_for_items_node(preconditions)
    }

    /// Returns the preconditions of a segment's items.
    pub(super) fn preconditions_for(&self, segment: u32) -> Option<Arc<Preconditions>> {
        match segment {
            0 => self.for_items_node.clone(),
            _ => Some(Arc::clone(&self.for_segments)),
        }
    }

    /// Returns whether items can be taken.
    pub(super) fn is_usable(&self) -> bool {
        self.fresh.is_none()
    }

    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        let is_same_items_node = match (&self.for_items_node, &other.for_items_node) {
            (Some(ours), Some(theirs)) => ours.agrees_with(theirs),
            (None, None) => true,
            _ => false,
        };
        is_same_items_node
            && self.for_segments.agrees_with(&other.for_segments)
            && self.active == other.active
            && self.fresh == other.fresh
    }
}
