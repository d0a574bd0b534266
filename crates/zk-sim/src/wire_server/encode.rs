//! Encodes the replies of simulated servers.
//!
//! Pure: no I/O and no clock.

use std::time::{Duration, UNIX_EPOCH};

use zk_core::transport::{MultiResult, ReadResult, TransportError};
use zk_core::{Acl, ErrorKind, Identity, Permissions, SessionId, WatchEvent};
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{
    AclEntry, Connect, Connected, PartResult, ReplyBody, RequestBody, Secret, Stat, WatchEventKind,
    notification,
};

use crate::server_reply::ServerReply;
use crate::tree::Trigger;
use crate::wire_request::WireReply;

/// What the reply to a request needs of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    xid: i32,
    op: Op,
    /// The path of a `sync`, which its reply repeats.
    path: String,
    /// The operations of a transaction, or of several reads.
    parts: Vec<Op>,
}

impl Expected {
    pub(super) fn of(xid: i32, op: Op, body: &RequestBody) -> Self {
        let (mut path, mut parts) = (String::new(), Vec::new());
        match body {
            RequestBody::Sync { path: of } => path.clone_from(of),
            RequestBody::Multi(all) | RequestBody::MultiRead(all) => {
                parts = all.iter().map(|part| part.op).collect();
            }
            _ => {}
        }
        Self {
            xid,
            op,
            path,
            parts,
        }
    }

    /// Encodes the reply as a frame; nothing for an outcome that no server reports.
    pub(super) fn reply(self, zxid: i64, outcome: Result<ServerReply, TransportError>) -> Vec<u8> {
        let xid = self.xid;
        let (code, body) = match outcome {
            Ok(reply) => self.body(reply),
            Err(TransportError::RefusedAt { index, kind }) => {
                let parts = self.refused_parts(index, code_of(kind));
                (OK, ReplyBody::Parts(parts))
            }
            Err(TransportError::Refused(kind, _) | TransportError::Later(kind)) => {
                (code_of(kind), ReplyBody::Empty)
            }
            Err(TransportError::Server(_)) => (SYSTEM_ERROR, ReplyBody::Empty),
            Err(TransportError::Ended(_) | TransportError::NotSent(_)) => {
                (SESSION_EXPIRED, ReplyBody::Empty)
            }
            // The connection is lost without a reply, or there is none.
            Err(
                TransportError::Lost(_)
                | TransportError::MaybeTooOld { .. }
                | TransportError::Unreadable { .. }
                | TransportError::TakenBack
                | TransportError::Unanswered,
            ) => return Vec::new(),
        };
        body.encode(xid, zxid, code)
    }

    fn body(self, reply: ServerReply) -> (i32, ReplyBody) {
        let body = match reply {
            ServerReply::Created { path, .. } if self.op == Op::Create => {
                ReplyBody::Path(path.to_string())
            }
            ServerReply::Created { path, stat } => {
                ReplyBody::Created(path.to_string(), stat_of(&stat))
            }
            ServerReply::Deleted | ServerReply::Closed | ServerReply::Wire(WireReply::Done) => {
                ReplyBody::Empty
            }
            ServerReply::Data { data, stat } => {
                ReplyBody::Data(data.as_slice().to_vec(), stat_of(&stat))
            }
            ServerReply::Stat(None) => return (code_of(ErrorKind::NoNode), ReplyBody::Empty),
            ServerReply::Stat(Some(stat)) | ServerReply::Set(stat) => {
                ReplyBody::Stat(stat_of(&stat))
            }
            ServerReply::Children { names, .. } if self.op == Op::GetChildren => {
                ReplyBody::Names(names)
            }
            ServerReply::Children { names, stat } => ReplyBody::Children(names, stat_of(&stat)),
            ServerReply::Synced => ReplyBody::Path(self.path),
            ServerReply::Acl { acl, stat } => ReplyBody::Acl(acl_of(&acl), stat_of(&stat)),
            ServerReply::Committed(results) => {
                let results = self.parts.into_iter().zip(results);
                ReplyBody::Parts(results.map(|(op, result)| part(op, result)).collect())
            }
            ServerReply::Watching => ReplyBody::Number(0),
            ServerReply::Reads(results) => {
                ReplyBody::Parts(results.into_iter().map(read).collect())
            }
            ServerReply::Identities(identities) => {
                let identities = identities.into_iter();
                let pair = |identity: Identity| (identity.scheme, identity.name);
                ReplyBody::Identities(identities.map(pair).collect())
            }
            ServerReply::Paths(paths) => {
                ReplyBody::Names(paths.iter().map(ToString::to_string).collect())
            }
            ServerReply::Count(count) => {
                ReplyBody::Number(i32::try_from(count).unwrap_or(i32::MAX))
            }
            ServerReply::Wire(WireReply::NoToken) => ReplyBody::Token(None),
            ServerReply::Wire(WireReply::Refused(code)) => return (code, ReplyBody::Empty),
        };
        (OK, body)
    }

    /// Returns the results of a transaction that is refused because of one part.
    fn refused_parts(&self, index: usize, code: i32) -> Vec<PartResult> {
        let codes = (0..self.parts.len()).map(|at| match at.cmp(&index) {
            std::cmp::Ordering::Less => OK,
            std::cmp::Ordering::Equal => code,
            std::cmp::Ordering::Greater => RUNTIME_INCONSISTENCY,
        });
        codes.map(PartResult::Refused).collect()
    }
}

