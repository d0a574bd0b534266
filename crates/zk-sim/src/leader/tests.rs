use super::*;
use zk_core::AclEntry;

const ME: SessionId = SessionId::from_i64(1);
const OTHER: SessionId = SessionId::from_i64(2);

fn path(path: &str) -> NodePath {
    NodePath::parse(path).unwrap()
}

fn persistent() -> CreateMode {
    CreateMode::Persistent
}

fn sequential() -> CreateMode {
    CreateMode::PersistentSequential
}

const EPHEMERAL: CreateMode = CreateMode::Ephemeral;

fn part(at: &str, mode: CreateMode, acl: Acl) -> NewNode {
    NewNode {
        path: path(at),
        data: NodeData::default(),
        mode,
        acl,
    }
}

fn create(at: &str, mode: CreateMode) -> Request {
    Request::Create2(part(at, mode, Acl::open()))
}

fn set(at: &str, version: Option<i32>) -> Request {
    Request::SetData {
        path: path(at),
        data: NodeData::from(&b"x"[..]),
        version,
    }
}

fn delete(at: &str, version: Option<i32>) -> Request {
    Request::Delete {
        path: path(at),
        version,
    }
}

fn leader() -> Leader {
    Leader::new(Counters::Stick, Release::V3_9)
}

fn write_as(leader: &mut Leader, identities: &[Identity], request: &Request) -> WriteResult {
    let author = Author {
        session: ME,
        identities,
    };
    leader.write(author, request, Duration::ZERO)
}

fn write(leader: &mut Leader, request: &Request) -> Result<ServerReply, TransportError> {
    write_as(leader, &[], request).outcome
}

fn refused(leader: &mut Leader, request: &Request) -> ErrorKind {
    match write(leader, request) {
        Err(TransportError::Refused(kind, _)) => kind,
        other => unreachable!("{request:?}: {other:?}"),
    }
}

fn created(leader: &mut Leader, request: &Request) -> String {
    match write(leader, request) {
        Ok(ServerReply::Created { path, .. }) => path.to_string(),
        other => unreachable!("{request:?}: {other:?}"),
    }
}

#[test]
fn every_write_takes_a_number_a_refused_one_too() {
    let mut leader = leader();
    let before = leader.zxid();
    let first = write_as(&mut leader, &[], &create("/a", persistent()));
    let second = write_as(&mut leader, &[], &create("/a", persistent()));
    assert_eq!((first.zxid, second.zxid), (before + 1, before + 2));
    assert!(second.outcome.is_err());
    assert_eq!(leader.log().len(), 2);
    assert!(leader.log()[1].effects.is_empty());
}

#[test]
fn what_a_server_refuses_is_refused_for_the_same_reason() {
    let mut leader = leader();
    for (at, mode) in [
        ("/p", persistent()),
        ("/p/c", persistent()),
        ("/e", EPHEMERAL),
    ] {
        created(&mut leader, &create(at, mode));
    }
    let too_long = CreateMode::PersistentWithTtl(Duration::from_millis(1 << 40));
    for (request, expected) in [
        (create("/none/x", persistent()), ErrorKind::NoNode),
        (create("/p", persistent()), ErrorKind::NodeExists),
        (create("/", persistent()), ErrorKind::NodeExists),
        (create("/e/x", persistent()), ErrorKind::ParentIsEphemeral),
        (create("/e/x", EPHEMERAL), ErrorKind::ParentIsEphemeral),
        (create("/ttl", too_long), ErrorKind::InvalidArgument),
        (delete("/none", None), ErrorKind::NoNode),
        (delete("/none/x", None), ErrorKind::NoNode),
        (delete("/p", None), ErrorKind::NotEmpty),
        // The version is checked before the children.
        (delete("/p", Some(7)), ErrorKind::BadVersion),
        (delete("/", None), ErrorKind::InvalidArgument),
        (delete("/zookeeper", None), ErrorKind::InvalidArgument),
        (set("/none", None), ErrorKind::NoNode),
        (set("/p", Some(1)), ErrorKind::BadVersion),
    ] {
        assert_eq!(refused(&mut leader, &request), expected, "{request:?}");
    }
    // An invalid ACL is reported before a missing parent.
    let no_rules = Request::Create2(part("/none/x", persistent(), Acl::new([])));
    assert_eq!(refused(&mut leader, &no_rules), ErrorKind::InvalidAcl);
}

