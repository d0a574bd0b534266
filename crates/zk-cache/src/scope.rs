//! Decides by path which nodes a cache keeps.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;

use crate::options::{CacheOptions, Select, Selector};

/// The part of the tree that a cache keeps.
#[derive(Clone)]
pub(crate) struct Scope {
    root: NodePath,
    max_depth: usize,
    selector: Option<Selector>,
}

impl Scope {
    pub(crate) fn new(root: NodePath, options: &CacheOptions) -> Self {
        Self {
            root,
            max_depth: options.max_depth,
            selector: options.selector.clone(),
        }
    }

    pub(crate) fn root(&self) -> &NodePath {
        &self.root
    }

    /// Returns whether the cache keeps the node at a path, if it exists.
    pub(crate) fn contains(&self, path: &NodePath) -> bool {
        let Some(depth) = path.depth_below(&self.root) else {
            return false;
        };
        if depth == 0 {
            return true;
        }
        depth <= self.max_depth
            && self.select(path) != Select::Skip
            && path
                .ancestors()
                .take(depth - 1)
                .all(|ancestor| self.select(&ancestor) == Select::Keep)
    }

    /// Returns whether the cache keeps children of a node that it keeps.
    pub(crate) fn includes_children_of(&self, path: &NodePath) -> bool {
        path.depth_below(&self.root)
            .is_some_and(|depth| depth < self.max_depth)
            && (*path == self.root || self.select(path) == Select::Keep)
    }

    /// Returns whether the cache keeps a child of a node whose children it keeps.
    pub(crate) fn includes_child(&self, path: &NodePath) -> bool {
        self.select(path) != Select::Skip
    }

    fn select(&self, path: &NodePath) -> Select {
        self.selector
            .as_ref()
            .map_or(Select::Keep, |selector| selector(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NodePath {
        text.parse().unwrap()
    }

    #[test]
    fn depth_and_the_selector_of_each_ancestor_decide() {
        let options = CacheOptions::default()
            .with_max_depth(2)
            .with_selector(|path| match path.name() {
                Some("skip") => Select::Skip,
                Some("alone") => Select::KeepAlone,
                _ => Select::Keep,
            });
        let scope = Scope::new(path("/r"), &options);
        for (node, is_kept, has_children) in [
            ("/r", true, true),
            ("/r/a", true, true),
            ("/r/a/b", true, false),
            ("/r/a/b/c", false, false),
            ("/r/alone", true, false),
            ("/r/alone/b", false, false),
            ("/r/skip", false, false),
            ("/r/skip/b", false, false),
            ("/r/a/skip", false, false),
            ("/other", false, false),
        ] {
            let node = path(node);
            assert_eq!(scope.contains(&node), is_kept, "{node}");
            if is_kept {
                assert_eq!(scope.includes_children_of(&node), has_children, "{node}");
            }
        }
        let root_is_skipped = CacheOptions::default().with_selector(|_| Select::Skip);
        let scope = Scope::new(path("/r"), &root_is_skipped);
        assert!(scope.contains(&path("/r")) && scope.includes_children_of(&path("/r")));
        assert!(!scope.contains(&path("/r/a")) && !scope.includes_child(&path("/r/a")));
    }
}
