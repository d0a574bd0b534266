//! The nodes of a cache, in persistent maps: a clone shares everything that does not change afterwards.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;

use crate::child_list::ChildList;
use crate::node::Node;
use crate::path_map::{HasPath, PathMap};

/// Nodes by path. A clone costs nothing, and a change after it copies a small part.
#[derive(Debug, Clone)]
pub(crate) struct NodeStore {
    nodes: PathMap<Node>,
    /// The nodes that have children.
    parents: PathMap<Parent>,
    /// The memory of the nodes.
    bytes: usize,
}

/// The children of a node.
#[derive(Debug, Clone)]
struct Parent {
    path: Arc<str>,
    children: ChildList,
}

impl HasPath for Parent {
    fn path_bytes(&self) -> &[u8] {
        self.path.as_bytes()
    }
}

impl Default for NodeStore {
    fn default() -> Self {
        Self {
            nodes: PathMap::new(),
            parents: PathMap::new(),
            bytes: 0,
        }
    }
}

impl NodeStore {
    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the approximate memory of the nodes in bytes, without that of the maps.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// Returns the children of a node, ordered by name.
    pub(crate) fn children(&self, path: &str) -> impl Iterator<Item = &Node> + use<'_> {
        let parent = self.parents.get(path);
        parent
            .into_iter()
            .flat_map(|parent| self.children_of(parent))
    }

    fn children_of<'a>(&'a self, parent: &'a Parent) -> impl Iterator<Item = &'a Node> + use<'a> {
        let mut child = format!("{}/", parent.path.trim_end_matches('/'));
        let prefix = child.len();
        parent.children.iter().filter_map(move |name| {
            child.truncate(prefix);
            child.push_str(name);
            self.get(&child)
        })
    }

    /// Returns the number of children of a node.
    pub(crate) fn count_children(&self, path: &str) -> usize {
        let parent = self.parents.get(path);
        parent.map_or(0, |parent| parent.children.len())
    }

    /// Returns a node and everything below it, parents first.
    pub(crate) fn subtree(&self, root: &str) -> SubtreeIter<'_> {
        SubtreeIter {
            store: self,
            root: self.get(root),
            levels: Vec::new(),
        }
    }

    /// Inserts or replaces a node; a replaced node keeps its children.
    pub(crate) fn insert(&mut self, node: &Node) {
        self.bytes += node.bytes();
        if let Some(replaced) = self.nodes.insert(node.clone()) {
            self.bytes -= replaced.bytes();
            return;
        }
        let Some((parent, name)) = split(node.path()) else {
            return;
        };
        let add = |parent: &mut Parent| parent.children.insert(name);
        if self.parents.update(parent, add).is_none() && self.get(parent).is_some() {
            let mut children = ChildList::default();
            children.insert(name);
            let path = Arc::from(parent);
            self.parents.insert(Parent { path, children });
        }
    }

    /// Removes a node and everything below it, and returns them, children before their parents.
    pub(crate) fn remove(&mut self, path: &str) -> Vec<Node> {
        let mut removed: Vec<_> = self.subtree(path).cloned().collect();
        removed.reverse();
        for node in &removed {
            self.bytes -= node.bytes();
            self.nodes.remove(node.path());
            self.parents.remove(node.path());
        }
        if let Some((parent, name)) = split(path) {
            let remove = |parent: &mut Parent| {
                parent.children.remove(name);
                parent.children.len()
            };
            if self.parents.update(parent, remove) == Some(0) {
                self.parents.remove(parent);
            }
        }
        removed
    }
}

/// The iterator of [`NodeStore::subtree`].
pub(crate) struct SubtreeIter<'a> {
    store: &'a NodeStore,
    root: Option<&'a Node>,
    /// The children that are still to come, of the nodes on the way to the last one.
    levels: Vec<Box<dyn Iterator<Item = &'a Node> + Send + Sync + 'a>>,
}

impl<'a> Iterator for SubtreeIter<'a> {
    type Item = &'a Node;

    fn next(&mut self) -> Option<&'a Node> {
        let mut node = self.root.take();
        while node.is_none() {
            node = self.levels.last_mut()?.next();
            if node.is_none() {
                self.levels.pop();
            }
        }
        let parent = node.and_then(|node| self.store.parents.get(node.path()));
        if let Some(parent) = parent {
            self.levels.push(Box::new(self.store.children_of(parent)));
        }
        node
    }
}

/// Returns the path of the parent and the name of a node other than the root of the tree.
fn split(path: &str) -> Option<(&str, &str)> {
    match path.rsplit_once('/')? {
        (_, "") => None,
        ("", name) => Some(("/", name)),
        both => Some(both),
    }
}
