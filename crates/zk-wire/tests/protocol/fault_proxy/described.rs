//! Our requests in the words of the fault proxy's codec.

use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{self, Create, Part, RequestBody, Secret};
use zk_wire::proto::WatchLists;
use zk_wire::{
    Acl, AclEntry, CreateMode, Credentials, MultiOp, MultiRead, NewNode, NodeData, NodePath,
    Permissions, Request, SaslToken, WatchKind,
};

/// Returns the operation and the fields that a request has on the wire, by ZooKeeper's `zookeeper.jute`.
pub(super) fn described(request: &Request) -> (Op, RequestBody) {
    match request.clone() {
        Request::Create(node) => create(Op::Create, &node),
        Request::Create2(node) => create(Op::Create2, &node),
        Request::Delete { path, version } => {
            let version = version.unwrap_or(-1);
            let path = path.to_string();
            (Op::Delete, RequestBody::Delete { path, version })
        }
        Request::Exists { path, watch } => {
            let path = path.to_string();
            (Op::Exists, RequestBody::Exists { path, watch })
        }
        Request::GetData { path, watch } => {
            let path = path.to_string();
            (Op::GetData, RequestBody::GetData { path, watch })
        }
        Request::GetConfig { watch } => {
            let path = "/zookeeper/config".to_owned();
            (Op::GetData, RequestBody::GetData { path, watch })
        }
        Request::SetData {
            path,
            data,
            version,
        } => set_data(&path, &data, version),
        Request::GetAcl { path } => {
            let path = path.to_string();
            (Op::GetAcl, RequestBody::GetAcl { path })
        }
        Request::SetAcl { path, acl, version } => {
            let (acl, version) = (theirs(&acl), version.unwrap_or(-1));
            let path = path.to_string();
            (Op::SetAcl, RequestBody::SetAcl { path, acl, version })
        }
        Request::GetChildren { path, watch } => {
            let path = path.to_string();
            (Op::GetChildren, RequestBody::GetChildren { path, watch })
        }
        Request::GetChildren2 { path, watch } => {
            let path = path.to_string();
            (Op::GetChildren2, RequestBody::GetChildren { path, watch })
        }
        Request::Sync { path } => {
            let path = path.to_string();
            (Op::Sync, RequestBody::Sync { path })
        }
        Request::Multi(ops) => {
            let parts = ops.into_iter().map(described_part);
            (Op::Multi, RequestBody::Multi(parts.collect()))
        }
        Request::MultiRead(reads) => {
            let parts = reads.into_iter().map(described_read);
            (Op::MultiRead, RequestBody::MultiRead(parts.collect()))
        }
        Request::Reconfig {
            joining,
            leaving,
            new_members,
            version,
        } => {
            let body = RequestBody::Reconfig {
                joining: joining.unwrap_or_default(),
                leaving: leaving.unwrap_or_default(),
                members: new_members.unwrap_or_default(),
                version: version.unwrap_or(-1),
            };
            (Op::Reconfig, body)
        }
        Request::CheckWatches { path, kind } => {
            let kind = watcher_type(kind);
            let path = path.to_string();
            (Op::CheckWatches, RequestBody::Watches { path, kind })
        }
        Request::RemoveWatches { path, kind } => {
            let kind = watcher_type(kind);
            let path = path.to_string();
            (Op::RemoveWatches, RequestBody::Watches { path, kind })
        }
        Request::AddWatch { path, recursive } => {
            let mode = i32::from(recursive);
            let path = path.to_string();
            (Op::AddWatch, RequestBody::AddWatch { path, mode })
        }
        Request::GetEphemerals { prefix } => {
            (Op::GetEphemerals, RequestBody::GetEphemerals { prefix })
        }
        Request::GetAllChildrenNumber { path } => {
            let path = path.to_string();
            let body = RequestBody::GetAllChildrenNumber { path };
            (Op::GetAllChildrenNumber, body)
        }
        Request::WhoAmI => (Op::WhoAmI, RequestBody::WhoAmI),
        Request::Auth(Credentials { scheme, data }) => {
            let body = RequestBody::Auth {
                kind: 0,
                scheme,
                credentials: Secret(data.to_vec()),
            };
            (Op::Auth, body)
        }
        Request::Sasl(SaslToken(token)) => {
            let token = Secret(token.to_vec());
            (Op::Sasl, RequestBody::Sasl { token })
        }
        Request::SetWatches {
            last_zxid_seen,
            lists,
        } => set_watches(last_zxid_seen, &lists),
        Request::Ping => (Op::Ping, RequestBody::Ping),
        Request::CloseSession => (Op::CloseSession, RequestBody::CloseSession),
        other => panic!("{other:?} is a new request: describe it here, and draw it in `drawn.rs`"),
    }
}

