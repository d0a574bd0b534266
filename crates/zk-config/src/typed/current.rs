//! One value of a key or a subtree, with its revision.

use std::ops::Deref;
use std::sync::Arc;
use std::time::SystemTime;

use crate::subtree::Subtree;

/// A value that is or was the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current<T> {
    pub(super) value: T,
    pub(super) revision: Option<i64>,
    pub(super) subtree: Option<Arc<Subtree>>,
    pub(super) saved_at: Option<SystemTime>,
}

impl<T> Current<T> {
    /// Returns the revision: the newest transaction among the nodes that the value was made from.
    ///
    /// For one key that is the [`mzxid`](zk_core::Stat::mzxid) of its node.
    /// `None` for a value without a part in ZooKeeper, such as the default.
    pub fn revision(&self) -> Option<i64> {
        self.revision
    }

    /// Returns the nodes that the value of a [subtree](crate::Typed::subtree) or of [profiles](crate::Profiles) was made
    /// from; `None` for the value of one node and for the default. [`Subtree::changes_since`] compares them with those of
    /// another value.
    pub fn subtree(&self) -> Option<&Subtree> {
        self.subtree.as_deref()
    }

    /// Returns when the value was saved, if it is from the [file](crate::TypedBuilder::with_file); `None` if a session has
    /// read it, and for the default.
    pub fn saved_at(&self) -> Option<SystemTime> {
        self.saved_at
    }
}

impl<T> Deref for Current<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
