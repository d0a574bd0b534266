//! Random requests and replies, compared with the codec of the fault proxy, which shares no code with this crate.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{
    self, Connect, Connected, Create, Part, PartResult, ReplyBody, RequestBody, Secret,
};
use zk_wire::proto::{ConnectRequest, ConnectResponse, Incoming, ReplyShape, WatchLists, Xid};
use zk_wire::{
    AclEntry, CreateMode, Credentials, ErrorCode, Identity, MultiOp, MultiRead, MultiRefusal,
    MultiResult, NewNode, ReadResult, Reply, Request, SaslToken, Stat, WatchEvent, WatchEventKind,
    WatchKind,
};

use crate::payload;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn every_request_is_decoded_to_what_it_says(request in any_request(), number in 0..20_usize) {
        let mut numbers = std::iter::successors(Some(Xid::FIRST), |xid| Some(xid.next()));
        let chosen = numbers.nth(number).expect("numbers do not end");
        let xid = request.fixed_xid().unwrap_or(chosen);
        let mut stream = BytesMut::new();
        let len = request.encode(xid, &mut stream);
        let frame = payload(&stream);
        prop_assert_eq!(frame.len(), len);
        let (op, body) = described(&request);
        prop_assert_eq!(RequestBody::decode(&frame), Ok((xid.get(), op, body)));
    }

    #[test]
    fn every_request_for_a_session_is_decoded_to_what_it_says(
        last_zxid_seen: i64,
        timeout in 0..=i32::MAX,
        session_id: i64,
        password: Vec<u8>,
        read_only: bool,
    ) {
        let request = ConnectRequest {
            last_zxid_seen,
            timeout: millis(timeout),
            session_id,
            password: Bytes::from(password.clone()),
            read_only,
        };
        let mut stream = BytesMut::new();
        request.encode(&mut stream);
        let expected = Connect {
            protocol_version: 0,
            last_zxid: last_zxid_seen,
            timeout,
            session: session_id,
            password: Secret(password),
            read_only: Some(read_only),
        };
        prop_assert_eq!(Connect::decode(&payload(&stream)), Ok(expected));
    }

    #[test]
    fn every_reply_is_decoded_to_what_it_says((shape, body, reply) in any_reply(), zxid: i64) {
        let frame = payload(&body.encode(7, zxid, 0));
        let Ok(Incoming::Reply { xid, zxid: decoded, body }) = Incoming::decode(frame) else {
            panic!("it is a reply");
        };
        prop_assert_eq!((xid.get(), decoded), (7, zxid));
        prop_assert_eq!(Reply::decode(shape, body.expect("it is no refusal")), Ok(reply));
    }

    #[test]
    fn every_refusal_has_its_code(xid in 1..=i32::MAX, zxid: i64, code in any::<i32>()) {
        prop_assume!(code != 0);
        let frame = payload(&ReplyBody::Empty.encode(xid, zxid, code));
        let Ok(Incoming::Reply { xid: decoded, body, .. }) = Incoming::decode(frame) else {
            panic!("it is a reply");
        };
        prop_assert_eq!(decoded.get(), xid);
        prop_assert_eq!(body.map_err(ErrorCode::code), Err(code));
    }

    #[test]
    fn every_notification_is_decoded_to_what_it_says(kind in 0..4_usize, path in text(), zxid: i64) {
        let (theirs, ours) = [
            (codec::WatchEventKind::Created, WatchEventKind::Created),
            (codec::WatchEventKind::Deleted, WatchEventKind::Deleted),
            (codec::WatchEventKind::DataChanged, WatchEventKind::DataChanged),
            (codec::WatchEventKind::ChildrenChanged, WatchEventKind::ChildrenChanged),
        ][kind];
        let frame = payload(&codec::notification(theirs, &path, zxid));
        let event = WatchEvent {
            path,
            kind: Some(ours),
            zxid: (zxid > 0).then_some(zxid),
        };
        prop_assert_eq!(Incoming::decode(frame), Ok(Incoming::Notification(event)));
    }

    #[test]
    fn every_granted_session_is_decoded_to_what_it_says(
        timeout: i32,
        session: i64,
        password: Vec<u8>,
        read_only: Option<bool>,
    ) {
        let granted = Connected {
            protocol_version: 0,
            timeout,
            session,
            password: Secret(password.clone()),
            read_only,
        };
        let expected = ConnectResponse {
            timeout: millis(timeout.max(0)),
            session_id: session,
            password: Bytes::from(password),
            read_only: read_only.unwrap_or(false),
        };
        prop_assert_eq!(ConnectResponse::decode(payload(&granted.encode())), Ok(expected));
    }
}

