//! Checks the nodes of an exported subtree: their order, their parents, their number and their checksum.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::format_error::FormatError;
use super::node::{RelativePath, SubtreeNode};
use super::node_line::{Trailer, format_node};

/// Checks nodes one after the other, and adds them up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Validator {
    last: Option<RelativePath>,
    /// The last node is ephemeral and cannot have children.
    is_last_ephemeral: bool,
    summary: RunningTotals,
}

/// The number of nodes and the checksum so far.
#[derive(Debug, Clone, Default)]
struct RunningTotals {
    nodes: u64,
    bytes: u64,
    sha256: Sha256,
}

/// What was read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) nodes: u64,
    /// The length of all data.
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Validator {
    /// Accepts the next node of a walk; `location` says where it was read.
    pub(crate) fn accept(&mut self, location: &str, node: &SubtreeNode) -> Result<(), FormatError> {
        let path = node.path.as_str().escape_debug();
        match (&self.last, node.path.parent()) {
            (None, None) => {}
            (None, Some(_)) => {
                return Err(FormatError::new(
                    location,
                    format!("\"{path}\" comes before the root of the subtree"),
                ));
            }
            (Some(last), parent) => {
                if node.path <= *last {
                    return Err(FormatError::new(
                        location,
                        format!("\"{path}\" is out of order, or is there twice"),
                    ));
                }
                // In this order the parent is the last node or one of its ancestors.
                if !parent
                    .as_ref()
                    .is_some_and(|parent| last.is_at_or_below(parent))
                {
                    return Err(FormatError::new(
                        location,
                        format!("the parent of \"{path}\" is missing"),
                    ));
                }
                if self.is_last_ephemeral && node.path.is_at_or_below(last) {
                    return Err(FormatError::new(
                        location,
                        format!("the parent of \"{path}\" is ephemeral"),
                    ));
                }
            }
        }
        self.last = Some(node.path.clone());
        self.is_last_ephemeral = node.is_ephemeral;
        self.summary.add(node);
        Ok(())
    }

    pub(crate) fn summary(&self) -> Summary {
        self.summary.clone().finish()
    }

    /// Compares what was read with what was written.
    pub(crate) fn finish(&self, trailer: &Trailer) -> Result<Summary, FormatError> {
        let summary = self.summary();
        if summary.nodes != trailer.nodes {
            return Err(FormatError::whole(format!(
                "it has {} nodes, and {} were exported: it was changed or damaged",
                summary.nodes, trailer.nodes
            )));
        }
        if summary.sha256 != trailer.sha256 {
            return Err(FormatError::whole(
                "its checksum is not that of the export: it was changed or damaged",
            ));
        }
        Ok(summary)
    }
}

impl Summary {
    pub(crate) fn trailer(&self) -> Trailer {
        Trailer {
            nodes: self.nodes,
            sha256: self.sha256.clone(),
        }
    }
}

impl RunningTotals {
    fn add(&mut self, node: &SubtreeNode) {
        self.nodes += 1;
        self.bytes += node.data.len() as u64;
        self.sha256.update(format_node(node));
        self.sha256.update(b"\n");
    }

    fn finish(self) -> Summary {
        let mut sha256 = String::new();
        for byte in self.sha256.finalize() {
            write!(sha256, "{byte:02x}").expect("a text can always be appended");
        }
        Summary {
            nodes: self.nodes,
            bytes: self.bytes,
            sha256,
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_core::{Acl, Bytes};

    use super::*;

    fn node(path: &str, is_ephemeral: bool) -> SubtreeNode {
        SubtreeNode {
            path: RelativePath::parse(path).unwrap(),
            data: Bytes::from_static(b"12"),
            acl: Acl::open(),
            is_ephemeral,
        }
    }

    fn problem(paths: &[&str]) -> Option<String> {
        let mut validator = Validator::default();
        let mut nodes = paths
            .iter()
            .map(|path| node(path.trim_end_matches('~'), path.ends_with('~')));
        nodes.find_map(|node| Some(validator.accept("", &node).err()?.to_string()))
    }

    #[test]
    fn nodes_must_follow_their_parents_in_order() {
        assert_eq!(
            problem(&["", "a", "a/b", "a/b/c", "a/c", "b~", "c", "c/d"]),
            None
        );
        for (paths, expected) in [
            (&["a"][..], "before the root"),
            (&["", ""], "twice"),
            (&["", "a", "a"], "twice"),
            (&["", "b", "a"], "out of order"),
            (&["", "a", "a/b", "a"], "out of order"),
            (&["", "a/b"], "parent of \"a/b\" is missing"),
            (&["", "a", "b/c"], "parent of \"b/c\" is missing"),
            (&["", "a~", "a/b"], "is ephemeral"),
        ] {
            let problem = problem(paths).unwrap();
            assert!(problem.contains(expected), "{paths:?}: {problem}");
        }
    }

    #[test]
    fn what_is_read_must_be_what_was_written() {
        let mut validator = Validator::default();
        for path in ["", "a"] {
            validator.accept("", &node(path, false)).unwrap();
        }
        let summary = validator.summary();
        assert_eq!((summary.nodes, summary.bytes), (2, 4));
        assert_eq!(validator.finish(&summary.trailer()).unwrap(), summary);
        let fewer = Trailer {
            nodes: 3,
            ..summary.trailer()
        };
        assert!(
            validator
                .finish(&fewer)
                .unwrap_err()
                .to_string()
                .contains("3 were exported")
        );
        let other = Trailer {
            sha256: "0".repeat(64),
            ..summary.trailer()
        };
        assert!(
            validator
                .finish(&other)
                .unwrap_err()
                .to_string()
                .contains("checksum")
        );
    }
}
