//! Turns decoded requests into those of simulated servers.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::transport::{CreateMode, MultiOp as Change, MultiRead, NewNode, Request};
use zk_core::{Acl, NodePath};
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{AclEntry, Create, Part, RequestBody, WatchLists};

use super::encode::{BAD_ARGUMENTS, permissions_of};
use crate::watches::WatchKind;
use crate::wire_request::{WatchKinds, WireRequest};
use crate::world::Content;

/// Returns what a simulated server does for a request.
pub(super) fn content(op: Op, body: RequestBody) -> Content {
    let content = match body {
        RequestBody::Multi(parts) => transaction(parts).map(Content::Request),
        RequestBody::CloseSession => Ok(Content::Close),
        RequestBody::Ping => Ok(Content::Wire(WireRequest::Ping)),
        RequestBody::SetWatches(lists) => watches(lists).map(Content::Wire),
        RequestBody::MultiRead(parts) => reads(parts).map(Content::Request),
        RequestBody::Watches { path, kind } => watches_meant(op, &path, kind).map(Content::Wire),
        RequestBody::Sasl { .. } => Ok(Content::Wire(WireRequest::Sasl)),
        RequestBody::Reconfig { .. } => Err(RECONFIG_DISABLED),
        RequestBody::Check { .. } | RequestBody::Other => Ok(Content::Wire(WireRequest::Unknown)),
        body => request(body).map(Content::Request),
    };
    content.unwrap_or_else(refused)
}

/// Returns what a simulated server does for a request that it refuses with this code.
pub(super) fn refused(code: i32) -> Content {
    Content::Wire(WireRequest::Refuse(code))
}

/// Turns requests that `zk-core` has, too; the error is the code of the refusal.
fn request(body: RequestBody) -> Result<Request, i32> {
    Ok(match body {
        RequestBody::Create(create) => Request::Create2(new_node(create)?),
        RequestBody::Delete { path, version } => Request::Delete {
            path: parse(&path)?,
            version: any(version),
        },
        RequestBody::Exists { path, watch } => Request::Exists {
            path: parse(&path)?,
            watch,
        },
        RequestBody::GetData { path, watch } => Request::GetData {
            path: parse(&path)?,
            watch,
        },
        RequestBody::SetData {
            path,
            data,
            version,
        } => Request::SetData {
            path: parse(&path)?,
            data: data.into(),
            version: any(version),
        },
        RequestBody::GetAcl { path } => Request::GetAcl {
            path: parse(&path)?,
        },
        RequestBody::SetAcl { path, acl, version } => Request::SetAcl {
            path: parse(&path)?,
            acl: access_list(acl),
            version: any(version),
        },
        RequestBody::GetChildren { path, watch } => Request::GetChildren2 {
            path: parse(&path)?,
            watch,
        },
        RequestBody::Sync { path } => Request::Sync {
            path: parse(&path)?,
        },
        RequestBody::AddWatch {
            path,
            mode: mode @ (0 | 1),
        } => Request::AddWatch {
            path: parse(&path)?,
            recursive: mode == 1,
        },
        RequestBody::WhoAmI => Request::WhoAmI,
        RequestBody::GetEphemerals { prefix } => Request::GetEphemerals { prefix },
        RequestBody::GetAllChildrenNumber { path } => Request::GetAllChildrenNumber {
            path: parse(&path)?,
        },
        _ => return Err(BAD_ARGUMENTS),
    })
}

fn watches_meant(op: Op, path: &str, kind: i32) -> Result<WireRequest, i32> {
    Ok(WireRequest::Watches {
        path: parse(path)?,
        kinds: watch_kinds(kind)?,
        is_check: op == Op::CheckWatches,
    })
}

fn transaction(parts: Vec<Part>) -> Result<Request, i32> {
    let part = |part: Part| {
        Ok(match part.body {
            RequestBody::Check { path, version } => Change::Check {
                path: parse(&path)?,
                version: any(version),
            },
            RequestBody::Create(create) => Change::Create2(new_node(create)?),
            RequestBody::SetData {
                path,
                data,
                version,
            } => Change::SetData {
                path: parse(&path)?,
                data: data.into(),
                version: any(version),
            },
            RequestBody::Delete { path, version } => Change::Delete {
                path: parse(&path)?,
                version: any(version),
            },
            _ => return Err(MARSHALLING_ERROR),
        })
    };
    let parts = parts.into_iter().map(part);
    Ok(Request::Multi(parts.collect::<Result<_, _>>()?))
}

fn reads(parts: Vec<Part>) -> Result<Request, i32> {
    let read = |part: Part| match part.body {
        RequestBody::GetData { path, .. } => Ok(MultiRead::GetData {
            path: parse(&path)?,
        }),
        RequestBody::GetChildren { path, .. } => Ok(MultiRead::GetChildren {
            path: parse(&path)?,
        }),
        _ => Err(MARSHALLING_ERROR),
    };
    let parts = parts.into_iter().map(read);
    Ok(Request::MultiRead(parts.collect::<Result<_, _>>()?))
}

fn new_node(create: Create) -> Result<NewNode, i32> {
    let ttl = || {
        let millis = create.ttl.and_then(|millis| u64::try_from(millis).ok());
        millis.map(Duration::from_millis).ok_or(BAD_ARGUMENTS)
    };
    let mode = match create.flags {
        0 => CreateMode::Persistent,
        1 => CreateMode::Ephemeral,
        2 => CreateMode::PersistentSequential,
        3 => CreateMode::EphemeralSequential,
        4 => CreateMode::Container,
        5 => CreateMode::PersistentWithTtl(ttl()?),
        6 => CreateMode::PersistentSequentialWithTtl(ttl()?),
        _ => return Err(BAD_ARGUMENTS),
    };
    Ok(NewNode {
        path: parse(&create.path)?,
        data: create.data.into(),
        mode,
        acl: access_list(create.acl),
    })
}

fn access_list(entries: Vec<AclEntry>) -> Acl {
    Acl::new(entries.into_iter().map(|entry| {
        let permissions = permissions_of(entry.permissions);
        zk_core::AclEntry::new(permissions, entry.scheme, entry.id)
    }))
}

fn watches(lists: WatchLists) -> Result<WireRequest, i32> {
    let WatchLists {
        relative_zxid,
        data,
        exist,
        child,
        persistent,
        recursive,
    } = lists;
    let mut watches = Vec::new();
    for (paths, kind) in [
        (data, WatchKind::Data),
        (exist, WatchKind::Exist),
        (child, WatchKind::Child),
        (persistent.unwrap_or_default(), WatchKind::Persistent),
        (
            recursive.unwrap_or_default(),
            WatchKind::PersistentRecursive,
        ),
    ] {
        for path in paths {
            watches.push((parse(&path)?, kind));
        }
    }
    Ok(WireRequest::SetWatches {
        seen: relative_zxid,
        watches,
    })
}

fn watch_kinds(kind: i32) -> Result<WatchKinds, i32> {
    Ok(match kind {
        1 => WatchKinds::Children,
        2 => WatchKinds::Data,
        3 => WatchKinds::Any,
        4 => WatchKinds::Persistent,
        5 => WatchKinds::PersistentRecursive,
        _ => return Err(BAD_ARGUMENTS),
    })
}

fn parse(path: &str) -> Result<NodePath, i32> {
    NodePath::parse(path).map_err(|_| BAD_ARGUMENTS)
}

/// Returns the wanted version, if any is wanted.
fn any(version: i32) -> Option<i32> {
    (version != -1).then_some(version)
}

pub(super) const MARSHALLING_ERROR: i32 = -5;
const RECONFIG_DISABLED: i32 = -123;
