//! Which nodes a cache has: pure decisions on paths.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;

use crate::options::CacheOptions;
use crate::options::Select;
use crate::options::Selector;

/// The part of the tree that a cache follows.
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

    /// Whether the node is one that the cache is to have, if it is there.
    pub(crate) fn has(&self, path: &NodePath) -> bool {
        let Some(depth) = depth_below(&self.root, path) else {
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

    /// Whether the children of a node that the cache has are looked at.
    pub(crate) fn goes_below(&self, path: &NodePath) -> bool {
        depth_below(&self.root, path).is_some_and(|depth| depth < self.max_depth)
            && (*path == self.root || self.select(path) == Select::Keep)
    }

    /// Whether a child of a node is looked at whose children are.
    pub(crate) fn has_child(&self, path: &NodePath) -> bool {
        self.select(path) != Select::Skip
    }

    fn select(&self, path: &NodePath) -> Select {
        self.selector
            .as_ref()
            .map_or(Select::Keep, |selector| selector(path))
    }
}

/// How many components the path has more than the root, if it is the root or below it.
fn depth_below(root: &NodePath, path: &NodePath) -> Option<usize> {
    if root == path {
        return Some(0);
    }
    let below = if root.is_root() {
        path.as_str()
    } else {
        path.as_str().strip_prefix(root.as_str())?
    };
    below
        .starts_with('/')
        .then(|| below.bytes().filter(|byte| *byte == b'/').count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> NodePath {
        text.parse().unwrap()
    }

    // covers: K3
    #[test]
    fn depth_is_counted_from_the_root_of_the_cache() {
        for (root, node, depth) in [
            ("/", "/", Some(0)),
            ("/", "/a", Some(1)),
            ("/", "/a/b", Some(2)),
            ("/a", "/a", Some(0)),
            ("/a", "/a/b/c", Some(2)),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
            ("/a", "/b/a", None),
        ] {
            assert_eq!(
                depth_below(&path(root), &path(node)),
                depth,
                "{node} below {root}"
            );
        }
    }

    // covers: K3
    #[test]
    fn a_node_is_followed_if_its_depth_and_every_selector_above_it_allow_it() {
        let options = CacheOptions::default()
            .with_max_depth(2)
            .with_selector(|path| match path.name() {
                Some("skip") => Select::Skip,
                Some("alone") => Select::KeepAlone,
                _ => Select::Keep,
            });
        let scope = Scope::new(path("/r"), &options);
        for (node, has, goes_below) in [
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
            assert_eq!(scope.has(&node), has, "{node}");
            if has {
                assert_eq!(scope.goes_below(&node), goes_below, "{node}");
            }
        }
        let root_is_skipped = CacheOptions::default().with_selector(|_| Select::Skip);
        let scope = Scope::new(path("/r"), &root_is_skipped);
        assert!(scope.has(&path("/r")) && scope.goes_below(&path("/r")));
        assert!(!scope.has(&path("/r/a")) && !scope.has_child(&path("/r/a")));
    }
}
