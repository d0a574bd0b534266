//! A node as a cache has read it.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::sync::Arc;

use zk_core::NodePath;
use zk_core::Stat;

/// A node as a cache has read it. It is cheap to clone and never changes.
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

    /// Returns the data, or `None` if the cache keeps [the stat alone](crate::Content::StatOnly).
    pub fn data(&self) -> Option<&[u8]> {
        self.0.data.as_deref()
    }

    /// Returns the stat that belongs to the data.
    ///
    /// The fields about the children (`pzxid`, `cversion`, `num_children`) and about the ACL (`aversion`) are those of
    /// the last read: a watch on a node does not report their changes.
    /// The children themselves are up to date, see [`Snapshot::children`](crate::Snapshot::children).
    pub fn stat(&self) -> &Stat {
        &self.0.stat
    }

    /// Returns whether both are the same node, and not one that was created again under the same path.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.path == other.0.path && self.0.stat.czxid == other.0.stat.czxid
    }

    /// Returns the same node and data with a newer stat.
    pub(crate) fn with_stat(&self, stat: Stat) -> Self {
        Self::new(self.0.path.clone(), stat, self.0.data.clone())
    }

    /// Returns the approximate memory footprint in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Inner>() + self.0.path.as_str().len() + self.0.data.as_ref().map_or(0, Vec::len)
    }

    /// Returns whether `other`, a later read of the same node, needs no event.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        // Different data under one `mzxid` means that one of the reads was wrong, and is reported.
        self.0.stat.mzxid == other.0.stat.mzxid && self.0.data == other.0.data
    }
}

/// Omits the data.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("path", &self.0.path)
            .field("stat", &self.0.stat)
            .field("length", &self.0.data.as_ref().map(Vec::len))
            .finish()
    }
}
