//! What tells that a queue is still the one in which an item was read.
//!
//! A change can be bound to the version of an item, but a later item may have the same name and the same version: the
//! numbers begin anew when the node of the queue is made again. A transaction can be bound to nothing that a node *is*,
//! only to versions and to what is there. So three of them are put together, each of which keeps the next from coming
//! again:
//!
//! - a receipt of ours, whose name nobody else uses: while it is there, the desk above it is the same one;
//! - the version of the desk, which only grows for as long as that is so;
//! - the version of the node of the items. Whoever finds it to be zero, as in a node that was just made, writes the data
//!   again that it has, and the desk in the same transaction: two nodes of the items with the same version have had
//!   different versions of the desk.
//!
//! The nodes of segments are made and removed only under other versions of the desk.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;

use zk_core::NodePath;
use zk_core::OwnedNode;
use zk_core::Transaction;

/// The versions under which items were read. It is read before they are.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    /// A receipt that was there before the rest was read.
    pub(crate) anchor: Arc<OwnedNode>,
    pub(crate) desk: (NodePath, i32),
    /// The node of the items, for items in it; nothing for items of other segments.
    pub(crate) items: Option<Floor>,
}

/// The node of the items as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Floor {
    pub(crate) path: NodePath,
    pub(crate) version: i32,
    pub(crate) czxid: i64,
}

impl Ground {
    /// Lets a transaction fail unless it is carried out on this ground; with the number of parts that this takes.
    ///
    /// `receipt` is one that the transaction checks already.
    pub(crate) fn under(
        &self,
        mut transaction: Transaction,
        receipt: Option<&NodePath>,
    ) -> (Transaction, usize) {
        let mut parts = 1;
        if Some(self.anchor.path()) != receipt {
            transaction = transaction.check(self.anchor.path());
            parts += 1;
        }
        transaction = transaction.check_version(&self.desk.0, self.desk.1);
        if let Some(floor) = &self.items {
            transaction = transaction.check_version(&floor.path, floor.version);
            parts += 1;
        }
        (transaction, parts)
    }

    /// Whether both are the same ground, as far as both tell.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        let are_floors_same = match (&self.items, &other.items) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => true,
        };
        Arc::ptr_eq(&self.anchor, &other.anchor) && self.desk == other.desk && are_floors_same
    }
}
