//! Creates nodes on servers before 3.5, which know `create` only: its reply has no stat.
//!
//! The stat is read behind the create. Without it there is no success: a time that this machine makes up would be taken for
//! that of the leader. If the read fails, the reply to the create counts as lost, and its outcome is found out as that of
//! every lost reply; if the node is gone by then, the outcome is unknown, so that the create is not repeated.

use tokio::time::Instant;
use zk_wire as wire;

use super::{
    Answer, CreateMode, CreateRequest, LinkReceiver, NodePath, Request, Response, TransportError,
    ask, header, malformed, response, to_stat,
};

/// Returns a request with `create` for each `create2`; `None` if it has none.
pub(super) fn plain(request: &wire::Request) -> Option<wire::Request> {
    let plain = |op: &wire::MultiOp| match op {
        wire::MultiOp::Create2(node) => wire::MultiOp::Create(node.clone()),
        op => op.clone(),
    };
    match request {
        wire::Request::Create2(node) => Some(wire::Request::Create(node.clone())),
        wire::Request::Multi(ops) => Some(wire::Request::Multi(ops.iter().map(plain).collect())),
        _ => None,
    }
}

/// Sends `plain` for a request, and completes its reply.
pub(super) async fn send(
    client: &wire::Client,
    session_id: i64,
    request: &Request,
    plain: &wire::Request,
    link: LinkReceiver,
    deadline: Option<Instant>,
) -> Answer {
    let answer = ask(client, plain, deadline).await;
    let header = header(&answer);
    let result = match (request, answer) {
        (
            Request::Create(create),
            Ok(wire::Answer {
                reply: wire::Reply::Created { path, .. },
                zxid,
                ..
            }),
        ) => match time_of(client, zxid, &path, deadline).await {
            Ok(time) => created(&path, &stat(session_id, create, zxid, time)),
            Err(fault) => Err(fault),
        },
        (_, answer) => response(request, answer, link),
    };
    Answer { result, header }
}

/// Returns when a transaction created a node, in milliseconds since 1970.
async fn time_of(
    client: &wire::Client,
    zxid: i64,
    path: &str,
    deadline: Option<Instant>,
) -> Result<i64, TransportError> {
    let exists = wire::Request::Exists {
        path: path.to_owned(),
        watch: false,
    };
    let gone = "the node was created, and deleted before its stat was read";
    match ask(client, &exists, deadline).await {
        Ok(wire::Answer {
            reply: wire::Reply::Stat(stat),
            ..
        }) if stat.czxid == zxid => Ok(stat.ctime),
        Ok(_)
        | Err(wire::RequestError {
            kind: wire::RequestErrorKind::Refused { .. },
            ..
        }) => Err(TransportError::invalid_reply(gone.to_owned())),
        Err(error) => {
            let why = format!(
                "the node was created, and its stat was not read: {}",
                error.kind
            );
            Err(TransportError::Lost(why))
        }
    }
}

/// Returns the stat that a node of a session had when a transaction created it, whatever has changed it since.
fn stat(session_id: i64, create: &CreateRequest, zxid: i64, time: i64) -> wire::Stat {
    let is_ephemeral = matches!(create.mode, CreateMode::Ephemeral { .. });
    wire::Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: time,
        mtime: time,
        ephemeral_owner: if is_ephemeral { session_id } else { 0 },
        data_length: i32::try_from(create.data.as_slice().len()).unwrap_or(i32::MAX),
        ..wire::Stat::default()
    }
}

fn created(path: &str, stat: &wire::Stat) -> Result<Response, TransportError> {
    Ok(Response::Created {
        path: NodePath::parse(path).map_err(|error| malformed(&error))?,
        stat: to_stat(stat),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZXID: i64 = 0x1_0000_0007;

    #[test]
    fn the_stat_is_that_of_the_creation() {
        const SESSION: i64 = 5;
        for (mode, owner) in [
            (CreateMode::Ephemeral { sequential: true }, SESSION),
            (
                CreateMode::Persistent {
                    sequential: false,
                    ttl: None,
                },
                0,
            ),
        ] {
            let create = CreateRequest {
                path: NodePath::parse("/a").unwrap(),
                data: b"data".to_vec().into(),
                mode,
                acl: crate::acl::Acl::open(),
            };
            let expected = wire::Stat {
                czxid: ZXID,
                mzxid: ZXID,
                pzxid: ZXID,
                ctime: 1_000,
                mtime: 1_000,
                data_length: 4,
                ephemeral_owner: owner,
                ..wire::Stat::default()
            };
            assert_eq!(stat(SESSION, &create, ZXID, 1_000), expected);
        }
    }

    #[test]
    fn every_create2_becomes_a_create() {
        use wire::{MultiOp as Op, Request as Wire};
        let node = wire::NewNode {
            path: "/a".to_owned(),
            data: bytes::Bytes::from_static(b"data"),
            acl: vec![wire::AclEntry::open()],
            mode: wire::CreateMode::EphemeralSequential,
        };
        let check = Op::Check {
            path: "/b".to_owned(),
            version: None,
        };
        let instead = plain(&Wire::Create2(node.clone()));
        assert_eq!(instead, Some(Wire::Create(node.clone())));
        let instead = plain(&Wire::Multi(vec![check.clone(), Op::Create2(node.clone())]));
        let expected = Wire::Multi(vec![check, Op::Create(node)]);
        assert_eq!(instead, Some(expected));
        assert_eq!(plain(&Wire::WhoAmI), None);
    }
}
