//! Translates the paths of a session whose [`Config::chroot`](crate::Config::chroot) is not the root.
//!
//! Pure: no I/O and no clock.

use std::borrow::Cow;

use crate::path::NodePath;
use crate::proto::{
    DecodeError, MultiOp, MultiRead, MultiResult, NewNode, Reply, Request, WatchEvent, WatchLists,
};

/// Returns a request with the paths that the servers know; `None` if it is for a sequential node whose name is the number
/// alone, which a path does not express below a chroot.
pub(crate) fn outer<'a>(chroot: &NodePath, request: &'a Request) -> Option<Cow<'a, Request>> {
    if chroot.is_root() {
        return Some(Cow::Borrowed(request));
    }
    let mut request = request.clone();
    if new_nodes(&request).any(|node| node.mode.is_sequential() && node.path.is_root()) {
        return None;
    }
    for path in paths(&mut request) {
        *path = chroot.join_path(path);
    }
    if let Request::GetEphemerals { prefix } = &mut request {
        prefix.insert_str(0, chroot.as_str());
    }
    Some(Cow::Owned(request))
}

/// Returns a reply with paths relative to the chroot.
///
/// # Errors
///
/// If the server has created a node elsewhere.
pub(crate) fn inner(chroot: &NodePath, mut reply: Reply) -> Result<Reply, DecodeError> {
    let created = |path: &NodePath| {
        let what = "the path of a new node";
        path.relative_to(chroot)
            .ok_or(DecodeError::OutsideChroot { what })
    };
    match &mut reply {
        _ if chroot.is_root() => {}
        Reply::Created { path, .. } => *path = created(path)?,
        Reply::Multi(Ok(results)) => {
            for result in results {
                if let MultiResult::Created { path, .. } = result {
                    *path = created(path)?;
                }
            }
        }
        // The session has ephemeral nodes elsewhere if another client has used it without the chroot.
        Reply::Paths(paths) => {
            let inner = paths.iter().filter_map(|path| path.relative_to(chroot));
            *paths = inner.collect();
        }
        Reply::Empty
        | Reply::Stat(_)
        | Reply::Data { .. }
        | Reply::Acl { .. }
        | Reply::Children { .. }
        | Reply::Multi(Err(_))
        | Reply::MultiRead(_)
        | Reply::Count(_)
        | Reply::Identities(_)
        | Reply::Token(_) => {}
    }
    Ok(reply)
}

/// Returns an event with a path relative to the chroot.
pub(crate) fn inner_event(chroot: &NodePath, event: &WatchEvent) -> WatchEvent {
    let mut event = event.clone();
    // Only the watch of the ensemble's configuration reports another one.
    if let Some(path) = event.path.relative_to(chroot) {
        event.path = path;
    }
    event
}

fn new_nodes(request: &Request) -> impl Iterator<Item = &NewNode> {
    let (single, ops) = match request {
        Request::Create(node) | Request::Create2(node) => (Some(node), &[][..]),
        Request::Multi(ops) => (None, &ops[..]),
        _ => (None, &[][..]),
    };
    let parts = ops.iter().filter_map(|op| match op {
        MultiOp::Create(node) | MultiOp::Create2(node) => Some(node),
        MultiOp::Delete { .. } | MultiOp::SetData { .. } | MultiOp::Check { .. } => None,
    });
    single.into_iter().chain(parts)
}

/// Returns the paths in a request.
fn paths(request: &mut Request) -> Vec<&mut NodePath> {
    match request {
        Request::Create(node) | Request::Create2(node) => vec![&mut node.path],
        Request::Delete { path, .. }
        | Request::Exists { path, .. }
        | Request::GetData { path, .. }
        | Request::SetData { path, .. }
        | Request::GetAcl { path }
        | Request::SetAcl { path, .. }
        | Request::GetChildren { path, .. }
        | Request::GetChildren2 { path, .. }
        | Request::Sync { path }
        | Request::CheckWatches { path, .. }
        | Request::RemoveWatches { path, .. }
        | Request::AddWatch { path, .. }
        | Request::GetAllChildrenNumber { path } => vec![path],
        Request::Multi(ops) => ops.iter_mut().map(op_path).collect(),
        Request::MultiRead(reads) => reads.iter_mut().map(read_path).collect(),
        Request::SetWatches { lists, .. } => {
            let WatchLists {
                data,
                exist,
                child,
                persistent,
                recursive,
            } = lists;
            let lists = [data, exist, child, persistent, recursive].into_iter();
            lists.flatten().collect()
        }
        // The configuration is that of the ensemble, and a prefix is no path.
        Request::GetConfig { .. }
        | Request::GetEphemerals { .. }
        | Request::Reconfig { .. }
        | Request::WhoAmI
        | Request::Auth(_)
        | Request::Sasl(_)
        | Request::Ping
        | Request::CloseSession => Vec::new(),
    }
}

