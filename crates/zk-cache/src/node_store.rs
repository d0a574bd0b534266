//! The nodes of a cache, in persistent maps: a clone shares everything that does not change afterwards.
//!
//! Pure: no I/O and no clock.

use rpds::HashTrieMapSync;
use rpds::RedBlackTreeSetSync;
use zk_core::NodePath;

use crate::node::Node;

/// Nodes by path. A clone costs nothing, and a change after it copies a small part.
#[derive(Debug, Clone)]
pub(crate) struct NodeStore {
    nodes: HashTrieMapSync<NodePath, StoredNode>,
}

#[derive(Debug, Clone)]
struct StoredNode {
    node: Node,
    children: RedBlackTreeSetSync<NodePath>,
}

impl Default for NodeStore {
    fn default() -> Self {
        Self {
            nodes: HashTrieMapSync::new_sync(),
        }
    }
}

impl NodeStore {
    pub(crate) fn len(&self) -> usize {
        self.nodes.size()
    }

    pub(crate) fn get(&self, path: &NodePath) -> Option<&Node> {
        self.nodes.get(path).map(|stored| &stored.node)
    }

    /// Returns the children of a node, ordered by name.
    pub(crate) fn children(&self, path: &NodePath) -> impl Iterator<Item = &Node> {
        let paths = self.nodes.get(path).map(|stored| stored.children.iter());
        paths
            .into_iter()
            .flatten()
            .filter_map(|child| self.get(child))
    }

    /// Returns the number of children of a node.
    pub(crate) fn count_children(&self, path: &NodePath) -> usize {
        self.nodes
            .get(path)
            .map_or(0, |stored| stored.children.size())
    }

    /// Returns a node and everything below it, parents first.
    pub(crate) fn subtree(&self, root: &NodePath) -> SubtreeIter<'_> {
        SubtreeIter {
            store: self,
            next: self.get(root).into_iter().collect(),
        }
    }

    /// Inserts or replaces a node; a replaced node keeps its children.
    pub(crate) fn insert(&mut self, node: Node) {
        let path = node.path().clone();
        if let Some(stored) = self.nodes.get_mut(&path) {
            stored.node = node;
            return;
        }
        if let Some(parent) = path.parent().and_then(|parent| self.nodes.get_mut(&parent)) {
            parent.children.insert_mut(path.clone());
        }
        let stored = StoredNode {
            node,
            children: RedBlackTreeSetSync::new_sync(),
        };
        self.nodes.insert_mut(path, stored);
    }

    /// Removes a node and everything below it, and returns them, children before their parents.
    pub(crate) fn remove(&mut self, path: &NodePath) -> Vec<Node> {
        let mut removed: Vec<_> = self.subtree(path).cloned().collect();
        removed.reverse();
        for node in &removed {
            self.nodes.remove_mut(node.path());
        }
        if let Some(parent) = path.parent().and_then(|parent| self.nodes.get_mut(&parent)) {
            parent.children.remove_mut(path);
        }
        removed
    }
}

/// The iterator of [`NodeStore::subtree`].
#[derive(Debug)]
pub(crate) struct SubtreeIter<'a> {
    store: &'a NodeStore,
    next: Vec<&'a Node>,
}

impl<'a> Iterator for SubtreeIter<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        let node = self.next.pop()?;
        let first = self.next.len();
        self.next.extend(self.store.children(node.path()));
        self.next[first..].reverse();
        Some(node)
    }
}
