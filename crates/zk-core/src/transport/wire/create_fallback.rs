//! Creates nodes on servers before 3.5, whose `create` does not return the stat of the new node.
//!
//! Sessions create nodes with `create2`. A server that does not know it refuses it, and then closes the connection; from
//! then on the session uses `create`, and reads the stat behind it. Every server knows both requests.
//!
//! The reply to a create names the transaction that created the node, so the outcome and the stat are known without the
//! second reply but for the time of the creation. It is read again after a connection loss. If the node is not found
//! (another client has deleted it), or cannot be read within two seconds and by the deadline, that is the time of this machine's clock. A
//! create that was answered is not repeated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use zk_wire as wire;

use super::{
    Answer, CreateMode, CreateRequest, LinkReceiver, NodePath, Request, Response, TransportError,
    ask, header, malformed, response, to_stat,
};

/// Whether the servers of a session have refused `create2`.
#[derive(Debug)]
pub(super) struct CreateFallback {
    pub(super) client: wire::Client,
    session_id: i64,
    was_refused: AtomicBool,
}

impl CreateFallback {
    pub(super) fn new(
        client: wire::Client,
        session_id: i64,
        assumed_release: Option<(u16, u16)>,
    ) -> Self {
        let would_be_refused = assumed_release.is_some_and(|release| release < (3, 5));
        Self {
            client,
            session_id,
            was_refused: AtomicBool::new(would_be_refused),
        }
    }

    /// Returns what to send instead of a request with `create2`, if the servers have refused one before.
    pub(super) fn instead_of(&self, request: &wire::Request) -> Option<wire::Request> {
        let was_refused = self.was_refused.load(Ordering::Relaxed);
        was_refused.then(|| plain(request)).flatten()
    }

    /// Returns what to send after the answer to a request, if it was refused as one that the server does not know.
    pub(super) fn after(
        &self,
        request: &wire::Request,
        answer: &Result<wire::Answer, wire::RequestError>,
    ) -> Option<wire::Request> {
        let error = answer.as_ref().err()?;
        let refusal = Refusal::of(request, &error.kind)?;
        let plain = plain(request)?;
        if refusal == Refusal::Certain {
            self.was_refused.store(true, Ordering::Relaxed);
        }
        Some(plain)
    }

    /// Waits for the end of the connection on which a server refused a request that it does not know. The server closes
    /// it, and meanwhile may carry out what it reads without replying.
    pub(super) async fn await_close(
        &self,
        refusal: &Result<wire::Answer, wire::RequestError>,
        deadline: Option<Instant>,
    ) {
        let Err(error) = refusal else {
            return;
        };
        let wire::RequestErrorKind::Refused {
            code: wire::ErrorCode::UNIMPLEMENTED,
            epoch: refused,
            ..
        } = error.kind
        else {
            return;
        };
        let mut states = self.client.states();
        let is_over = |state: &wire::ConnectionState| match state {
            wire::ConnectionState::Connected { epoch, .. } => *epoch != refused,
            _ => true,
        };
        // If it stays open, the request is sent on it.
        let until = within(CLOSE_TIMEOUT, deadline);
        let _late = tokio::time::timeout_at(until, states.wait_for(is_over)).await;
    }

    /// Sends `plain` for a request, and completes its reply.
    pub(super) async fn send(
        &self,
        request: &Request,
        plain: wire::Request,
        link: LinkReceiver,
        deadline: Option<Instant>,
    ) -> Answer {
        let answer = ask(&self.client, &plain, deadline).await;
        if answer.is_ok() {
            self.was_refused.store(true, Ordering::Relaxed);
        }
        let header = header(&answer);
        let result = match (request, answer) {
            (
                Request::Create(create),
                Ok(wire::Answer {
                    reply: wire::Reply::Created { path, .. },
                    zxid,
                    ..
                }),
            ) => {
                let until = within(STAT_TIMEOUT, deadline);
                let time = self.time_of(zxid, &path, until).await;
                created(&path, &stat(self.session_id, create, zxid, time))
            }
            (_, answer) => response(request, answer, link),
        };
        Answer { result, header }
    }

    /// Returns when a transaction created a node, in milliseconds since 1970.
    async fn time_of(&self, zxid: i64, path: &str, until: Instant) -> i64 {
        let exists = wire::Request::Exists {
            path: path.to_owned(),
            watch: false,
        };
        let read = async {
            loop {
                match self.client.request(&exists).await {
                    // On the next connection: callers rely on the clock of the leader.
                    Err(wire::RequestError {
                        kind: wire::RequestErrorKind::Unknown { why, .. },
                        ..
                    }) if !matches!(why, wire::Loss::ServerFailed(_)) => {}
                    answer => break answer,
                }
            }
        };
        let found = tokio::time::timeout_at(until, read).await;
        match found.map(|found| found.map(|found| found.reply)) {
            Ok(Ok(wire::Reply::Stat(stat))) if stat.czxid == zxid => stat.ctime,
            _ => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
            }
        }
    }
}

