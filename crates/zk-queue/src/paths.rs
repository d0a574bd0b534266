//! Derives the paths of a queue's nodes.
//!
//! Pure: no I/O and no clock.

use zk_core::{IntoNodePath, NodePath};

use crate::error::PathError;

/// The paths of one queue.
#[derive(Debug, Clone)]
pub(crate) struct QueuePaths {
    /// The *items node*: the parent of all items that are in no segment.
    pub(crate) items: NodePath,
    /// The *control node*: its data names the active segment, its children are the idempotency tokens.
    pub(crate) control_node: NodePath,
    /// Whether another client claims items here, too. The parents of items and claims are persistent then, because that
    /// client creates them only once.
    pub(crate) is_shared: bool,
}

impl QueuePaths {
    /// A control node beside the items node, because other clients take every child of a queue for an item.
    pub(crate) fn beside(path: &NodePath) -> Self {
        Self {
            items: path.clone(),
            control_node: beside(path, "receipts"),
            is_shared: false,
        }
    }

    /// Both nodes below `path`, which has further children; the items node has this name.
    pub(crate) fn below(path: &NodePath, items: &str) -> Self {
        Self {
            items: child(path, items),
            control_node: child(path, "receipts"),
            is_shared: false,
        }
    }

    /// The same paths of a queue whose items another client claims, too.
    pub(crate) fn shared(self) -> Self {
        Self {
            is_shared: true,
            ..self
        }
    }

    /// The path of a token, without its unique id.
    pub(crate) fn token(&self) -> NodePath {
        child(&self.control_node, "receipt")
    }

    pub(crate) fn segments(&self) -> NodePath {
        child(&self.control_node, "segments")
    }

    /// The parent of a segment's items; segment 0 is the items node.
    pub(crate) fn segment(&self, number: u32) -> NodePath {
        match number {
            0 => self.items.clone(),
            number => child(&self.segments(), &segment_name(number)),
        }
    }

    pub(crate) fn item(&self, segment: u32, name: &str) -> NodePath {
        child(&self.segment(segment), name)
    }
}

/// Parses the path of a queue, which cannot be the root.
pub(crate) fn parse_queue_path(path: impl IntoNodePath) -> Result<NodePath, PathError> {
    let path = path.into_node_path().map_err(PathError::Parse)?;
    if path.is_root() {
        return Err(PathError::Root);
    }
    Ok(path)
}

/// Returns the path of a child; its name comes from a server or consists of valid characters.
pub(crate) fn child(path: &NodePath, name: &str) -> NodePath {
    path.join(name).expect("the name is valid")
}

/// Returns the path of a node beside that of a queue.
pub(crate) fn beside(path: &NodePath, suffix: &str) -> NodePath {
    let (parent, name) = path
        .parent()
        .zip(path.name())
        .expect("the path of a queue is not the root");
    child(&parent, &format!("{name}-{suffix}"))
}

/// Formats the number of a segment, for the data of the control node and for the segment's name.
pub(crate) fn segment_name(number: u32) -> String {
    format!("{number:010}")
}

/// Returns the numbers of the segments with these names, in their order.
pub(crate) fn segment_numbers(names: &[String]) -> Vec<u32> {
    let numbers = names.iter().filter_map(|name| parse_segment(name));
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Parses the number of a segment, in the data of the control node or in a node's name.
pub(crate) fn parse_segment(text: &str) -> Option<u32> {
    let is_number = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| text.parse().ok())?
        .filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_nodes_are_not_among_the_items() {
        let path = NodePath::parse("/q/jobs").unwrap();
        let paths = QueuePaths::beside(&path);
        assert_eq!(paths.segment(0), path);
        assert_eq!(paths.token().as_str(), "/q/jobs-receipts/receipt");
        assert_eq!(
            paths.item(7, "qn-0000000001").as_str(),
            "/q/jobs-receipts/segments/0000000007/qn-0000000001"
        );
        let top = QueuePaths::beside(&NodePath::parse("/jobs").unwrap());
        assert_eq!(top.control_node.as_str(), "/jobs-receipts");
        assert_eq!(parse_queue_path("/"), Err(PathError::Root));
    }

    #[test]
    fn a_segment_number_has_ten_digits() {
        assert_eq!(parse_segment("0000000007"), Some(7));
        for text in [
            "",
            "7",
            "0000000000",
            "+000000007",
            "9999999999",
            "00000000007",
        ] {
            assert_eq!(parse_segment(text), None, "{text}");
        }
    }
}