#[test]
fn versions_are_checked_and_counted() {
    let mut leader = leader();
    created(&mut leader, &create("/a", persistent()));
    for (version, expected) in [(None, 1), (Some(1), 2), (Some(-1), 3)] {
        match write(&mut leader, &set("/a", version)) {
            Ok(ServerReply::Set(stat)) => assert_eq!(stat.version, expected),
            other => unreachable!("{other:?}"),
        }
    }
    assert_eq!(next_version(i32::MAX, None), Ok(i32::MIN));
    assert_eq!(next_version(-2, None), Ok(0), "-1 would mean any version");
}

#[test]
fn sequence_numbers_count_every_child_ever_created() {
    let mut leader = leader();
    created(&mut leader, &create("/q", persistent()));
    created(&mut leader, &create("/q/plain", persistent()));
    assert_eq!(
        created(&mut leader, &create("/q/a-", sequential())),
        "/q/a-0000000001"
    );
    write(&mut leader, &delete("/q/a-0000000001", None)).unwrap();
    assert_eq!(
        created(&mut leader, &create("/q/b-", sequential_ephemeral())),
        "/q/b-0000000002"
    );
}

fn sequential_ephemeral() -> CreateMode {
    CreateMode::EphemeralSequential
}

#[test]
fn at_the_end_sequence_numbers_stick_or_turn_negative() {
    let mut leader = leader();
    created(&mut leader, &create("/q", persistent()));
    assert!(leader.set_counter(&path("/q"), i32::MAX, Duration::ZERO));
    assert!(!leader.set_counter(&path("/none"), 0, Duration::ZERO));
    assert_eq!(
        created(&mut leader, &create("/q/a", sequential())),
        "/q/a2147483647"
    );
    assert_eq!(
        refused(&mut leader, &create("/q/a", sequential())),
        ErrorKind::NodeExists
    );
    let both = ["/q/b", "/q/c"].map(|at| MultiOp::Create2(part(at, sequential(), Acl::open())));
    let names: Vec<_> = match write(&mut leader, &Request::Multi(both.into())) {
        Ok(ServerReply::Committed(changed)) => changed
            .into_iter()
            .map(|changed| match changed {
                MultiResult::Created { path, .. } => path.to_string(),
                other => unreachable!("{other:?}"),
            })
            .collect(),
        other => unreachable!("{other:?}"),
    };
    assert_eq!(names, ["/q/b2147483647", "/q/c-2147483648"]);
    assert_eq!(
        created(&mut leader, &create("/q/d", sequential())),
        "/q/d2147483647"
    );
}

#[test]
fn a_transaction_sees_its_own_parts_and_leaves_nothing_when_one_fails() {
    let mut leader = leader();
    created(&mut leader, &create("/old", persistent()));
    let before = leader.tree().clone();
    let parts = |last: MultiOp| {
        Request::Multi(vec![
            MultiOp::Create2(part("/a", persistent(), Acl::open())),
            MultiOp::Create2(part("/a/b", persistent(), Acl::open())),
            MultiOp::SetData {
                path: path("/old"),
                data: NodeData::from(&b"new"[..]),
                version: Some(0),
            },
            MultiOp::Check {
                path: path("/old"),
                version: Some(1),
            },
            MultiOp::Delete {
                path: path("/a/b"),
                version: None,
            },
            last,
        ])
    };
    let check = |version| MultiOp::Check {
        path: path("/old"),
        version: Some(version),
    };
    assert_eq!(
        write(&mut leader, &parts(check(0))),
        Err(TransportError::RefusedAt {
            index: 5,
            kind: ErrorKind::BadVersion
        })
    );
    assert_eq!(*leader.tree(), before);
    assert!(write(&mut leader, &parts(check(1))).is_ok());
    assert_eq!(leader.tree().paths(), ["/a", "/old"]);
    let zxid = leader.zxid();
    let [a, old] = ["/a", "/old"].map(|at| leader.tree().node(at).unwrap().stat());
    assert_eq!((a.czxid, a.pzxid, old.mzxid), (zxid, zxid, zxid));
}

