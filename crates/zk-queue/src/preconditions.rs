//! The preconditions of a transaction: the queue is still the one in which its items were read.
//!
//! A transaction can check an item's version, but that does not identify the item: when the items node is created
//! again, numbering restarts, and another item may have the same name and version. A transaction cannot check a `czxid`
//! either, only versions and existence. So it checks three things, each of which makes the next one unambiguous:
//!
//! 1. The *fence*, an idempotency token of ours, exists. Its name is unique, and a node with a child cannot be deleted:
//!    the control node above it is still the same node.
//! 2. The version of the control node is the one that was read. It only grows while the fence exists.
//! 3. The version of the items node is the one that was read. A consumer that finds version 0 (a fresh node) writes the
//!    same data again, together with the control node, in one transaction. So two items nodes with the same version
//!    belong to different versions of the control node.
//!
//! For items of segments, the first two are enough: a segment is activated together with a change of the control node, and
//! deleted under its version.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;

use zk_core::{NodePath, Transaction};

/// What a transaction checks besides the items that it is about. It is read before the items are.
#[derive(Debug, Clone)]
pub(crate) struct Preconditions {
    /// A token of ours that existed before anything else was read.
    pub(crate) fence: NodePath,
    /// The control node and its version.
    pub(crate) control_node: (NodePath, i32),
    /// The items node, for items in it; `None` for items of segments.
    pub(crate) items_node: Option<ItemsNode>,
}

/// The items node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemsNode {
    pub(crate) path: NodePath,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
}

impl Preconditions {
    /// Adds the checks to a transaction, that of the fence first, and returns how many parts they are.
    pub(crate) fn check(&self, transaction: Transaction) -> (Transaction, usize) {
        let checked = transaction
            .check(&self.fence)
            .check_version(&self.control_node.0, self.control_node.1);
        match &self.items_node {
            Some(items_node) => (
                checked.check_version(&items_node.path, items_node.version),
                3,
            ),
            None => (checked, 2),
        }
    }

    /// Returns those of several with which the others may agree: of two that agree, the one that also names the items
    /// node.
    pub(crate) fn common<'a>(
        mut all: impl Iterator<Item = &'a Arc<Self>>,
    ) -> Option<&'a Arc<Self>> {
        let first = all.next()?;
        if first.items_node.is_some() {
            return Some(first);
        }
        let complete = all.find(|preconditions| preconditions.items_node.is_some());
        Some(complete.unwrap_or(first))
    }

    /// Returns whether both were read from the same queue, as far as both know.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let is_same_items_node = match (&self.items_node, &other.items_node) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        self.fence == other.fence && self.control_node == other.control_node && is_same_items_node
    }
}
