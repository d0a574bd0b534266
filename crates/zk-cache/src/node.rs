//! A node as a cache has it.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use zk_core::NodePath;
use zk_core::Stat;

/// A node as it was when a cache read it; cheap to clone, and never changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Node(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    path: NodePath,
    stat: Stat,
    data: Option<Vec<u8>>,
}

impl Node {
    pub(crate) fn new(path: NodePath, stat: Stat, data: Option<Vec<u8>>) -> Self {
        Self(Arc::new(Inner { path, stat, data }))
    }

    /// Returns the path of the node.
    pub fn path(&self) -> &NodePath {
        &self.0.path
    }

    /// Returns the last component of the path, or `None` for the root of the tree.
    pub fn name(&self) -> Option<&str> {
        self.0.path.name()
    }

    /// Returns the data; `None` when the cache keeps [none](crate::Content::StatOnly).
    pub fn data(&self) -> Option<&[u8]> {
        self.0.data.as_deref()
    }

    /// Returns the stat that belongs to the data.
    ///
    /// What it says of the children (`pzxid`, `cversion`, `num_children`) and of the access rules (`aversion`) is of the
    /// moment of the last read: a watch tells a node's new data, not that these changed.
    /// The children themselves are followed, see [`Snapshot::children`](crate::Snapshot::children).
    pub fn stat(&self) -> &Stat {
        &self.0.stat
    }

    /// Tells whether both are the same node, rather than one that was made anew under the same path.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.path == other.0.path && self.0.stat.czxid == other.0.stat.czxid
    }

    /// The same node and data, with a stat that was read later.
    pub(crate) fn with_stat(&self, stat: Stat) -> Self {
        Self::new(self.0.path.clone(), stat, self.0.data.clone())
    }

    /// The bytes of memory that this takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Inner>() + self.0.path.as_str().len() + self.0.data.as_ref().map_or(0, Vec::len)
    }

    /// Whether somebody who has this need not be told of `other`, which is the same node.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        // Data that differs under one transaction was read wrongly, and is told.
        self.0.stat.mzxid == other.0.stat.mzxid && self.0.data == other.0.data
    }
}

/// Data is in no debug output.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("path", &self.0.path)
            .field("stat", &self.0.stat)
            .field("length", &self.0.data.as_ref().map(Vec::len))
            .finish()
    }
}
