//! Random requests, and random replies in both crates' words.

use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{self, PartResult, ReplyBody};
use zk_wire::proto::{ReplyShape, WatchLists};
use zk_wire::{
    Acl, AclEntry, CreateMode, Credentials, ErrorCode, Identity, MultiOp, MultiRead, MultiRefusal,
    MultiResult, NewNode, NodeData, NodePath, ReadResult, Reply, Request, SaslToken, SessionId,
    Stat, WatchKind,
};

use super::described::{permissions, texts_of};

/// Texts of several scripts, most of which are no paths.
pub(super) fn text() -> impl Strategy<Value = String> {
    "[/a-zé漢\u{1f980}]{0,12}"
}

pub(super) fn path() -> impl Strategy<Value = NodePath> {
    let text = "/|(/[.a-zé漢 ]{0,4}[a-zé漢]){1,3}";
    text.prop_map(|text| text.parse().expect("it is a path"))
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..24)
}

fn node_data() -> impl Strategy<Value = NodeData> {
    data().prop_map(NodeData::from)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

fn paths() -> impl Strategy<Value = Vec<NodePath>> {
    vec(path(), 0..4)
}

fn acl() -> impl Strategy<Value = Acl> {
    acl_of_server().prop_map(|(_, ours)| ours)
}

/// Access rules as a server may send them, with permissions that nothing knows, in both crates' words.
fn acl_of_server() -> impl Strategy<Value = (Vec<codec::AclEntry>, Acl)> {
    let entry = (any::<i32>(), text(), text()).prop_map(|(number, scheme, id)| {
        let ours = AclEntry::new(permissions(number), &scheme, &id);
        let theirs = codec::AclEntry {
            permissions: number,
            scheme,
            id,
        };
        (theirs, ours)
    });
    vec(entry, 0..3).prop_map(|entries| {
        let (theirs, ours): (_, Vec<_>) = entries.into_iter().unzip();
        (theirs, Acl::new(ours))
    })
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
    (path(), node_data(), acl(), mode).prop_map(|(path, data, acl, mode)| NewNode {
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
        (path(), version()).prop_map(|(path, version)| MultiOp::Delete { path, version }),
        (path(), node_data(), version()).prop_map(|(path, data, version)| MultiOp::SetData {
            path,
            data,
            version
        }),
        (path(), version()).prop_map(|(path, version)| MultiOp::Check { path, version }),
    ]
}

fn multi_read() -> impl Strategy<Value = MultiRead> {
    prop_oneof![
        path().prop_map(|path| MultiRead::GetData { path }),
        path().prop_map(|path| MultiRead::GetChildren { path }),
    ]
}

pub(super) fn any_request() -> impl Strategy<Value = Request> {
    let nodes = prop_oneof![
        node().prop_map(Request::Create),
        node().prop_map(Request::Create2),
        (path(), version()).prop_map(|(path, version)| Request::Delete { path, version }),
        (path(), node_data(), version()).prop_map(|(path, data, version)| Request::SetData {
            path,
            data,
            version
        }),
        (path(), acl(), version()).prop_map(|(path, acl, version)| Request::SetAcl {
            path,
            acl,
            version
        }),
        vec(multi_op(), 0..5).prop_map(Request::Multi),
        vec(multi_read(), 0..5).prop_map(Request::MultiRead),
    ];
    let reads = prop_oneof![
        (path(), any::<bool>()).prop_map(|(path, watch)| Request::Exists { path, watch }),
        (path(), any::<bool>()).prop_map(|(path, watch)| Request::GetData { path, watch }),
        any::<bool>().prop_map(|watch| Request::GetConfig { watch }),
        (path(), any::<bool>()).prop_map(|(path, watch)| Request::GetChildren { path, watch }),
        (path(), any::<bool>()).prop_map(|(path, watch)| Request::GetChildren2 { path, watch }),
        path().prop_map(|path| Request::GetAcl { path }),
        path().prop_map(|path| Request::Sync { path }),
        text().prop_map(|prefix| Request::GetEphemerals { prefix }),
        path().prop_map(|path| Request::GetAllChildrenNumber { path }),
    ];
    let watches = prop_oneof![
        (path(), watch_kind()).prop_map(|(path, kind)| Request::CheckWatches { path, kind }),
        (path(), watch_kind()).prop_map(|(path, kind)| Request::RemoveWatches { path, kind }),
        (path(), any::<bool>()).prop_map(|(path, recursive)| Request::AddWatch { path, recursive }),
        (any::<i64>(), paths(), paths(), paths(), paths(), paths()).prop_map(
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
        (any::<i64>(), paths(), paths(), paths()).prop_map(
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
        (text(), data()).prop_map(|(scheme, data)| {
            let data = data.into();
            Request::Auth(Credentials { scheme, data })
        }),
        data().prop_map(|token| Request::Sasl(SaslToken(token.into()))),
        Just(Request::WhoAmI),
        Just(Request::Ping),
        Just(Request::CloseSession),
    ];
    prop_oneof![nodes, reads, watches, others]
}

/// A stat as a server fills it in, in both crates' words.
pub(super) fn stat() -> impl Strategy<Value = (codec::Stat, Stat)> {
    let transactions = (1..=i64::MAX, any::<i64>(), any::<i64>());
    let owner_number = prop_oneof![Just(0), any::<i64>()];
    let times = (any::<i64>(), any::<i64>(), owner_number);
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
                ctime: time(ctime),
                mtime: time(mtime),
                version,
                cversion,
                aversion,
                ephemeral_owner: owner(ephemeral_owner),
                data_length: count(data_length),
                num_children: count(num_children),
                pzxid,
            };
            (theirs, ours)
        },
    )
}

/// Returns a time of a server; one that the clock does not have becomes the epoch.
fn time(millis: i64) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if millis < 0 {
        epoch.checked_sub(distance)
    } else {
        epoch.checked_add(distance)
    };
    time.unwrap_or(epoch)
}

