//! Decides which nodes that are not wanted can be deleted.
//!
//! Pure: no I/O and no clock.

use super::node::RelativePath;

/// A node that exists and is not wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) path: RelativePath,
    /// The transaction that created it.
    pub(crate) czxid: i64,
    /// The version of its data.
    pub(crate) version: i32,
    pub(crate) is_ephemeral: bool,
    /// How many children the server counts, those that may not be listed included; `None` if it refuses to say.
    pub(crate) children: Option<u32>,
}

/// What is done with the nodes that are not wanted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Children come before their parents.
    pub(crate) delete: Vec<Extra>,
    /// Nodes with a child that is kept, and those that may not be read.
    pub(crate) keep: Vec<RelativePath>,
}

/// Takes the nodes in the order of a walk. An ephemeral node belongs to its session and is never deleted, and neither
/// is one with a child that is not, whether that is shown here or not, nor one that was not `approved`.
pub(crate) fn plan(extras: Vec<Extra>, approved: impl Fn(&Extra) -> bool) -> Plan {
    let mut plan = Plan::default();
    // The parents of the nodes to delete that are still to come, with the number of those children.
    let mut parents: Vec<(RelativePath, u32)> = Vec::new();
    for extra in extras.into_iter().rev() {
        let deleted = parents
            .pop_if(|(parent, _)| *parent == extra.path)
            .map_or(0, |(_, children)| children);
        if extra.is_ephemeral {
            continue;
        }
        if extra.children != Some(deleted) {
            plan.keep.push(extra.path);
            continue;
        }
        if !approved(&extra) {
            continue;
        }
        if let Some(parent) = extra.path.parent() {
            match parents.last_mut() {
                Some((last, children)) if *last == parent => *children += 1,
                _ => parents.push((parent, 1)),
            }
        }
        plan.delete.push(extra);
    }
    plan.keep.reverse();
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extra(path: &str, children: u32) -> Extra {
        Extra {
            path: RelativePath::parse(path).unwrap(),
            czxid: 1,
            version: 0,
            is_ephemeral: path.ends_with("ephemeral"),
            children: (!path.ends_with("closed")).then_some(children),
        }
    }

    fn paths(plan: &Plan) -> (Vec<&str>, Vec<&str>) {
        let delete = plan.delete.iter().map(|extra| extra.path.as_str());
        let keep = plan.keep.iter().map(RelativePath::as_str);
        (delete.collect(), keep.collect())
    }

    #[test]
    fn a_node_with_a_child_that_is_kept_is_kept() {
        let walk = vec![
            extra("a", 2),
            extra("a/b", 1),
            extra("a/b/ephemeral", 0),
            extra("a/c", 0),
            extra("d", 2),
            extra("d/e", 0),
            extra("d/f", 1),
            extra("d/f/g", 0),
            // Its children may not be listed.
            extra("h", 3),
            extra("i/below-a-wanted-node", 0),
            extra("j-closed", 0),
            extra("new", 1),
            extra("new/child", 0),
        ];
        let all = plan(walk.clone(), |_| true);
        assert_eq!(
            paths(&all),
            (
                vec![
                    "new/child",
                    "new",
                    "i/below-a-wanted-node",
                    "d/f/g",
                    "d/f",
                    "d/e",
                    "d",
                    "a/c",
                ],
                vec!["a", "a/b", "h", "j-closed"],
            )
        );
        let approved = plan(walk, |extra| extra.path.as_str() != "new/child");
        assert!(approved.keep.contains(&RelativePath::parse("new").unwrap()));
        assert!(!paths(&approved).0.contains(&"new"));
    }
}
