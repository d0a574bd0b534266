//! What the replies of servers are to be decoded to.

use std::time::{Duration, SystemTime};

use zk_wire::proto::DecodeError;
use zk_wire::{
    Acl, AclEntry, ErrorCode, MultiResult, NodeData, NodePath, Permissions, ReadResult, Reply,
    SessionId, Stat,
};

use crate::replies::{Body, Created, Part, Read, SentRule, SentStat};

/// Returns the reply, or what is wrong with its first path that no request can name.
pub(crate) fn reply(body: &Body) -> Result<Reply, DecodeError> {
    Ok(match body.clone() {
        Body::Empty => Reply::Empty,
        Body::Created(created) => Reply::Created {
            path: new_path(&created)?,
            stat: created.stat.map(stat),
        },
        Body::Stat(sent) => Reply::Stat(stat(sent)),
        Body::Data { data, stat: sent } => Reply::Data {
            data: NodeData::from(&data[..]),
            stat: stat(sent),
        },
        Body::Acl { acl, stat: sent } => Reply::Acl {
            acl: Acl::new(acl.into_iter().map(rule)),
            stat: stat(sent),
        },
        Body::Children { names, stat: sent } => Reply::Children {
            names,
            stat: sent.map(stat),
        },
        Body::Multi(Ok(parts)) => {
            let results: Result<_, _> = parts.into_iter().map(result).collect();
            Reply::Multi(Ok(results?))
        }
        Body::Multi(Err(refusal)) => Reply::Multi(Err(refusal)),
        Body::MultiRead(reads) => Reply::MultiRead(reads.into_iter().map(read).collect()),
        Body::Paths(paths) => {
            let paths: Result<_, _> = paths.iter().map(|text| path("a path", text)).collect();
            Reply::Paths(paths?)
        }
        Body::Count(count) => Reply::Count(count),
        Body::Identities(identities) => Reply::Identities(identities),
        Body::Token(token) => Reply::Token(token),
    })
}

fn result(part: Part) -> Result<MultiResult, DecodeError> {
    Ok(match part {
        Part::Created(created) => MultiResult::Created {
            path: new_path(&created)?,
            stat: created.stat.map(stat),
        },
        Part::Deleted => MultiResult::Deleted,
        Part::Set(sent) => MultiResult::Set(stat(sent)),
        Part::Checked => MultiResult::Checked,
    })
}

fn read(read: Result<Read, ErrorCode>) -> Result<ReadResult, ErrorCode> {
    Ok(match read? {
        Read::Data { data, stat: sent } => ReadResult::Data {
            data: NodeData::from(&data[..]),
            stat: stat(sent),
        },
        Read::Children(names) => ReadResult::Children(names),
    })
}

fn new_path(created: &Created) -> Result<NodePath, DecodeError> {
    path("the path of a new node", &created.path)
}

fn path(what: &'static str, text: &str) -> Result<NodePath, DecodeError> {
    NodePath::parse(text).map_err(|error| DecodeError::InvalidPath { what, error })
}

/// Permissions that nothing knows are left out.
fn rule(sent: SentRule) -> AclEntry {
    let all = [
        (1, Permissions::READ),
        (2, Permissions::WRITE),
        (4, Permissions::CREATE),
        (8, Permissions::DELETE),
        (16, Permissions::ADMIN),
    ];
    let held = all
        .into_iter()
        .filter(|(bit, _)| sent.permissions & bit != 0);
    let permissions = held.fold(Permissions::NONE, |held, (_, one)| held | one);
    AclEntry::new(permissions, sent.scheme, sent.id)
}

fn stat(sent: SentStat) -> Stat {
    Stat {
        czxid: sent.czxid,
        mzxid: sent.mzxid,
        pzxid: sent.pzxid,
        ctime: time(sent.ctime),
        mtime: time(sent.mtime),
        version: sent.version,
        cversion: sent.cversion,
        aversion: sent.aversion,
        ephemeral_owner: match sent.ephemeral_owner {
            0 => None,
            id => Some(SessionId::from_i64(id)),
        },
        data_length: count(sent.data_length),
        num_children: count(sent.num_children),
    }
}

/// One that the clock does not have becomes the epoch.
fn time(millis: i64) -> SystemTime {
    let epoch = SystemTime::UNIX_EPOCH;
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 {
        epoch.checked_sub(distance)
    } else {
        epoch.checked_add(distance)
    };
    time.unwrap_or(epoch)
}

/// A negative one becomes zero.
fn count(number: i32) -> u32 {
    number.max(0).unsigned_abs()
}