fn millis(millis: i32) -> Duration {
    Duration::from_millis(u64::try_from(millis).expect("no time is negative"))
}

/// Returns the operation and the fields that a request has on the wire, by ZooKeeper's `zookeeper.jute`.
fn described(request: &Request) -> (Op, RequestBody) {
    match request.clone() {
        Request::Create(node) => create(Op::Create, node),
        Request::Create2(node) => create(Op::Create2, node),
        Request::Delete { path, version } => {
            let version = version.unwrap_or(-1);
            (Op::Delete, RequestBody::Delete { path, version })
        }
        Request::Exists { path, watch } => (Op::Exists, RequestBody::Exists { path, watch }),
        Request::GetData { path, watch } => (Op::GetData, RequestBody::GetData { path, watch }),
        Request::GetConfig { watch } => {
            let path = "/zookeeper/config".to_owned();
            (Op::GetData, RequestBody::GetData { path, watch })
        }
        Request::SetData {
            path,
            data,
            version,
        } => set_data(path, &data, version),
        Request::GetAcl { path } => (Op::GetAcl, RequestBody::GetAcl { path }),
        Request::SetAcl { path, acl, version } => {
            let (acl, version) = (theirs(acl), version.unwrap_or(-1));
            (Op::SetAcl, RequestBody::SetAcl { path, acl, version })
        }
        Request::GetChildren { path, watch } => {
            (Op::GetChildren, RequestBody::GetChildren { path, watch })
        }
        Request::GetChildren2 { path, watch } => {
            (Op::GetChildren2, RequestBody::GetChildren { path, watch })
        }
        Request::Sync { path } => (Op::Sync, RequestBody::Sync { path }),
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
            (Op::CheckWatches, RequestBody::Watches { path, kind })
        }
        Request::RemoveWatches { path, kind } => {
            let kind = watcher_type(kind);
            (Op::RemoveWatches, RequestBody::Watches { path, kind })
        }
        Request::AddWatch { path, recursive } => {
            let mode = i32::from(recursive);
            (Op::AddWatch, RequestBody::AddWatch { path, mode })
        }
        Request::GetEphemerals { prefix } => {
            (Op::GetEphemerals, RequestBody::GetEphemerals { prefix })
        }
        Request::GetAllChildrenNumber { path } => {
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
        } => set_watches(last_zxid_seen, lists),
        Request::Ping => (Op::Ping, RequestBody::Ping),
        Request::CloseSession => (Op::CloseSession, RequestBody::CloseSession),
        other => panic!("{other:?} is a new request: describe it here, and draw it below"),
    }
}

fn create(plain: Op, node: NewNode) -> (Op, RequestBody) {
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
        path: node.path,
        data: node.data.to_vec(),
        acl: theirs(node.acl),
        flags,
        ttl: ttl.map(|ttl| i64::try_from(ttl.as_millis()).expect("it was drawn small")),
    };
    (op, RequestBody::Create(body))
}

fn set_data(path: String, data: &[u8], version: Option<i32>) -> (Op, RequestBody) {
    let body = RequestBody::SetData {
        path,
        data: data.to_vec(),
        version: version.unwrap_or(-1),
    };
    (Op::SetData, body)
}

fn set_watches(relative_zxid: i64, lists: WatchLists) -> (Op, RequestBody) {
    // Servers before 3.6 know the shorter one only.
    let is_short = lists.persistent.is_empty() && lists.recursive.is_empty();
    let op = if is_short {
        Op::SetWatches
    } else {
        Op::SetWatches2
    };
    let body = codec::WatchLists {
        relative_zxid,
        data: lists.data,
        exist: lists.exist,
        child: lists.child,
        persistent: (!is_short).then_some(lists.persistent),
        recursive: (!is_short).then_some(lists.recursive),
    };
    (op, RequestBody::SetWatches(body))
}

fn described_part(op: MultiOp) -> Part {
    let (op, body) = match op {
        MultiOp::Create(node) => create(Op::Create, node),
        MultiOp::Create2(node) => create(Op::Create2, node),
        MultiOp::Delete { path, version } => {
            let version = version.unwrap_or(-1);
            (Op::Delete, RequestBody::Delete { path, version })
        }
        MultiOp::SetData {
            path,
            data,
            version,
        } => set_data(path, &data, version),
        MultiOp::Check { path, version } => {
            let version = version.unwrap_or(-1);
            (Op::Check, RequestBody::Check { path, version })
        }
        other => panic!("{other:?} is a new operation: describe it here, and draw it below"),
    };
    Part { op, body }
}

