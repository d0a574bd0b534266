//! The requests of each step that `tests/java/Operations.java` and `NewerOperations.java` perform.

use std::time::Duration;

use bytes::Bytes;
use zk_wire::proto::WatchLists;
use zk_wire::{
    Acl, AclEntry, CreateMode, Credentials, MultiOp, MultiRead, NewNode, NodePath, Permissions,
    Request, WatchKind,
};

/// Returns the requests of a step, in their order, without handshakes.
pub(crate) fn requests(step: &str) -> Vec<Request> {
    let hour = Duration::from_hours(1);
    match step {
        "connect"
        | "connect again"
        | "connect for persistent watches"
        | "connect as admin"
        | "connect, read-only if need be" => vec![],
        "auth" | "auth again" => vec![auth()],
        "ping" => vec![Request::Ping],
        "close" | "close with watches" | "close with all watches" | "close as admin" => {
            vec![Request::CloseSession]
        }

        // Creates.
        "create persistent" | "create existing" => create("/golden", CreateMode::Persistent),
        "create persistent sequential" => create("/golden/n-", CreateMode::PersistentSequential),
        "create ephemeral" => create("/golden/e", CreateMode::Ephemeral),
        "create ephemeral sequential" => create("/golden/n-", CreateMode::EphemeralSequential),
        "create watched" => create("/golden/none", CreateMode::Persistent),
        "create container" => create("/newer/container", CreateMode::Container),
        "create with access rules" => vec![Request::Create(NewNode {
            acl: Acl::new([
                AclEntry::new(Permissions::READ | Permissions::WRITE, "world", "anyone"),
                AclEntry::new(Permissions::ALL, "auth", ""),
            ]),
            ..node("/golden/rules", "", CreateMode::Persistent)
        })],
        "create parent" => vec![Request::Create(node("/newer", "", CreateMode::Persistent))],
        "create2 persistent" => create2("/newer/p", CreateMode::Persistent),
        "create2 persistent sequential" => create2("/newer/n-", CreateMode::PersistentSequential),
        "create2 ephemeral" => create2("/newer/e", CreateMode::Ephemeral),
        "create2 ephemeral sequential" => create2("/newer/n-", CreateMode::EphemeralSequential),
        "create2 container" => create2("/newer/container2", CreateMode::Container),
        "create with time to live" => create2("/newer/ttl", CreateMode::PersistentWithTtl(hour)),
        "create sequential with time to live" => {
            create2("/newer/n-", CreateMode::PersistentSequentialWithTtl(hour))
        }

        // Reads.
        "exists" => exists("/golden", false),
        "exists with watch" => exists("/golden/none", true),
        "get data" => get_data("/golden", false),
        "get data with watch" => get_data("/golden", true),
        "get access rules" => vec![Request::GetAcl {
            path: path("/golden/rules"),
        }],
        "get children" => get_children("/golden", false),
        "get children with watch" => get_children("/golden/none", true),
        "get children and stat" => get_children2("/golden", false),
        "get children and stat with watch" => get_children2("/golden", true),
        "get config" => vec![Request::GetConfig { watch: false }],
        "get ephemeral nodes" => get_ephemerals("/"),
        "get ephemeral nodes below" => get_ephemerals("/newer"),
        "count all children" => vec![Request::GetAllChildrenNumber {
            path: path("/newer"),
        }],
        "who am I" => vec![Request::WhoAmI],
        "sync" => vec![Request::Sync {
            path: path("/golden"),
        }],

        // Writes.
        "set data watched" => vec![set_data(b"two", None)],
        "set data of a version" => vec![set_data(&[0, 0xff], Some(1))],
        "set data of another version" => vec![set_data(b"x", Some(7))],
        "set access rules" => set_acl(None),
        "set access rules of a version" => set_acl(Some(1)),
        "delete with children" => delete("/golden", None),
        "delete of a version" => delete("/golden/none", Some(0)),
        "delete" => delete("/golden/rules", None),
        "reconfigure by difference" => vec![Request::Reconfig {
            joining: Some(MEMBER.to_owned()),
            leaving: Some("8,9".to_owned()),
            new_members: None,
            version: None,
        }],
        "reconfigure by members" => vec![Request::Reconfig {
            joining: None,
            leaving: None,
            new_members: Some(MEMBER.to_owned()),
            version: Some(0x1_0000_0002),
        }],

        // Transactions.
        "multi" => vec![Request::Multi(vec![
            check("/golden", 2),
            MultiOp::Create(node("/golden/m", "data", CreateMode::Persistent)),
            MultiOp::Create(node("/golden/n-", "", CreateMode::EphemeralSequential)),
            MultiOp::SetData {
                path: path("/golden/m"),
                data: Bytes::from_static(b"two").into(),
                version: Some(0),
            },
            delete_in_multi("/golden/m"),
        ])],
        "multi refused" => vec![Request::Multi(vec![
            MultiOp::Create(node("/golden/m", "data", CreateMode::Persistent)),
            check("/golden", 7),
            delete_in_multi("/golden/m"),
        ])],
        "multi of nothing" => vec![Request::Multi(vec![])],
        "multi of newer kinds" => vec![Request::Multi(vec![
            MultiOp::Create(node("/newer/container3", "data", CreateMode::Container)),
            MultiOp::Create(node(
                "/newer/ttl3",
                "data",
                CreateMode::PersistentWithTtl(hour),
            )),
        ])],
        "multi read" => vec![Request::MultiRead(vec![
            MultiRead::GetData {
                path: path("/golden"),
            },
            MultiRead::GetChildren {
                path: path("/newer/p"),
            },
            MultiRead::GetData {
                path: path("/none"),
            },
        ])],

        // Watches.
        "watches" => watches(),
        "all watches" => [
            watches(),
            add_watch("/golden/p", false),
            add_watch("/golden/r", true),
        ]
        .concat(),
        "reconnect" => [
            vec![auth(), set_watches([None, None])],
            exists("/golden", false),
        ]
        .concat(),
        "reconnect with all watches" => [
            vec![set_watches([Some("/golden/p"), Some("/golden/r")])],
            exists("/golden", false),
        ]
        .concat(),
        "check watches Children" => {
            [children_watch(), check_watches(Some(WatchKind::Child))].concat()
        }
        "check watches Data" => [data_watch(), check_watches(Some(WatchKind::Data))].concat(),
        "check watches Any" => [data_watch(), check_watches(None)].concat(),
        "check watches Persistent" => [
            add_watch("/newer", false),
            check_watches(Some(WatchKind::Persistent)),
        ]
        .concat(),
        "check watches PersistentRecursive" => {
            let check = check_watches(Some(WatchKind::PersistentRecursive));
            [add_watch("/newer", true), check].concat()
        }
        "remove watches Children" => {
            [children_watch(), remove_watches(Some(WatchKind::Child))].concat()
        }
        "remove watches Data" => [data_watch(), remove_watches(Some(WatchKind::Data))].concat(),
        "remove watches Any" => [data_watch(), remove_watches(None)].concat(),
        "remove watches Persistent" => [
            add_watch("/newer", false),
            remove_watches(Some(WatchKind::Persistent)),
        ]
        .concat(),
        "remove watches PersistentRecursive" => {
            let remove = remove_watches(Some(WatchKind::PersistentRecursive));
            [add_watch("/newer", true), remove].concat()
        }
        "remove watches that are not set" => remove_watches(Some(WatchKind::Data)),
        _ => panic!("the requests of the step {step} are not known"),
    }
}

