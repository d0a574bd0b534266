//! Computes the size of requests and replies on the wire.
//!
//! Pure: no I/O and no clock.

use bytes::BytesMut;
use zk_core::NodePath;
use zk_core::transport::{NodeData, ReadResult, Request, TransportError};
use zk_wire::proto::Xid;

use crate::server_reply::ServerReply;

/// Returns the bytes of a request without its length prefix, which servers compare with their `jute.maxbuffer`.
pub(crate) fn of(request: &Request) -> usize {
    request.encode(Xid::FIRST, &mut BytesMut::new())
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

fn text(path: &NodePath) -> usize {
    INT + path.as_str().len()
}

fn bytes(data: &NodeData) -> usize {
    INT + data.as_slice().len()
}

const FLAG: usize = 1;
const STAT: usize = 6 * LONG + 5 * INT;
/// The request's xid, the zxid and the error code.
const REPLY_HEADER: usize = 2 * INT + LONG;
const INT: usize = 4;
const LONG: usize = 8;
/// The type of a part, whether it is the last, and an error code.
const PART_HEADER: usize = 2 * INT + FLAG;