fn described_read(read: MultiRead) -> Part {
    let watch = false;
    let (op, body) = match read {
        MultiRead::GetData { path } => (Op::GetData, RequestBody::GetData { path, watch }),
        MultiRead::GetChildren { path } => {
            (Op::GetChildren, RequestBody::GetChildren { path, watch })
        }
        other => panic!("{other:?} is a new read: describe it here, and draw it below"),
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

fn theirs(acl: Vec<AclEntry>) -> Vec<codec::AclEntry> {
    let entry = |AclEntry {
                     permissions,
                     scheme,
                     id,
                 }| codec::AclEntry {
        permissions,
        scheme,
        id,
    };
    acl.into_iter().map(entry).collect()
}

/// Texts of several scripts; servers refuse most of them as paths, and encode all alike.
fn text() -> impl Strategy<Value = String> {
    "[/a-zé漢\u{1f980}]{0,12}"
}

fn data() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..24).prop_map(Bytes::from)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

fn acl() -> impl Strategy<Value = Vec<AclEntry>> {
    let entry = (any::<i32>(), text(), text());
    vec(
        entry.prop_map(|(permissions, scheme, id)| AclEntry {
            permissions,
            scheme,
            id,
        }),
        0..3,
    )
}

/// A version that a node can have: -1 stands for any.
fn version() -> impl Strategy<Value = Option<i32>> {
    option::of(0..=i32::MAX)
}

fn node() -> impl Strategy<Value = NewNode> {
    let ttl = || (1..1_u64 << 40).prop_map(Duration::from_millis);
    let mode = prop_oneof![
        Just(CreateMode::Persistent),
        Just(CreateMode::PersistentSequential),
        Just(CreateMode::Ephemeral),
        Just(CreateMode::EphemeralSequential),
        Just(CreateMode::Container),
        ttl().prop_map(CreateMode::PersistentWithTtl),
        ttl().prop_map(CreateMode::PersistentSequentialWithTtl),
    ];
    (text(), data(), acl(), mode).prop_map(|(path, data, acl, mode)| NewNode {
        path,
        data,
        acl,
        mode,
    })
}

fn watch_kind() -> impl Strategy<Value = Option<WatchKind>> {
    prop::sample::select(vec![
        None,
        Some(WatchKind::Data),
        Some(WatchKind::Exist),
        Some(WatchKind::Child),
        Some(WatchKind::Persistent),
        Some(WatchKind::PersistentRecursive),
    ])
}

fn multi_op() -> impl Strategy<Value = MultiOp> {
    prop_oneof![
        node().prop_map(MultiOp::Create),
        node().prop_map(MultiOp::Create2),
        (text(), version()).prop_map(|(path, version)| MultiOp::Delete { path, version }),
        (text(), data(), version()).prop_map(|(path, data, version)| MultiOp::SetData {
            path,
            data,
            version
        }),
        (text(), version()).prop_map(|(path, version)| MultiOp::Check { path, version }),
    ]
}

fn multi_read() -> impl Strategy<Value = MultiRead> {
    prop_oneof![
        text().prop_map(|path| MultiRead::GetData { path }),
        text().prop_map(|path| MultiRead::GetChildren { path }),
    ]
}

fn any_request() -> impl Strategy<Value = Request> {
    let nodes = prop_oneof![
        node().prop_map(Request::Create),
        node().prop_map(Request::Create2),
        (text(), version()).prop_map(|(path, version)| Request::Delete { path, version }),
        (text(), data(), version()).prop_map(|(path, data, version)| Request::SetData {
            path,
            data,
            version
        }),
        (text(), acl(), version()).prop_map(|(path, acl, version)| Request::SetAcl {
            path,
            acl,
            version
        }),
        vec(multi_op(), 0..5).prop_map(Request::Multi),
        vec(multi_read(), 0..5).prop_map(Request::MultiRead),
    ];
    let reads = prop_oneof![
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::Exists { path, watch }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::GetData { path, watch }),
        any::<bool>().prop_map(|watch| Request::GetConfig { watch }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::GetChildren { path, watch }),
        (text(), any::<bool>()).prop_map(|(path, watch)| Request::GetChildren2 { path, watch }),
        text().prop_map(|path| Request::GetAcl { path }),
        text().prop_map(|path| Request::Sync { path }),
        text().prop_map(|prefix| Request::GetEphemerals { prefix }),
        text().prop_map(|path| Request::GetAllChildrenNumber { path }),
    ];
    let watches = prop_oneof![
        (text(), watch_kind()).prop_map(|(path, kind)| Request::CheckWatches { path, kind }),
        (text(), watch_kind()).prop_map(|(path, kind)| Request::RemoveWatches { path, kind }),
        (text(), any::<bool>()).prop_map(|(path, recursive)| Request::AddWatch { path, recursive }),
        (any::<i64>(), texts(), texts(), texts(), texts(), texts()).prop_map(
            |(last_zxid_seen, data, exist, child, persistent, recursive)| Request::SetWatches {
                last_zxid_seen,
                lists: WatchLists {
                    data,
                    exist,
                    child,
                    persistent,
                    recursive
                },
            }
        ),
        (any::<i64>(), texts(), texts(), texts()).prop_map(
            |(last_zxid_seen, data, exist, child)| {
                let lists = WatchLists {
                    data,
                    exist,
                    child,
                    ..WatchLists::default()
                };
                Request::SetWatches {
                    last_zxid_seen,
                    lists,
                }
            }
        ),
    ];
    let others = prop_oneof![
        (
            option::of(text()),
            option::of(text()),
            option::of(text()),
            option::of(0..=i64::MAX)
        )
            .prop_map(
                |(joining, leaving, new_members, version)| Request::Reconfig {
                    joining,
                    leaving,
                    new_members,
                    version,
                }
            ),
        (text(), data()).prop_map(|(scheme, data)| Request::Auth(Credentials { scheme, data })),
        data().prop_map(|token| Request::Sasl(SaslToken(token))),
        Just(Request::WhoAmI),
        Just(Request::Ping),
        Just(Request::CloseSession),
    ];
    prop_oneof![nodes, reads, watches, others]
}

