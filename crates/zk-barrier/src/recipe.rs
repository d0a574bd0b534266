//! The protocol of ZooKeeper's recipe, which Curator and kazoo follow: members, and a node `ready`.

use zk_core::{NodePath, Stat};

use crate::decision::Opening;

pub(crate) mod enter;
pub(crate) mod leave;

/// The paths of a double barrier in the layout of the recipe.
#[derive(Debug, Clone)]
pub(crate) struct RecipeNodes {
    /// The path of the barrier. Its children are the members, and `ready`.
    pub(crate) path: NodePath,
    /// Exists while a round is open.
    pub(crate) ready: NodePath,
}

impl RecipeNodes {
    pub(crate) fn below(path: &NodePath) -> Self {
        Self {
            ready: child(path, READY),
            path: path.clone(),
        }
    }

    /// Returns the path from which those of members are made, by adding a unique id.
    fn member(&self) -> NodePath {
        child(&self.path, MEMBER)
    }

    fn member_named(&self, name: &str) -> NodePath {
        child(&self.path, name)
    }

    /// Removes `ready` from a list of the barrier's children.
    fn members(mut children: Vec<String>) -> Vec<String> {
        children.retain(|name| name != READY);
        children
    }

    fn opening(ready: &Stat) -> Opening {
        Opening {
            zxid: ready.czxid,
            opener: String::new(),
        }
    }
}

fn child(parent: &NodePath, name: &str) -> NodePath {
    parent
        .join(name)
        .expect("names of nodes of this crate, and of children that a server lists, are valid")
}

const READY: &str = "ready";
const MEMBER: &str = "member";