#[test]
fn a_session_takes_its_ephemeral_nodes_along_in_one_transaction() {
    let mut leader = leader();
    created(&mut leader, &create("/p", persistent()));
    created(&mut leader, &create("/p/mine", EPHEMERAL));
    created(&mut leader, &create("/too", EPHEMERAL));
    let other = Author {
        session: OTHER,
        identities: &[],
    };
    let theirs = leader.write(other, &create("/theirs", EPHEMERAL), Duration::ZERO);
    assert!(theirs.outcome.is_ok());
    let length = leader.log().len();
    leader.close(ME, Duration::ZERO);
    assert_eq!(leader.tree().paths(), ["/p", "/theirs"]);
    assert_eq!(leader.log().len(), length + 1);
    assert_eq!(leader.log()[length].effects.len(), 2);
    assert_eq!(leader.log()[length].closes, Some(ME));
}

#[test]
fn each_change_needs_its_permission() {
    let mut leader = leader();
    let owner = [Identity::digest("ann", "pw")];
    let granted = |permissions: Permissions| {
        Acl::new([
            AclEntry::new(permissions, "world", "anyone"),
            AclEntry::new(Permissions::ALL, "auth", ""),
        ])
    };
    let requests = [
        (Permissions::CREATE, create("/n/new", persistent())),
        (Permissions::DELETE, delete("/n/c", None)),
        (Permissions::WRITE, set("/n", None)),
        (
            Permissions::ADMIN,
            Request::SetAcl {
                path: path("/n"),
                acl: Acl::open(),
                version: None,
            },
        ),
        (
            Permissions::READ,
            Request::Multi(vec![MultiOp::Check {
                path: path("/n"),
                version: None,
            }]),
        ),
    ];
    for (permission, request) in requests {
        let everything_else = [
            Permissions::READ,
            Permissions::WRITE,
            Permissions::CREATE,
            Permissions::DELETE,
            Permissions::ADMIN,
        ]
        .into_iter()
        .filter(|other| *other != permission)
        .fold(Permissions::NONE, |all, one| all | one);
        for (permissions, is_allowed) in [(permission, true), (everything_else, false)] {
            let mut leader = Leader::new(Counters::Stick, Release::V3_9);
            let node = Request::Create2(part("/n", persistent(), granted(permissions)));
            write_as(&mut leader, &owner, &node).outcome.unwrap();
            let child = create("/n/c", persistent());
            write_as(&mut leader, &owner, &child).outcome.unwrap();
            let outcome = write(&mut leader, &request);
            assert_eq!(outcome.is_ok(), is_allowed, "{request:?} {outcome:?}");
            if let Err(TransportError::Refused(kind, _) | TransportError::RefusedAt { kind, .. }) =
                outcome
            {
                assert_eq!(kind, ErrorKind::NoAuth);
            }
        }
    }
    let stranger = create("/zookeeper/config/x", persistent());
    assert_eq!(refused(&mut leader, &stranger), ErrorKind::NoAuth);
}

#[test]
fn a_replica_of_the_log_is_the_leaders_tree() {
    let mut leader = leader();
    for request in [
        create("/a", persistent()),
        create("/a/s-", sequential()),
        set("/a", None),
        create("/a", persistent()),
        create("/c", CreateMode::Container),
        Request::Multi(vec![
            MultiOp::Create2(part("/c/x", EPHEMERAL, Acl::open())),
            MultiOp::Delete {
                path: path("/a/s-0000000000"),
                version: None,
            },
        ]),
    ] {
        let _refused_or_not = write(&mut leader, &request);
    }
    leader.close(ME, Duration::from_secs(1));
    leader.reap(Duration::from_secs(2));
    let mut replica = crate::server::Server::new(Counters::Stick, Release::V3_9);
    for transaction in leader.log() {
        replica.apply(transaction, |_, _| true);
    }
    assert_eq!(replica.tree, *leader.tree());
    assert_eq!(replica.zxid(), leader.zxid());
    assert_eq!(replica.tree.paths(), ["/a"]);
}