fn create(plain: Op, node: &NewNode) -> (Op, RequestBody) {
    let (flags, ttl) = match node.mode {
        CreateMode::Persistent => (0, None),
        CreateMode::Ephemeral => (1, None),
        CreateMode::PersistentSequential => (2, None),
        CreateMode::EphemeralSequential => (3, None),
        CreateMode::Container => (4, None),
        CreateMode::PersistentWithTtl(ttl) => (5, Some(ttl)),
        CreateMode::PersistentSequentialWithTtl(ttl) => (6, Some(ttl)),
    };
    let op = match flags {
        0..=3 => plain,
        4 => Op::CreateContainer,
        _ => Op::CreateTtl,
    };
    let body = Create {
        path: node.path.to_string(),
        data: node.data.as_slice().to_vec(),
        acl: theirs(&node.acl),
        flags,
        ttl: ttl.map(|ttl| i64::try_from(ttl.as_millis()).expect("it was drawn small")),
    };
    (op, RequestBody::Create(body))
}

fn set_data(path: &NodePath, data: &NodeData, version: Option<i32>) -> (Op, RequestBody) {
    let body = RequestBody::SetData {
        path: path.to_string(),
        data: data.as_slice().to_vec(),
        version: version.unwrap_or(-1),
    };
    (Op::SetData, body)
}

fn set_watches(relative_zxid: i64, lists: &WatchLists) -> (Op, RequestBody) {
    // Servers before 3.6 know the shorter one only.
    let is_short = lists.persistent.is_empty() && lists.recursive.is_empty();
    let op = if is_short {
        Op::SetWatches
    } else {
        Op::SetWatches2
    };
    let body = codec::WatchLists {
        relative_zxid,
        data: texts_of(&lists.data),
        exist: texts_of(&lists.exist),
        child: texts_of(&lists.child),
        persistent: (!is_short).then(|| texts_of(&lists.persistent)),
        recursive: (!is_short).then(|| texts_of(&lists.recursive)),
    };
    (op, RequestBody::SetWatches(body))
}

fn described_part(op: MultiOp) -> Part {
    let (op, body) = match op {
        MultiOp::Create(node) => create(Op::Create, &node),
        MultiOp::Create2(node) => create(Op::Create2, &node),
        MultiOp::Delete { path, version } => {
            let version = version.unwrap_or(-1);
            let path = path.to_string();
            (Op::Delete, RequestBody::Delete { path, version })
        }
        MultiOp::SetData {
            path,
            data,
            version,
        } => set_data(&path, &data, version),
        MultiOp::Check { path, version } => {
            let version = version.unwrap_or(-1);
            let path = path.to_string();
            (Op::Check, RequestBody::Check { path, version })
        }
    };
    Part { op, body }
}

fn described_read(read: MultiRead) -> Part {
    let watch = false;
    let (op, body) = match read {
        MultiRead::GetData { path } => {
            let path = path.to_string();
            (Op::GetData, RequestBody::GetData { path, watch })
        }
        MultiRead::GetChildren { path } => {
            let path = path.to_string();
            (Op::GetChildren, RequestBody::GetChildren { path, watch })
        }
    };
    Part { op, body }
}

fn watcher_type(kind: Option<WatchKind>) -> i32 {
    match kind {
        Some(WatchKind::Child) => 1,
        Some(WatchKind::Data | WatchKind::Exist) => 2,
        None => 3,
        Some(WatchKind::Persistent) => 4,
        Some(WatchKind::PersistentRecursive) => 5,
    }
}

pub(super) fn texts_of(paths: &[NodePath]) -> Vec<String> {
    paths.iter().map(NodePath::to_string).collect()
}

fn theirs(acl: &Acl) -> Vec<codec::AclEntry> {
    let entry = |entry: &AclEntry| codec::AclEntry {
        permissions: number_of(entry.permissions()),
        scheme: entry.scheme().to_owned(),
        id: entry.id().to_owned(),
    };
    acl.entries().iter().map(entry).collect()
}

/// Returns the number of a set of permissions, by ZooKeeper's `ZooDefs.Perms`.
fn number_of(permissions: Permissions) -> i32 {
    let held = PERMISSIONS
        .iter()
        .filter(|(_, one)| permissions.contains(*one));
    held.map(|(number, _)| number).sum()
}

/// Returns the permissions in a number; it may have other bits.
pub(super) fn permissions(number: i32) -> Permissions {
    let held = PERMISSIONS.iter().filter(|(bit, _)| number & bit != 0);
    held.fold(Permissions::NONE, |held, (_, one)| held | *one)
}

const PERMISSIONS: [(i32, Permissions); 5] = [
    (1, Permissions::READ),
    (2, Permissions::WRITE),
    (4, Permissions::CREATE),
    (8, Permissions::DELETE),
    (16, Permissions::ADMIN),
];
