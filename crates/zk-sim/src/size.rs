//! Computes the size of requests and replies on the wire.
//!
//! Pure: no I/O and no clock.

use zk_core::transport::{
    Bytes, CreateMode, CreateRequest, Op, ReadResult, Request, TransportError,
};
use zk_core::{Acl, NodePath};

use crate::server_reply::ServerReply;

/// Returns the bytes of a request without its length prefix, which servers compare with their `jute.maxbuffer`.
pub(crate) fn of(request: &Request) -> usize {
    HEADER
        + match request {
            Request::Create(create) => of_create(create),
            Request::Delete { path, .. } | Request::AddWatch { path, .. } => text(path) + INT,
            Request::Get { path, .. }
            | Request::Exists { path, .. }
            | Request::List { path, .. } => text(path) + FLAG,
            Request::Set { path, data, .. } => text(path) + bytes(data) + INT,
            Request::Sync { path } | Request::GetAcl { path } | Request::CountBelow { path } => {
                text(path)
            }
            Request::SetAcl { path, acl, .. } => text(path) + rules(acl) + INT,
            Request::MultiRead(reads) => {
                let parts = reads
                    .iter()
                    .map(|read| PART_HEADER + text(read.path()) + FLAG);
                parts.sum::<usize>() + PART_HEADER
            }
            Request::Ephemerals { prefix } => INT + prefix.len(),
            Request::WhoAmI => 0,
            Request::GetConfig => INT + CONFIG.len() + FLAG,
            Request::Transaction(changes) => {
                changes.iter().map(of_change).sum::<usize>() + PART_HEADER
            }
        }
}

/// Returns the bytes of a reply or an error with its length prefix; rare replies count as a stat.
pub(crate) fn of_answer(answer: Option<&ServerReply>) -> usize {
    INT + REPLY_HEADER
        + match answer {
            Some(ServerReply::Data { data, .. }) => bytes(data) + STAT,
            Some(ServerReply::Children { names, .. }) => {
                INT + names.iter().map(|name| INT + name.len()).sum::<usize>() + STAT
            }
            Some(ServerReply::Stat(_) | ServerReply::Set(_) | ServerReply::Acl { .. }) => STAT,
            Some(ServerReply::Created { path, .. }) => text(path) + STAT,
            Some(ServerReply::Reads(results)) => {
                results.iter().map(of_read).sum::<usize>() + PART_HEADER
            }
            Some(ServerReply::Committed(parts)) => parts.len() * (PART_HEADER + STAT),
            Some(
                ServerReply::Deleted
                | ServerReply::Synced
                | ServerReply::Watching
                | ServerReply::Identities(_)
                | ServerReply::Paths(_)
                | ServerReply::Count(_)
                | ServerReply::Wire(_)
                | ServerReply::Closed,
            )
            | None => 0,
        }
}

/// Returns the bytes of a watch event with its length prefix.
pub(crate) fn of_notice(path: &NodePath) -> usize {
    INT + REPLY_HEADER + 2 * INT + text(path)
}

fn of_read(result: &Result<ReadResult, TransportError>) -> usize {
    PART_HEADER
        + match result {
            Ok(ReadResult::Data { data, .. }) => bytes(data) + STAT,
            Ok(ReadResult::Children(names)) => {
                INT + names.iter().map(|name| INT + name.len()).sum::<usize>()
            }
            Err(_) => INT,
        }
}

fn of_change(change: &Op) -> usize {
    PART_HEADER
        + match change {
            Op::Check { path, .. } | Op::Delete { path, .. } => text(path) + INT,
            Op::Create(create) => of_create(create),
            Op::Set { path, data, .. } => text(path) + bytes(data) + INT,
        }
}

fn of_create(create: &CreateRequest) -> usize {
    let ttl = match create.mode {
        CreateMode::Persistent { ttl: Some(_), .. } => LONG,
        _ => 0,
    };
    text(&create.path) + bytes(&create.data) + rules(&create.acl) + INT + ttl
}

fn text(path: &NodePath) -> usize {
    INT + path.as_str().len()
}

fn bytes(data: &Bytes) -> usize {
    INT + data.as_slice().len()
}

fn rules(acl: &Acl) -> usize {
    let entries = acl.entries().iter();
    INT + entries
        .map(|entry| 3 * INT + entry.scheme().len() + entry.id().len())
        .sum::<usize>()
}

/// The node with the configuration of the ensemble.
const CONFIG: &str = "/zookeeper/config";
const FLAG: usize = 1;
const STAT: usize = 6 * LONG + 5 * INT;
/// The request's xid, the zxid and the error code.
const REPLY_HEADER: usize = 2 * INT + LONG;
const INT: usize = 4;
const LONG: usize = 8;
/// The xid and the type of a request.
const HEADER: usize = 2 * INT;
/// The type of a part, whether it is the last, and an error code.
const PART_HEADER: usize = 2 * INT + FLAG;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_on_the_wire() {
        let path = NodePath::parse("/abc").unwrap();
        let create = CreateRequest {
            path: path.clone(),
            data: Bytes::from(&b"12345"[..]),
            mode: CreateMode::Container,
            acl: Acl::open(),
        };
        // The ACL: a count, permissions, and "world" and "anyone" with their lengths.
        let body = (4 + 4) + (4 + 5) + (4 + 4 + 4 + 5 + 4 + 6) + 4;
        assert_eq!(of(&Request::Create(create.clone())), 8 + body);
        assert_eq!(of(&Request::Sync { path: path.clone() }), 8 + 8);
        assert_eq!(
            of(&Request::Transaction(vec![
                Op::Create(create),
                Op::Delete {
                    path,
                    version: None
                }
            ])),
            8 + (9 + body) + (9 + 8 + 4) + 9
        );
    }
}