/// A stat as a server fills it in, in both crates' words.
fn stat() -> impl Strategy<Value = (codec::Stat, Stat)> {
    let transactions = (1..=i64::MAX, any::<i64>(), any::<i64>());
    let times = (any::<i64>(), any::<i64>(), any::<i64>());
    let numbers = any::<[i32; 5]>();
    (transactions, times, numbers).prop_map(
        |((czxid, mzxid, pzxid), (ctime, mtime, ephemeral_owner), numbers)| {
            let [version, cversion, aversion, data_length, num_children] = numbers;
            let theirs = codec::Stat {
                czxid,
                mzxid,
                ctime,
                mtime,
                version,
                cversion,
                aversion,
                ephemeral_owner,
                data_length,
                num_children,
                pzxid,
            };
            let ours = Stat {
                czxid,
                mzxid,
                ctime,
                mtime,
                version,
                cversion,
                aversion,
                ephemeral_owner,
                data_length,
                num_children,
                pzxid,
            };
            (theirs, ours)
        },
    )
}

/// A reply with its shape: as the codec encodes it, and as it is to be decoded.
fn any_reply() -> impl Strategy<Value = (ReplyShape, ReplyBody, Reply)> {
    let plain = prop_oneof![
        Just((ReplyShape::Empty, ReplyBody::Empty, Reply::Empty)),
        // The reply to a sync, which repeats the path.
        text().prop_map(|path| (ReplyShape::Empty, ReplyBody::Path(path), Reply::Empty)),
        text().prop_map(|path| {
            let reply = Reply::Created {
                path: path.clone(),
                stat: None,
            };
            (ReplyShape::Path, ReplyBody::Path(path), reply)
        }),
        texts().prop_map(|names| {
            let reply = Reply::Children {
                names: names.clone(),
                stat: None,
            };
            (ReplyShape::Children, ReplyBody::Names(names), reply)
        }),
        texts().prop_map(|paths| {
            (
                ReplyShape::Paths,
                ReplyBody::Names(paths.clone()),
                Reply::Paths(paths),
            )
        }),
        any::<i32>().prop_map(|count| {
            (
                ReplyShape::Count,
                ReplyBody::Number(count),
                Reply::Count(count),
            )
        }),
        vec((text(), text()), 0..4).prop_map(|identities| {
            let reply = identities.iter().cloned();
            let reply = reply
                .map(|(scheme, name)| Identity { scheme, name })
                .collect();
            let body = ReplyBody::Identities(identities);
            (ReplyShape::Identities, body, Reply::Identities(reply))
        }),
        data().prop_map(|token| {
            let body = ReplyBody::Token(Some(token.to_vec()));
            (ReplyShape::Token, body, Reply::Token(SaslToken(token)))
        }),
    ];
    let with_stat = prop_oneof![
        (text(), stat()).prop_map(|(path, (theirs, ours))| {
            let body = ReplyBody::Created(path.clone(), theirs);
            let reply = Reply::Created {
                path,
                stat: Some(ours),
            };
            (ReplyShape::PathAndStat, body, reply)
        }),
        stat().prop_map(|(theirs, ours)| {
            (ReplyShape::Stat, ReplyBody::Stat(theirs), Reply::Stat(ours))
        }),
        (data(), stat()).prop_map(|(data, (theirs, stat))| {
            let body = ReplyBody::Data(data.to_vec(), theirs);
            (ReplyShape::Data, body, Reply::Data { data, stat })
        }),
        (acl(), stat()).prop_map(|(acl, (with, stat))| {
            let body = ReplyBody::Acl(theirs(acl.clone()), with);
            (ReplyShape::Acl, body, Reply::Acl { acl, stat })
        }),
        (texts(), stat()).prop_map(|(names, (theirs, ours))| {
            let body = ReplyBody::Children(names.clone(), theirs);
            let reply = Reply::Children {
                names,
                stat: Some(ours),
            };
            (ReplyShape::ChildrenAndStat, body, reply)
        }),
    ];
    let parts = prop_oneof![
        vec(part_result(), 0..5).prop_map(|parts| {
            let (theirs, ours) = parts.into_iter().unzip();
            (
                ReplyShape::Multi,
                ReplyBody::Parts(theirs),
                Reply::Multi(Ok(ours)),
            )
        }),
        (0..4_usize, i32::MIN..-2, 0..4_usize).prop_map(|(before, code, after)| {
            let codes = [vec![0; before], vec![code], vec![-2; after]].concat();
            let body = ReplyBody::Parts(codes.into_iter().map(PartResult::Refused).collect());
            let code = ErrorCode::new(code).expect("it is not zero");
            let refusal = MultiRefusal {
                index: before,
                code,
            };
            (ReplyShape::Multi, body, Reply::Multi(Err(refusal)))
        }),
        vec(read_result(), 0..5).prop_map(|reads| {
            let (theirs, ours) = reads.into_iter().unzip();
            (
                ReplyShape::MultiRead,
                ReplyBody::Parts(theirs),
                Reply::MultiRead(ours),
            )
        }),
    ];
    prop_oneof![plain, with_stat, parts]
}