fn part(op: Op, result: MultiResult) -> PartResult {
    match result {
        MultiResult::Checked => PartResult::Done(Op::Check, ReplyBody::Empty),
        MultiResult::Deleted => PartResult::Done(Op::Delete, ReplyBody::Empty),
        MultiResult::Set(stat) => PartResult::Done(Op::SetData, ReplyBody::Stat(stat_of(&stat))),
        MultiResult::Created {
            path,
            stat: Some(stat),
        } if op != Op::Create => {
            let body = ReplyBody::Created(path.to_string(), stat_of(&stat));
            PartResult::Done(Op::Create2, body)
        }
        MultiResult::Created { path, .. } => {
            PartResult::Done(Op::Create, ReplyBody::Path(path.to_string()))
        }
    }
}

fn read(result: Result<ReadResult, TransportError>) -> PartResult {
    match result {
        Ok(ReadResult::Data { data, stat }) => {
            let body = ReplyBody::Data(data.as_slice().to_vec(), stat_of(&stat));
            PartResult::Done(Op::GetData, body)
        }
        Ok(ReadResult::Children(names)) => {
            PartResult::Done(Op::GetChildren, ReplyBody::Names(names))
        }
        Err(TransportError::Refused(kind, _)) => PartResult::Refused(code_of(kind)),
        Err(_) => PartResult::Refused(SYSTEM_ERROR),
    }
}

/// Encodes the reply that grants or resumes a session.
pub(super) fn granted(
    session: SessionId,
    timeout: Duration,
    password: Vec<u8>,
    connect: &Connect,
    is_read_only: bool,
) -> Vec<u8> {
    Connected {
        protocol_version: 0,
        timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
        session: session.as_i64(),
        password: Secret(password),
        read_only: connect.read_only.map(|_| is_read_only),
    }
    .encode()
}

/// Encodes the reply to a client whose session is over.
pub(super) fn expired(connect: &Connect) -> Vec<u8> {
    Connected {
        protocol_version: 0,
        timeout: 0,
        session: 0,
        password: Secret(vec![0; 16]),
        read_only: connect.read_only.map(|_| false),
    }
    .encode()
}

/// Encodes a watch event.
pub(super) fn event(trigger: &Trigger, zxid: Option<i64>) -> Vec<u8> {
    let kind = match trigger.event {
        WatchEvent::Created => WatchEventKind::Created,
        WatchEvent::Deleted => WatchEventKind::Deleted,
        WatchEvent::DataChanged => WatchEventKind::DataChanged,
        WatchEvent::ChildrenChanged => WatchEventKind::ChildrenChanged,
        // No server reports any other.
        _ => return Vec::new(),
    };
    notification(kind, trigger.path.as_str(), zxid.unwrap_or(-1))
}

fn stat_of(stat: &zk_core::Stat) -> Stat {
    let millis = |since: Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: millis(stat.ctime.duration_since(UNIX_EPOCH).unwrap_or_default()),
        mtime: millis(stat.mtime.duration_since(UNIX_EPOCH).unwrap_or_default()),
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner.map_or(0, SessionId::as_i64),
        data_length: number(stat.data_length),
        num_children: number(stat.num_children),
        pzxid: stat.pzxid,
    }
}

fn acl_of(acl: &Acl) -> Vec<AclEntry> {
    let entries = acl.entries().iter();
    entries
        .map(|entry| AclEntry {
            permissions: bits_of(entry.permissions()),
            scheme: entry.scheme().to_owned(),
            id: entry.id().to_owned(),
        })
        .collect()
}

fn bits_of(permissions: Permissions) -> i32 {
    let bits = PERMISSIONS
        .iter()
        .filter(|(_, one)| permissions.contains(*one));
    bits.map(|(bit, _)| bit).sum()
}

/// Returns the permissions that a number stands for.
pub(super) fn permissions_of(bits: i32) -> Permissions {
    let granted = PERMISSIONS.iter().filter(|(bit, _)| bits & bit != 0);
    granted.fold(Permissions::NONE, |all, (_, one)| all | *one)
}

/// Returns the error code of a refusal.
pub(super) fn code_of(kind: ErrorKind) -> i32 {
    match kind {
        ErrorKind::Unsupported => -6,
        ErrorKind::InvalidPath | ErrorKind::InvalidArgument => BAD_ARGUMENTS,
        ErrorKind::NoNode => -101,
        ErrorKind::NoAuth => -102,
        ErrorKind::BadVersion => -103,
        ErrorKind::ParentIsEphemeral => -108,
        ErrorKind::NodeExists => -110,
        ErrorKind::NotEmpty => -111,
        ErrorKind::SessionExpired | ErrorKind::SessionClosed => SESSION_EXPIRED,
        ErrorKind::InvalidAcl => -114,
        ErrorKind::AuthFailed => AUTH_FAILED,
        ErrorKind::AuthRequired => -124,
        ErrorKind::SessionMoved => -118,
        ErrorKind::ReadOnlyServer => -119,
        ErrorKind::QuotaExceeded => -125,
        ErrorKind::Throttled => -127,
        _ => SYSTEM_ERROR,
    }
}

const PERMISSIONS: [(i32, Permissions); 5] = [
    (1, Permissions::READ),
    (2, Permissions::WRITE),
    (4, Permissions::CREATE),
    (8, Permissions::DELETE),
    (16, Permissions::ADMIN),
];

const OK: i32 = 0;
const SYSTEM_ERROR: i32 = -1;
const RUNTIME_INCONSISTENCY: i32 = -2;
pub(super) const BAD_ARGUMENTS: i32 = -8;
const SESSION_EXPIRED: i32 = -112;
pub(super) const AUTH_FAILED: i32 = -115;
