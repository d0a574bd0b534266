//! A node of a subtree, with its path relative to the subtree's root.
//!
//! Pure: no I/O and no clock.

use std::cmp::Ordering;
use std::fmt;

use zk_core::{Acl, Bytes, NodePath, ParsePathError};

/// A node, apart from any format and ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubtreeNode {
    pub(crate) path: RelativePath,
    pub(crate) data: Bytes,
    pub(crate) acl: Acl,
    /// Servers do not report whether any other node is a container or has a time to live.
    pub(crate) is_ephemeral: bool,
}

/// A path below the root of a subtree, such as `a/b`; empty for the root.
///
/// The order is that of a walk: a node comes before its children, and children are ordered by the bytes of their names.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct RelativePath(String);

impl RelativePath {
    pub(crate) const fn root() -> Self {
        Self(String::new())
    }

    /// Parses a path, which ZooKeeper must accept below `/`.
    pub(crate) fn parse(text: &str) -> Result<Self, ParsePathError> {
        if !text.is_empty() {
            NodePath::root().join(text)?;
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the path of a child that a server has listed.
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.is_root() {
            Self(name.to_owned())
        } else {
            Self(format!("{}/{name}", self.0))
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) const fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        let parent = self.0.rsplit_once('/').map_or("", |(parent, _)| parent);
        (!self.is_root()).then(|| Self(parent.to_owned()))
    }

    /// Returns whether this node is `other` or below it.
    pub(crate) fn is_at_or_below(&self, other: &Self) -> bool {
        match self.0.strip_prefix(&other.0) {
            Some(rest) => other.is_root() || rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }

    /// Returns the names on the way from the root.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|name| !name.is_empty())
    }

    /// Returns the path of the node in an ensemble where the subtree's root is `root`.
    pub(crate) fn below(&self, root: &NodePath) -> Result<NodePath, ParsePathError> {
        if self.is_root() {
            Ok(root.clone())
        } else {
            root.join(&self.0)
        }
    }
}

impl Ord for RelativePath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.names().cmp(other.names())
    }
}

impl PartialOrd for RelativePath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::parse(text).unwrap()
    }

    #[test]
    fn nodes_are_ordered_as_a_walk_visits_them() {
        let walk = ["", "a", "a/b", "a/b/c", "a/c", "a!", "a-b", "b"];
        for (at, earlier) in walk.iter().enumerate() {
            for (later_at, later) in walk.iter().enumerate() {
                assert_eq!(
                    path(earlier).cmp(&path(later)),
                    at.cmp(&later_at),
                    "{earlier:?} {later:?}"
                );
            }
        }
    }

    #[test]
    fn paths_know_their_parents_and_ancestors() {
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").parent(), Some(path("")));
        assert_eq!(path("").parent(), None);
        assert_eq!(path("").child("a").child("b"), path("a/b"));
        for (node, other, expected) in [
            ("a/b", "a", true),
            ("a/b", "", true),
            ("a", "a", true),
            ("ab", "a", false),
            ("a", "a/b", false),
            ("", "a", false),
        ] {
            assert_eq!(
                path(node).is_at_or_below(&path(other)),
                expected,
                "{node} {other}"
            );
        }
    }

    #[test]
    fn a_path_cannot_leave_the_subtree() {
        for bad in ["..", "a/..", "../b", ".", "/a", "a//b", "a/", "a\0"] {
            assert!(RelativePath::parse(bad).is_err(), "{bad:?}");
        }
        let root = NodePath::parse("/x/y").unwrap();
        assert_eq!(path("a/b").below(&root).unwrap().as_str(), "/x/y/a/b");
        assert_eq!(path("").below(&root).unwrap(), root);
    }
}
