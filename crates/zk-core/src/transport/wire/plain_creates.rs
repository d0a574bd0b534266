//! Creates nodes on servers before 3.5, whose `create` does not return the stat of the new node.
//!
//! Sessions create nodes with `create2`. A server that does not know it refuses it, and then closes the connection; from
//! then on the session uses `create`, and reads the stat behind it. Every server knows both requests.
//!
//! The reply to a create names the transaction that created the node. A node found under its path counts only if it has
//! this transaction. If it has another one, or is not there, another client has deleted the node in between; then, and if
//! there is no second reply, the outcome is reported as unknown, and is decided by the rules for lost replies.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zk_wire as wire;

use super::Answer;
use super::LinkReceiver;
use super::NodePath;
use super::Request;
use super::Response;
use super::TransportError;
use super::fault;
use super::header;
use super::malformed;
use super::response;
use super::to_stat;

/// Whether the servers of a session have refused `create2`.
#[derive(Debug, Clone)]
pub(super) struct PlainCreates {
    client: wire::Client,
    was_refused: Arc<AtomicBool>,
}

impl PlainCreates {
    pub(super) fn new(client: wire::Client, assumed_release: Option<(u16, u16)>) -> Self {
        let would_be_refused = assumed_release.is_some_and(|release| release < (3, 5));
        Self {
            client,
            was_refused: Arc::new(AtomicBool::new(would_be_refused)),
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

    /// Waits until the connection is over on which a server has refused a request: one that it does not know. It closes
    /// the connection behind the refusal, and may still carry out what it reads meanwhile, without a reply.
    pub(super) async fn await_close(&self, refusal: &Result<wire::Answer, wire::RequestError>) {
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
        let _late = tokio::time::timeout(CLOSE_TIMEOUT, states.wait_for(is_over)).await;
    }

    /// Sends `plain` for a request, and completes its reply.
    pub(super) async fn send(
        &self,
        request: &Request,
        plain: wire::Request,
        link: LinkReceiver,
    ) -> Answer {
        let answer = self.client.request(&plain).await;
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
                    epoch,
                    ..
                }),
            ) => {
                let exists = wire::Request::Exists {
                    path: path.clone(),
                    watch: false,
                };
                let found = self.client.request(&exists).await;
                let found = found.map(|found| (found.reply, found.epoch));
                let created = Created {
                    path,
                    zxid,
                    epoch,
                    bytes: create.data.as_slice().len(),
                };
                created.with_stat(found.map_err(|error| error.kind))
            }
            (_, answer) => response(request, answer, link),
        };
        Answer { result, header }
    }
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
        use wire::ErrorCode as Code;
        use wire::RequestErrorKind as Kind;
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

/// The reply to a create without a stat.
struct Created {
    path: String,
    /// The transaction that created the node.
    zxid: i64,
    /// The number of the connection.
    epoch: u64,
    /// The length of the node's data.
    bytes: usize,
}

impl Created {
    /// Returns the reply with the stat of the node's creation, whatever has changed it since. `found` is the reply to
    /// `exists`, with the number of its connection.
    fn with_stat(
        self,
        found: Result<(wire::Reply, u64), wire::RequestErrorKind>,
    ) -> Result<Response, TransportError> {
        let why = match found {
            Ok((wire::Reply::Stat(stat), epoch))
                if (stat.czxid, epoch) == (self.zxid, self.epoch) =>
            {
                let stat = wire::Stat {
                    mzxid: stat.czxid,
                    pzxid: stat.czxid,
                    mtime: stat.ctime,
                    version: 0,
                    cversion: 0,
                    aversion: 0,
                    data_length: i32::try_from(self.bytes).unwrap_or(i32::MAX),
                    num_children: 0,
                    ..stat
                };
                return Ok(Response::Created {
                    path: NodePath::parse(&self.path).map_err(|error| malformed(&error))?,
                    stat: to_stat(&stat),
                });
            }
            Ok((_, epoch)) if epoch != self.epoch => "the connection broke".to_owned(),
            Ok(_)
            | Err(wire::RequestErrorKind::Refused {
                code: wire::ErrorCode::NO_NODE,
                ..
            }) => "another client deleted the node".to_owned(),
            Err(error) => match fault(&error) {
                TransportError::Ended(end) => return Err(TransportError::Ended(end)),
                _ => error.to_string(),
            },
        };
        Err(TransportError::Lost(format!(
            "{} was created, and before its stat was read: {why}",
            self.path
        )))
    }
}

/// How long a server may take to close a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionEnd;
    use crate::Stat;

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

    fn with_stat(
        found: Result<(wire::Reply, u64), wire::RequestErrorKind>,
    ) -> Result<Stat, TransportError> {
        let created = Created {
            path: "/a0000000001".to_owned(),
            zxid: ZXID,
            epoch: EPOCH,
            bytes: 4,
        };
        created.with_stat(found).map(|response| match response {
            Response::Created { path, stat } => {
                assert_eq!(path.as_str(), "/a0000000001");
                stat
            }
            other => panic!("{other:?}"),
        })
    }

    fn stat(czxid: i64) -> wire::Stat {
        wire::Stat {
            czxid,
            mzxid: czxid,
            pzxid: czxid,
            ctime: 1_000,
            mtime: 1_000,
            data_length: 4,
            ephemeral_owner: 5,
            ..wire::Stat::default()
        }
    }

    #[test]
    fn the_stat_is_that_of_the_creation() {
        let unchanged = to_stat(&stat(ZXID));
        let found = |stat| Ok((wire::Reply::Stat(stat), EPOCH));
        assert_eq!(with_stat(found(stat(ZXID))), Ok(unchanged));
        let changed = wire::Stat {
            mzxid: ZXID + 1,
            pzxid: ZXID + 2,
            mtime: 2_000,
            version: 1,
            cversion: 1,
            aversion: 1,
            data_length: 9,
            num_children: 1,
            ..stat(ZXID)
        };
        assert_eq!(
            with_stat(found(changed)),
            Ok(unchanged),
            "a version that the caller has not seen must not be passed on"
        );
    }

    #[test]
    fn a_node_that_was_not_found_is_an_unknown_outcome() {
        let refused = |code| {
            Err(wire::RequestErrorKind::Refused {
                code,
                zxid: ZXID,
                epoch: EPOCH,
            })
        };
        let lost = wire::RequestErrorKind::Unknown {
            epoch: EPOCH,
            why: wire::Loss::Broken("closed".to_owned()),
        };
        for (found, says) in [
            (
                Ok((wire::Reply::Stat(stat(ZXID + 1)), EPOCH)),
                "another client deleted the node",
            ),
            (
                refused(wire::ErrorCode::NO_NODE),
                "another client deleted the node",
            ),
            (
                Ok((wire::Reply::Stat(stat(ZXID)), EPOCH + 1)),
                "the connection broke",
            ),
            (refused(wire::ErrorCode::UNIMPLEMENTED), "Unimplemented"),
            (Err(lost), "closed"),
        ] {
            let Err(TransportError::Lost(message)) = with_stat(found) else {
                panic!("the create may not be repeated as if it was refused: {says}");
            };
            assert!(message.contains(says), "{message}");
        }
        let over = wire::NotSent::Over(wire::SessionEnd::Expired);
        let over = Err(wire::RequestErrorKind::NotSent(over));
        let expired = TransportError::Ended(SessionEnd::Expired);
        assert_eq!(with_stat(over), Err(expired));
    }

    #[test]
    fn only_what_3_4_knows_is_sent_instead() {
        use wire::CreateMode as Mode;
        use wire::MultiOp as Op;
        use wire::Request as Wire;
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