fn path(text: &str) -> NodePath {
    text.parse().expect("it is a path")
}

fn node(at: &str, data: &'static str, mode: CreateMode) -> NewNode {
    NewNode {
        path: path(at),
        data: Bytes::from_static(data.as_bytes()).into(),
        acl: Acl::open(),
        mode,
    }
}

fn create(path: &str, mode: CreateMode) -> Vec<Request> {
    vec![Request::Create(node(path, "data", mode))]
}

fn create2(path: &str, mode: CreateMode) -> Vec<Request> {
    vec![Request::Create2(node(path, "data", mode))]
}

fn auth() -> Request {
    Request::Auth(Credentials {
        scheme: "digest".to_owned(),
        data: Bytes::from_static(b"user:secret"),
    })
}

fn exists(at: &str, watch: bool) -> Vec<Request> {
    vec![Request::Exists {
        path: path(at),
        watch,
    }]
}

fn get_data(at: &str, watch: bool) -> Vec<Request> {
    vec![Request::GetData {
        path: path(at),
        watch,
    }]
}

fn get_children(at: &str, watch: bool) -> Vec<Request> {
    vec![Request::GetChildren {
        path: path(at),
        watch,
    }]
}

fn get_children2(at: &str, watch: bool) -> Vec<Request> {
    vec![Request::GetChildren2 {
        path: path(at),
        watch,
    }]
}

fn get_ephemerals(prefix: &str) -> Vec<Request> {
    vec![Request::GetEphemerals {
        prefix: prefix.to_owned(),
    }]
}

fn set_data(data: &'static [u8], version: Option<i32>) -> Request {
    Request::SetData {
        path: path("/golden"),
        data: Bytes::from_static(data).into(),
        version,
    }
}

fn set_acl(version: Option<i32>) -> Vec<Request> {
    vec![Request::SetAcl {
        path: path("/golden/rules"),
        acl: Acl::open(),
        version,
    }]
}

fn delete(at: &str, version: Option<i32>) -> Vec<Request> {
    vec![Request::Delete {
        path: path(at),
        version,
    }]
}

fn delete_in_multi(at: &str) -> MultiOp {
    let version = None;
    MultiOp::Delete {
        path: path(at),
        version,
    }
}

fn check(at: &str, version: i32) -> MultiOp {
    MultiOp::Check {
        path: path(at),
        version: Some(version),
    }
}

fn add_watch(at: &str, recursive: bool) -> Vec<Request> {
    vec![Request::AddWatch {
        path: path(at),
        recursive,
    }]
}

/// The watches of the method of this name in `Operations.java`.
fn watches() -> Vec<Request> {
    [
        get_data("/golden", true),
        exists("/golden/none", true),
        get_children("/golden", true),
    ]
    .concat()
}

fn set_watches([persistent, recursive]: [Option<&str>; 2]) -> Request {
    let paths = |paths: Option<&str>| paths.into_iter().map(path).collect();
    Request::SetWatches {
        last_zxid_seen: LAST_ZXID,
        lists: WatchLists {
            data: vec![path("/golden")],
            exist: vec![path("/golden/none")],
            child: vec![path("/golden")],
            persistent: paths(persistent),
            recursive: paths(recursive),
        },
    }
}

fn data_watch() -> Vec<Request> {
    exists("/newer", true)
}

fn children_watch() -> Vec<Request> {
    get_children("/newer", true)
}

fn check_watches(kind: Option<WatchKind>) -> Vec<Request> {
    vec![Request::CheckWatches {
        path: path("/newer"),
        kind,
    }]
}

fn remove_watches(kind: Option<WatchKind>) -> Vec<Request> {
    vec![Request::RemoveWatches {
        path: path("/newer"),
        kind,
    }]
}

/// A server that joins the ensemble.
const MEMBER: &str = "server.7=127.0.0.1:2888:3888:observer;127.0.0.1:2181";

/// Replaced by the one of the recording.
const LAST_ZXID: i64 = 0;
