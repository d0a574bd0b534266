//! Recognises by the names of a node's children which recipe uses it.
//!
//! Pure: no I/O and no clock.

use serde::{Deserialize, Serialize};
use zk_core::Sequence;

/// What kind of recipe uses a node, by the names of its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecipeKind {
    Lock,
    Leader,
    Queue,
    /// A queue whose items and claims are below two of the children.
    WorkQueue,
    /// The node has no children.
    Empty,
    /// There is no node.
    NoNode,
    /// None that is known.
    Unknown,
}

/// The names of the children of a work queue that hold its items and its claims. That of the claims may not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkQueueParts {
    pub(crate) items: &'static str,
    pub(crate) claims: &'static str,
}

/// Recognises the recipe. A node with children of several recipes is one of the recipe with the most children.
pub(crate) fn recipe_kind(children: &[String]) -> RecipeKind {
    if children.is_empty() {
        return RecipeKind::Empty;
    }
    if work_queue_parts(children).is_some() {
        return RecipeKind::WorkQueue;
    }
    let count = |kind| {
        let kinds = children.iter().map(|name| kind_of(name));
        kinds.filter(|found| *found == Some(kind)).count()
    };
    let kinds = [RecipeKind::Queue, RecipeKind::Leader, RecipeKind::Lock];
    let counted = kinds.map(|kind| (count(kind), kind));
    let most = counted.into_iter().max_by_key(|(count, _)| *count);
    most.filter(|(count, _)| *count > 0)
        .map_or(RecipeKind::Unknown, |(_, kind)| kind)
}

/// Returns the parts of a work queue, if the node is one: of these libraries or of kazoo.
pub(crate) fn work_queue_parts(children: &[String]) -> Option<WorkQueueParts> {
    let has = |name: &str| children.iter().any(|child| child == name);
    if has("items") && (has("receipts") || has("claims")) {
        Some(WorkQueueParts {
            items: "items",
            claims: "claims",
        })
    } else if has("entries") && has("taken") {
        Some(WorkQueueParts {
            items: "entries",
            claims: "taken",
        })
    } else {
        None
    }
}

/// Returns the kind of recipe whose nodes have such names: a lock, a leader or a queue.
pub(crate) fn kind_of(name: &str) -> Option<RecipeKind> {
    let (stem, _) = Sequence::split(name)?;
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| stem.starts_with(prefix));
    let ends = |markers: &[&str]| markers.iter().any(|marker| stem.ends_with(marker));
    if ends(&["latch-"]) {
        Some(RecipeKind::Leader)
    } else if ends(&[
        "lock-",
        "lease-",
        "__lock__",
        "__rlock__",
        "__WRIT__",
        "__READ__",
    ]) {
        Some(RecipeKind::Lock)
    } else if starts(&["x-", "read-", "write-"]) {
        // Those of ZooKeeper's recipe and of HBase.
        Some(RecipeKind::Lock)
    } else if starts(&["qn-", "queue-", "entry-", "w-"]) {
        Some(RecipeKind::Queue)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipes_are_recognised_by_the_names_of_children() {
        for (children, expected) in [
            (&[][..], RecipeKind::Empty),
            (&["_c_b-lock-0000000009", "note"], RecipeKind::Lock),
            (&["a__READ__0000000002"], RecipeKind::Lock),
            (&["f__lock__0000000001"], RecipeKind::Lock),
            (&["_c_a-lease-0000000003"], RecipeKind::Lock),
            (&["x-72075-0000000002"], RecipeKind::Lock),
            (&["read-1-0000000001"], RecipeKind::Lock),
            (&["_c_a-latch-0000000011"], RecipeKind::Leader),
            (&["qn-0000000002"], RecipeKind::Queue),
            (&["entry-100-0000000001"], RecipeKind::Queue),
            (&["queue-0000000001"], RecipeKind::Queue),
            (
                &["qn-0000000002", "qn-0000000001", "a-lock-0000000001"],
                RecipeKind::Queue,
            ),
            (&["claims", "dead", "items"], RecipeKind::WorkQueue),
            (&["items", "receipts"], RecipeKind::WorkQueue),
            (&["entries", "taken"], RecipeKind::WorkQueue),
            (&["items", "taken"], RecipeKind::Unknown),
            (&["entries"], RecipeKind::Unknown),
            (&["lock-", "queue-1"], RecipeKind::Unknown),
            (&["item-0000000001", "lock"], RecipeKind::Unknown),
        ] {
            let names: Vec<_> = children.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(recipe_kind(&names), expected, "{children:?}");
        }
    }
}