fn owner(id: i64) -> Option<SessionId> {
    (id != 0).then_some(SessionId::from_i64(id))
}

/// Returns a length or a number of nodes; a negative one becomes zero.
fn count(number: i32) -> u32 {
    number.max(0).unsigned_abs()
}

/// A reply with its shape: as the codec encodes it, and as it is to be decoded.
pub(super) fn any_reply() -> impl Strategy<Value = (ReplyShape, ReplyBody, Reply)> {
    let plain = prop_oneof![
        Just((ReplyShape::Empty, ReplyBody::Empty, Reply::Empty)),
        // The reply to a sync, which repeats the path.
        text().prop_map(|path| (ReplyShape::Empty, ReplyBody::Path(path), Reply::Empty)),
        path().prop_map(|path| {
            let body = ReplyBody::Path(path.to_string());
            let reply = Reply::Created { path, stat: None };
            (ReplyShape::Path, body, reply)
        }),
        texts().prop_map(|names| {
            let reply = Reply::Children {
                names: names.clone(),
                stat: None,
            };
            (ReplyShape::Children, ReplyBody::Names(names), reply)
        }),
        paths().prop_map(|paths| {
            let body = ReplyBody::Names(texts_of(&paths));
            (ReplyShape::Paths, body, Reply::Paths(paths))
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
            let body = ReplyBody::Token(Some(token.clone()));
            let token = SaslToken(token.into());
            (ReplyShape::Token, body, Reply::Token(token))
        }),
    ];
    let with_stat = prop_oneof![
        (path(), stat()).prop_map(|(path, (theirs, ours))| {
            let body = ReplyBody::Created(path.to_string(), theirs);
            let reply = Reply::Created {
                path,
                stat: Some(ours),
            };
            (ReplyShape::PathAndStat, body, reply)
        }),
        stat().prop_map(|(theirs, ours)| {
            (ReplyShape::Stat, ReplyBody::Stat(theirs), Reply::Stat(ours))
        }),
        (node_data(), stat()).prop_map(|(data, (theirs, stat))| {
            let body = ReplyBody::Data(data.as_slice().to_vec(), theirs);
            (ReplyShape::Data, body, Reply::Data { data, stat })
        }),
        (acl_of_server(), stat()).prop_map(|((theirs, acl), (with, stat))| {
            let body = ReplyBody::Acl(theirs, with);
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
        path().prop_map(|path| {
            let theirs = PartResult::Done(Op::Create, ReplyBody::Path(path.to_string()));
            (theirs, MultiResult::Created { path, stat: None })
        }),
        (with_stat, path(), stat()).prop_map(|(op, path, (theirs, ours))| {
            let theirs = PartResult::Done(op, ReplyBody::Created(path.to_string(), theirs));
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
        (node_data(), stat()).prop_map(|(data, (theirs, stat))| {
            let body = ReplyBody::Data(data.as_slice().to_vec(), theirs);
            let theirs = PartResult::Done(Op::GetData, body);
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