fn part_result() -> impl Strategy<Value = (PartResult, MultiResult)> {
    let with_stat = prop::sample::select(vec![Op::Create2, Op::CreateContainer, Op::CreateTtl]);
    prop_oneof![
        text().prop_map(|path| {
            let theirs = PartResult::Done(Op::Create, ReplyBody::Path(path.clone()));
            (theirs, MultiResult::Created { path, stat: None })
        }),
        (with_stat, text(), stat()).prop_map(|(op, path, (theirs, ours))| {
            let theirs = PartResult::Done(op, ReplyBody::Created(path.clone(), theirs));
            (
                theirs,
                MultiResult::Created {
                    path,
                    stat: Some(ours),
                },
            )
        }),
        Just((
            PartResult::Done(Op::Delete, ReplyBody::Empty),
            MultiResult::Deleted
        )),
        Just((
            PartResult::Done(Op::Check, ReplyBody::Empty),
            MultiResult::Checked
        )),
        stat().prop_map(|(theirs, ours)| {
            let theirs = PartResult::Done(Op::SetData, ReplyBody::Stat(theirs));
            (theirs, MultiResult::Set(ours))
        }),
    ]
}

fn read_result() -> impl Strategy<Value = (PartResult, Result<ReadResult, ErrorCode>)> {
    prop_oneof![
        (data(), stat()).prop_map(|(data, (theirs, stat))| {
            let theirs = PartResult::Done(Op::GetData, ReplyBody::Data(data.to_vec(), theirs));
            (theirs, Ok(ReadResult::Data { data, stat }))
        }),
        texts().prop_map(|names| {
            let theirs = PartResult::Done(Op::GetChildren, ReplyBody::Names(names.clone()));
            (theirs, Ok(ReadResult::Children(names)))
        }),
        (i32::MIN..0).prop_map(|code| {
            let ours = ErrorCode::new(code).expect("it is not zero");
            (PartResult::Refused(code), Err(ours))
        }),
    ]
}
