//! One value of a key or a subtree, with its revision.
//!
//! Pure: no I/O and no clock.

use std::ops::Deref;

/// A value that is or was the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current<T> {
    pub(super) value: T,
    pub(super) revision: Option<i64>,
}

impl<T> Current<T> {
    /// Returns the revision: the newest transaction among the nodes that the value was made from.
    ///
    /// For one key that is the [`mzxid`](zk_core::Stat::mzxid) of its node.
    /// `None` for a value without a part in ZooKeeper, such as the default.
    pub fn revision(&self) -> Option<i64> {
        self.revision
    }
}

impl<T> Deref for Current<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}
