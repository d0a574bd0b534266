//! The releases of ZooKeeper, and the first one that knows a request.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use super::{CreateMode, MultiOp, NewNode, Request};

/// A release of ZooKeeper, for example 3.4.13.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Release {
    major: u16,
    minor: u16,
    patch: u16,
}

impl Release {
    /// Returns the release with this number.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self {
            major,
            minor,
            patch,
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl Request {
    /// Returns the first release that knows the request; `None` if 3.4 does.
    ///
    /// Older servers drop the connection that it arrives on, with or without a reply.
    pub fn first_release(&self) -> Option<Release> {
        match self {
            Self::Create(node) => created_first(node),
            Self::Create2(node) => created_first(node).or(Some(CREATE2)),
            Self::Multi(ops) => ops
                .iter()
                .filter_map(|op| match op {
                    MultiOp::Create(node) => created_first(node),
                    MultiOp::Create2(node) => created_first(node).or(Some(CREATE2)),
                    MultiOp::Delete { .. } | MultiOp::SetData { .. } | MultiOp::Check { .. } => {
                        None
                    }
                })
                .max(),
            Self::Reconfig { .. } | Self::CheckWatches { .. } | Self::RemoveWatches { .. } => {
                Some(Release::new(3, 5, 0))
            }
            Self::MultiRead(_) | Self::GetEphemerals { .. } | Self::GetAllChildrenNumber { .. } => {
                Some(Release::new(3, 6, 0))
            }
            Self::AddWatch { .. } => Some(PERSISTENT_WATCHES),
            Self::SetWatches { lists, .. } => {
                lists.needs_set_watches2().then_some(PERSISTENT_WATCHES)
            }
            Self::WhoAmI => Some(Release::new(3, 7, 0)),
            Self::Delete { .. }
            | Self::Exists { .. }
            | Self::GetData { .. }
            | Self::GetConfig { .. }
            | Self::SetData { .. }
            | Self::GetAcl { .. }
            | Self::SetAcl { .. }
            | Self::GetChildren { .. }
            | Self::GetChildren2 { .. }
            | Self::Sync { .. }
            | Self::Auth(_)
            | Self::Sasl(_)
            | Self::Ping
            | Self::CloseSession => None,
        }
    }
}

/// Returns the first release that knows the kind of a node to create; `None` if 3.4 does.
const fn created_first(node: &NewNode) -> Option<Release> {
    match node.mode {
        CreateMode::Persistent
        | CreateMode::PersistentSequential
        | CreateMode::Ephemeral
        | CreateMode::EphemeralSequential => None,
        CreateMode::Container => Some(Release::new(3, 5, 1)),
        CreateMode::PersistentWithTtl(_) | CreateMode::PersistentSequentialWithTtl(_) => {
            Some(Release::new(3, 5, 3))
        }
    }
}

const CREATE2: Release = Release::new(3, 5, 0);
const PERSISTENT_WATCHES: Release = Release::new(3, 6, 0);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::acl::Acl;
    use crate::node_data::NodeData;
    use crate::path::NodePath;
    use crate::proto::WatchLists;

    fn path() -> NodePath {
        "/a".parse().unwrap()
    }

    #[test]
    fn releases_are_ordered_and_displayed_by_their_numbers() {
        assert_eq!(Release::new(3, 4, 13).to_string(), "3.4.13");
        assert!(Release::new(3, 4, 13) < Release::new(3, 5, 0));
        assert!(Release::new(3, 9, 2) < Release::new(3, 10, 0));
    }

    #[test]
    fn a_transaction_needs_what_the_newest_of_its_operations_needs() {
        let node = |mode| NewNode {
            path: path(),
            data: NodeData::default(),
            acl: Acl::open(),
            mode,
        };
        let ttl = CreateMode::PersistentWithTtl(Duration::from_secs(1));
        let first = |ops| Request::Multi(ops).first_release();
        assert_eq!(
            first(vec![MultiOp::Create(node(CreateMode::Ephemeral))]),
            None
        );
        assert_eq!(
            first(vec![
                MultiOp::Create2(node(CreateMode::Ephemeral)),
                MultiOp::Create(node(ttl)),
                MultiOp::Create(node(CreateMode::Persistent)),
            ]),
            Some(Release::new(3, 5, 3))
        );
    }

    #[test]
    fn only_lists_of_persistent_watches_need_a_newer_release() {
        let first = |lists| {
            let last_zxid_seen = 0;
            Request::SetWatches {
                last_zxid_seen,
                lists,
            }
            .first_release()
        };
        let mut lists = WatchLists {
            data: vec![path()],
            ..WatchLists::default()
        };
        assert_eq!(first(lists.clone()), None);
        lists.recursive.push(path());
        assert_eq!(first(lists), Some(Release::new(3, 6, 0)));
    }
}
