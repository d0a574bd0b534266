//! The nodes of a cache, in maps whose clones share what did not change.
//!
//! Pure: no I/O and no clock.

use rpds::HashTrieMapSync;
use rpds::RedBlackTreeSetSync;
use zk_core::NodePath;

use crate::node::Node;

/// Nodes by their paths. A clone costs nothing, and a change after it a small part of the whole.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    nodes: HashTrieMapSync<NodePath, Entry>,
}

#[derive(Debug, Clone)]
struct Entry {
    node: Node,
    children: RedBlackTreeSetSync<NodePath>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            nodes: HashTrieMapSync::new_sync(),
        }
    }
}

impl Store {
    pub(crate) fn len(&self) -> usize {
        self.nodes.size()
    }

    pub(crate) fn get(&self, path: &NodePath) -> Option<&Node> {
        self.nodes.get(path).map(|entry| &entry.node)
    }

    /// The children of a node, by their names.
    pub(crate) fn children(&self, path: &NodePath) -> impl Iterator<Item = &Node> {
        let names = self.nodes.get(path).map(|entry| entry.children.iter());
        names
            .into_iter()
            .flatten()
            .filter_map(|child| self.get(child))
    }

    /// How many children of a node there are.
    pub(crate) fn count_children(&self, path: &NodePath) -> usize {
        self.nodes
            .get(path)
            .map_or(0, |entry| entry.children.size())
    }

    /// The node and everything below it, parents first.
    pub(crate) fn below(&self, root: &NodePath) -> Below<'_> {
        Below {
            store: self,
            next: self.get(root).into_iter().collect(),
        }
    }

    /// Puts a node in; one that was there keeps its children.
    pub(crate) fn put(&mut self, node: Node) {
        let path = node.path().clone();
        if let Some(entry) = self.nodes.get_mut(&path) {
            entry.node = node;
            return;
        }
        if let Some(parent) = path.parent().and_then(|parent| self.nodes.get_mut(&parent)) {
            parent.children.insert_mut(path.clone());
        }
        let entry = Entry {
            node,
            children: RedBlackTreeSetSync::new_sync(),
        };
        self.nodes.insert_mut(path, entry);
    }

    /// Takes out a node and everything below it; children come before their parents.
    pub(crate) fn take(&mut self, path: &NodePath) -> Vec<Node> {
        let mut taken: Vec<_> = self.below(path).cloned().collect();
        taken.reverse();
        for node in &taken {
            self.nodes.remove_mut(node.path());
        }
        if let Some(parent) = path.parent().and_then(|parent| self.nodes.get_mut(&parent)) {
            parent.children.remove_mut(path);
        }
        taken
    }
}

/// See [`Store::below`].
#[derive(Debug)]
pub(crate) struct Below<'a> {
    store: &'a Store,
    next: Vec<&'a Node>,
}

impl<'a> Iterator for Below<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        let node = self.next.pop()?;
        let first = self.next.len();
        self.next.extend(self.store.children(node.path()));
        self.next[first..].reverse();
        Some(node)
    }
}
