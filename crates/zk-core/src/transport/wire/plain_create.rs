//! Creates nodes on servers before 3.5, which know `create` only: its reply has no stat.
//!
//! The stat is read behind the create. Without it there is no success: a time that this machine makes up would be taken for
//! that of the leader. If the read fails, the reply to the create counts as lost, and its outcome is found out as that of
//! every lost reply; if the node is gone by then, the outcome is unknown, so that the create is not repeated.

use std::time::SystemTime;

use tokio::time::Instant;
use zk_wire as wire;
use zk_wire::{NewNode, NodePath, Request, SessionId, Stat};

use super::{Answer, LinkReceiver, Response, TransportError, ask, header, response};

/// Returns a request with `create` for each `create2`; `None` if it has none.
pub(super) fn plain(request: &Request) -> Option<Request> {
    let plain = |op: &wire::MultiOp| match op {
        wire::MultiOp::Create2(node) => wire::MultiOp::Create(node.clone()),
        op => op.clone(),
    };
    match request {
        Request::Create2(node) => Some(Request::Create(node.clone())),
        Request::Multi(ops) => Some(Request::Multi(ops.iter().map(plain).collect())),
        _ => None,
    }
}

/// Sends `plain` for a request, and completes its reply.
pub(super) async fn send(
    client: &wire::Client,
    session_id: SessionId,
    request: &Request,
    plain: &Request,
    link: LinkReceiver,
    deadline: Option<Instant>,
) -> Answer {
    let answer = ask(client, plain, deadline).await;
    let header = header(&answer);
    let result = match (request, answer) {
        (
            Request::Create2(create),
            Ok(wire::Answer {
                reply: wire::Reply::Created { path, .. },
                zxid,
                ..
            }),
        ) => match time_of(client, zxid, &path, deadline).await {
            Ok(time) => Ok(Response::Created {
                path,
                stat: stat(session_id, create, zxid, time),
            }),
            Err(fault) => Err(fault),
        },
        (_, answer) => response(request, answer, link),
    };
    Answer { result, header }
}

/// Returns when a transaction created a node.
async fn time_of(
    client: &wire::Client,
    zxid: i64,
    path: &NodePath,
    deadline: Option<Instant>,
) -> Result<SystemTime, TransportError> {
    let exists = Request::Exists {
        path: path.clone(),
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
fn stat(session_id: SessionId, create: &NewNode, zxid: i64, time: SystemTime) -> Stat {
    Stat {
        czxid: zxid,
        mzxid: zxid,
        pzxid: zxid,
        ctime: time,
        mtime: time,
        ephemeral_owner: create.mode.is_ephemeral().then_some(session_id),
        data_length: u32::try_from(create.data.as_slice().len()).unwrap_or(u32::MAX),
        ..Stat::default()
    }
}

#[cfg(test)]
mod tests {
    use zk_wire::{Acl, CreateMode, MultiOp};

    use super::*;

    const ZXID: i64 = 0x1_0000_0007;

    fn node(mode: CreateMode) -> NewNode {
        NewNode {
            path: NodePath::parse("/a").unwrap(),
            data: b"data".to_vec().into(),
            acl: Acl::open(),
            mode,
        }
    }

    #[test]
    fn the_stat_is_that_of_the_creation() {
        let session = SessionId::from_i64(5);
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        for (mode, ephemeral_owner) in [
            (CreateMode::EphemeralSequential, Some(session)),
            (CreateMode::Persistent, None),
        ] {
            let expected = Stat {
                czxid: ZXID,
                mzxid: ZXID,
                pzxid: ZXID,
                ctime: time,
                mtime: time,
                data_length: 4,
                ephemeral_owner,
                ..Stat::default()
            };
            assert_eq!(stat(session, &node(mode), ZXID, time), expected);
        }
    }

    #[test]
    fn every_create2_becomes_a_create() {
        let node = node(CreateMode::EphemeralSequential);
        let check = MultiOp::Check {
            path: NodePath::parse("/b").unwrap(),
            version: None,
        };
        let instead = plain(&Request::Create2(node.clone()));
        assert_eq!(instead, Some(Request::Create(node.clone())));
        let create2 = MultiOp::Create2(node.clone());
        let instead = plain(&Request::Multi(vec![check.clone(), create2]));
        let expected = Request::Multi(vec![check, MultiOp::Create(node)]);
        assert_eq!(instead, Some(expected));
        assert_eq!(plain(&Request::WhoAmI), None);
    }
}