/// Returns the end of a wait that begins now, at the deadline at the latest.
fn within(wait: Duration, deadline: Option<Instant>) -> Instant {
    let end = Instant::now() + wait;
    deadline.map_or(end, |deadline| end.min(deadline))
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

/// Why a server did not carry out a request that it may not know.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It does not know it.
    Certain,
    /// It could not decode it.
    Possible,
}

impl Refusal {
    fn of(request: &wire::Request, error: &wire::RequestErrorKind) -> Option<Self> {
        use wire::{ErrorCode as Code, RequestErrorKind as Kind};
        match error {
            Kind::NotSent(wire::NotSent::Unsupported { .. })
            | Kind::Refused {
                code: Code::UNIMPLEMENTED,
                ..
            } => Some(Self::Certain),
            // Servers before 3.5 fail to decode a transaction with an operation that they do not know.
            Kind::Refused {
                code: Code::MARSHALLING_ERROR,
                ..
            } => matches!(request, wire::Request::Multi(_)).then_some(Self::Possible),
            _ => None,
        }
    }
}

/// Returns a request with `create` for each `create2`; `None` if it has none, or creates nodes that are unknown before
/// 3.5.
fn plain(request: &wire::Request) -> Option<wire::Request> {
    let plain = match request {
        wire::Request::Create2(node) => wire::Request::Create(node.clone()),
        wire::Request::Multi(ops) if ops.iter().any(is_create2) => {
            let plain = |op: &wire::MultiOp| match op {
                wire::MultiOp::Create2(node) => wire::MultiOp::Create(node.clone()),
                op => op.clone(),
            };
            wire::Request::Multi(ops.iter().map(plain).collect())
        }
        _ => return None,
    };
    plain.first_release().is_none().then_some(plain)
}

const fn is_create2(op: &wire::MultiOp) -> bool {
    matches!(op, wire::MultiOp::Create2(_))
}

/// How long a create that has succeeded waits for its stat.
const STAT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a server may take to close a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const ZXID: i64 = 0x1_0000_0007;
    const EPOCH: u64 = 3;

    fn node(mode: wire::CreateMode) -> wire::NewNode {
        wire::NewNode {
            path: "/a".to_owned(),
            data: bytes::Bytes::from_static(b"data"),
            acl: vec![wire::AclEntry::open()],
            mode,
        }
    }

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
    fn only_what_3_4_knows_is_sent_instead() {
        use wire::{CreateMode as Mode, MultiOp as Op, Request as Wire};
        let check = Op::Check {
            path: "/b".to_owned(),
            version: None,
        };
        let ttl = Mode::PersistentWithTtl(Duration::from_secs(1));
        for mode in [Mode::Persistent, Mode::EphemeralSequential] {
            let instead = plain(&Wire::Create2(node(mode)));
            assert_eq!(instead, Some(Wire::Create(node(mode))));
            let instead = plain(&Wire::Multi(vec![check.clone(), Op::Create2(node(mode))]));
            let expected = Wire::Multi(vec![check.clone(), Op::Create(node(mode))]);
            assert_eq!(instead, Some(expected));
        }
        for mode in [Mode::Container, ttl] {
            assert_eq!(plain(&Wire::Create2(node(mode))), None);
            assert_eq!(plain(&Wire::Multi(vec![Op::Create2(node(mode))])), None);
        }
        assert_eq!(plain(&Wire::Multi(vec![check])), None);
        assert_eq!(plain(&Wire::WhoAmI), None);
    }

    #[test]
    fn only_a_refusal_of_the_unknown_is_tried_again() {
        let create = wire::Request::Create2(node(wire::CreateMode::Persistent));
        let multi = wire::Request::Multi(vec![]);
        let refused = |code| wire::RequestErrorKind::Refused {
            code,
            zxid: ZXID,
            epoch: EPOCH,
        };
        let missing = wire::RequestErrorKind::NotSent(wire::NotSent::Unsupported {
            needs: wire::Release::new(3, 5, 0),
            release: wire::Release::new(3, 4, 13),
        });
        let unimplemented = refused(wire::ErrorCode::UNIMPLEMENTED);
        let malformed = refused(wire::ErrorCode::MARSHALLING_ERROR);
        for request in [&create, &multi] {
            for error in [&missing, &unimplemented] {
                assert_eq!(Refusal::of(request, error), Some(Refusal::Certain));
            }
            for code in [wire::ErrorCode::NODE_EXISTS, wire::ErrorCode::NO_NODE] {
                assert_eq!(Refusal::of(request, &refused(code)), None);
            }
            let lost = wire::RequestErrorKind::Unknown {
                epoch: EPOCH,
                why: wire::Loss::Broken("closed".to_owned()),
            };
            assert_eq!(Refusal::of(request, &lost), None, "it may be applied");
        }
        assert_eq!(Refusal::of(&create, &malformed), None);
        assert_eq!(Refusal::of(&multi, &malformed), Some(Refusal::Possible));
    }
}