fn op_path(op: &mut MultiOp) -> &mut NodePath {
    match op {
        MultiOp::Create(node) | MultiOp::Create2(node) => &mut node.path,
        MultiOp::Delete { path, .. }
        | MultiOp::SetData { path, .. }
        | MultiOp::Check { path, .. } => path,
    }
}

fn read_path(read: &mut MultiRead) -> &mut NodePath {
    match read {
        MultiRead::GetData { path } | MultiRead::GetChildren { path } => path,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::BytesMut;

    use super::*;
    use crate::acl::Acl;
    use crate::node_data::NodeData;
    use crate::proto::{CreateMode, Xid};
    use crate::stat::Stat;

    fn path(text: &str) -> NodePath {
        text.parse().unwrap()
    }

    fn app() -> NodePath {
        path("/app")
    }

    fn node(at: &str, mode: CreateMode) -> NewNode {
        NewNode {
            path: path(at),
            data: NodeData::default(),
            acl: Acl::open(),
            mode,
        }
    }

    fn sent(chroot: &NodePath, request: &Request) -> Option<Request> {
        outer(chroot, request).map(Cow::into_owned)
    }

    /// Every request that contains paths, with this one in each place.
    fn requests(text: &str) -> Vec<Request> {
        let path = || path(text);
        let new = || node(text, CreateMode::Persistent);
        let (watch, version, recursive, kind) = (true, None, true, None);
        let (data, acl) = (NodeData::default(), Acl::open());
        vec![
            Request::Create(new()),
            Request::Create2(new()),
            Request::Delete {
                path: path(),
                version,
            },
            Request::Exists {
                path: path(),
                watch,
            },
            Request::GetData {
                path: path(),
                watch,
            },
            Request::SetData {
                path: path(),
                data: data.clone(),
                version,
            },
            Request::GetAcl { path: path() },
            Request::SetAcl {
                path: path(),
                acl,
                version,
            },
            Request::GetChildren {
                path: path(),
                watch,
            },
            Request::GetChildren2 {
                path: path(),
                watch,
            },
            Request::Sync { path: path() },
            Request::CheckWatches { path: path(), kind },
            Request::RemoveWatches { path: path(), kind },
            Request::AddWatch {
                path: path(),
                recursive,
            },
            Request::GetAllChildrenNumber { path: path() },
            Request::GetEphemerals {
                prefix: text.to_owned(),
            },
            Request::Multi(vec![
                MultiOp::Create(new()),
                MultiOp::Create2(new()),
                MultiOp::Delete {
                    path: path(),
                    version,
                },
                MultiOp::SetData {
                    path: path(),
                    data,
                    version,
                },
                MultiOp::Check {
                    path: path(),
                    version,
                },
            ]),
            Request::MultiRead(vec![
                MultiRead::GetData { path: path() },
                MultiRead::GetChildren { path: path() },
            ]),
            Request::SetWatches {
                last_zxid_seen: 0,
                lists: WatchLists {
                    data: vec![path()],
                    exist: vec![path()],
                    child: vec![path()],
                    persistent: vec![path()],
                    recursive: vec![path()],
                },
            },
        ]
    }

    #[test]
    fn every_path_of_every_request_is_prefixed() {
        for (inner, outside) in requests("/a/b").iter().zip(requests("/app/a/b")) {
            assert_eq!(sent(&app(), inner).as_ref(), Some(&outside));
            assert_eq!(sent(&NodePath::root(), inner).as_ref(), Some(inner));
            // The table above has a path wherever the encoding has one.
            let mut bytes = BytesMut::new();
            outside.encode(Xid::FIRST, &mut bytes);
            let count = |wanted: &[u8]| {
                bytes
                    .windows(wanted.len())
                    .filter(|part| *part == wanted)
                    .count()
            };
            assert_eq!(count(b"/app/a/b"), count(b"/a/b"), "{outside:?}");
        }
    }

    #[test]
    fn the_configuration_of_the_ensemble_is_not_below_the_chroot() {
        let request = Request::GetConfig { watch: true };
        assert_eq!(sent(&app(), &request), Some(request));
        let event = event("/zookeeper/config");
        assert_eq!(inner_event(&app(), &event), event);
    }

    #[test]
    fn a_prefix_without_a_slash_finds_nothing_outside_of_the_chroot() {
        let ephemerals = |prefix: &str| Request::GetEphemerals {
            prefix: prefix.to_owned(),
        };
        for (prefix, expected) in [("le", "/apple"), ("", "/app"), ("/", "/app/")] {
            let sent = sent(&app(), &ephemerals(prefix));
            assert_eq!(sent, Some(ephemerals(expected)), "{prefix:?}");
        }
        let found = Reply::Paths(vec![path("/apple"), path("/apple/e")]);
        assert_eq!(inner(&app(), found), Ok(Reply::Paths(vec![])));
    }

    #[test]
    fn the_root_is_the_chroot_itself() {
        let sync = |at: &str| Request::Sync { path: path(at) };
        assert_eq!(sent(&app(), &sync("/")), Some(sync("/app")));
        let create = |at| Request::Create(node(at, CreateMode::Ephemeral));
        assert_eq!(sent(&app(), &create("/")), Some(create("/app")));
    }

    #[test]
    fn a_sequential_node_below_a_chroot_has_the_beginning_of_a_name() {
        for mode in [
            CreateMode::PersistentSequential,
            CreateMode::EphemeralSequential,
            CreateMode::PersistentSequentialWithTtl(Duration::from_secs(1)),
        ] {
            let creates = |at: &str| {
                let check = MultiOp::Check {
                    path: path(at),
                    version: None,
                };
                [
                    Request::Create(node(at, mode)),
                    Request::Create2(node(at, mode)),
                    Request::Multi(vec![check.clone(), MultiOp::Create(node(at, mode))]),
                    Request::Multi(vec![check, MultiOp::Create2(node(at, mode))]),
                ]
            };
            // The server would add its number to the name of the chroot.
            for request in creates("/") {
                assert_eq!(sent(&app(), &request), None, "{request:?}");
                assert_eq!(sent(&NodePath::root(), &request), Some(request));
            }
            for (request, expected) in creates("/n-").iter().zip(creates("/app/n-")) {
                assert_eq!(sent(&app(), request), Some(expected));
            }
        }
    }

    #[test]
    fn paths_in_replies_are_relative_to_the_chroot() {
        let created = |at: &str| Reply::Created {
            path: path(at),
            stat: Some(Stat::default()),
        };
        assert_eq!(inner(&app(), created("/app/a")), Ok(created("/a")));
        assert_eq!(inner(&app(), created("/app")), Ok(created("/")));
        for outside in ["/apple", "/", "/other/app"] {
            let what = "the path of a new node";
            assert_eq!(
                inner(&app(), created(outside)),
                Err(DecodeError::OutsideChroot { what })
            );
            assert_eq!(
                inner(&NodePath::root(), created(outside)),
                Ok(created(outside))
            );
        }
        let multi = |at: &str| {
            Reply::Multi(Ok(vec![
                MultiResult::Deleted,
                MultiResult::Created {
                    path: path(at),
                    stat: None,
                },
            ]))
        };
        assert_eq!(inner(&app(), multi("/app/a")), Ok(multi("/a")));
        assert!(inner(&app(), multi("/apple")).is_err());
        let paths = |paths: &[&str]| Reply::Paths(paths.iter().copied().map(path).collect());
        let ephemerals = inner(&app(), paths(&["/app/a/e", "/apple", "/b"]));
        assert_eq!(ephemerals, Ok(paths(&["/a/e"])));
    }

    #[test]
    fn events_are_relative_to_the_chroot() {
        assert_eq!(inner_event(&app(), &event("/app/a")), event("/a"));
        assert_eq!(inner_event(&app(), &event("/app")), event("/"));
        let root = NodePath::root();
        assert_eq!(inner_event(&root, &event("/app")), event("/app"));
    }

    fn event(at: &str) -> WatchEvent {
        WatchEvent {
            path: path(at),
            kind: None,
            zxid: None,
        }
    }
}
