//! Where the nodes of a queue are.
//!
//! Pure: no I/O and no clock.

use zk_core::NodePath;

/// The paths of one queue.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The node that has the items for children, but for those in segments.
    pub(crate) items: NodePath,
    /// The node whose data tells to which segment offers go, and whose children are the receipts.
    pub(crate) desk: NodePath,
}

impl Place {
    /// Beside the items, because every child of a queue is an item to other clients; `None` for the root.
    pub(crate) fn beside(path: &NodePath) -> Option<Self> {
        let name = path.name()?;
        Some(Self {
            items: path.clone(),
            desk: below(&path.parent()?, &format!("{name}-receipts")),
        })
    }

    /// Below a node that has other children, too.
    pub(crate) fn below(path: &NodePath) -> Self {
        Self {
            items: below(path, "items"),
            desk: below(path, "receipts"),
        }
    }

    pub(crate) fn receipt(&self) -> NodePath {
        below(&self.desk, "receipt")
    }

    pub(crate) fn segments(&self) -> NodePath {
        below(&self.desk, "segments")
    }

    /// The node that has the items of a segment for children.
    pub(crate) fn segment(&self, number: u32) -> NodePath {
        match number {
            0 => self.items.clone(),
            number => below(&self.segments(), &format!("{number:010}")),
        }
    }

    pub(crate) fn item(&self, segment: u32, name: &str) -> NodePath {
        below(&self.segment(segment), name)
    }
}

/// A child whose name a server gave, or has none of the characters that names may not have.
pub(crate) fn below(path: &NodePath, name: &str) -> NodePath {
    path.join(name).expect("the name is one of a node")
}

/// The number of a segment, from the data of the desk or the name of its node; `None` for another text.
pub(crate) fn segment_of(text: &str) -> Option<u32> {
    let is_number = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number
        .then(|| text.parse().ok())?
        .filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_keeps_its_own_nodes_out_of_the_node_of_its_items() {
        let path = NodePath::parse("/q/jobs").unwrap();
        let place = Place::beside(&path).unwrap();
        assert_eq!(place.segment(0), path);
        assert_eq!(place.receipt().as_str(), "/q/jobs-receipts/receipt");
        assert_eq!(
            place.item(7, "qn-0000000001").as_str(),
            "/q/jobs-receipts/segments/0000000007/qn-0000000001"
        );
        let top = Place::beside(&NodePath::parse("/jobs").unwrap()).unwrap();
        assert_eq!(top.desk.as_str(), "/jobs-receipts");
        assert!(Place::beside(&NodePath::root()).is_none());
    }

    #[test]
    fn the_number_of_a_segment_has_ten_digits() {
        assert_eq!(segment_of("0000000007"), Some(7));
        for text in [
            "",
            "7",
            "0000000000",
            "+000000007",
            "9999999999",
            "00000000007",
        ] {
            assert_eq!(segment_of(text), None, "{text}");
        }
    }
}
