//! Every reply of the protocol, and the notifications of watches.
//!
//! Pure: no I/O and no clock.

use bytes::Bytes;

use super::DecodeError;
use super::error_code::ErrorCode;
use super::jute::Decoder;
use super::records::{SaslToken, WatchEventKind};
use super::request::{self, ReplyShape, Xid};
use crate::acl::Acl;
use crate::node_data::NodeData;
use crate::path::{NodePath, ParsePathError};
use crate::stat::Stat;

/// A message of a server, after the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum Incoming {
    /// A watch has fired.
    Notification(WatchEvent),
    /// A watch has fired for a node that no request can name, as `ClickHouse` Keeper has them.
    Unnamed(ParsePathError),
    /// The reply to a request.
    Reply {
        /// The number of the request.
        xid: Xid,
        /// The newest transaction that the server had applied; -1 or 0 where it does not say.
        zxid: i64,
        /// Why the request was refused, or what [`Reply::decode`] decodes.
        body: Result<Bytes, ErrorCode>,
    },
}

/// The change that a watch reported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct WatchEvent {
    /// The node.
    pub path: NodePath,
    /// What happened; `None` for a watch that was removed, and for other news than of a node.
    pub kind: Option<WatchEventKind>,
    /// The transaction; `None` before 3.9.
    pub zxid: Option<i64>,
}

impl Incoming {
    /// Decodes the payload of a frame.
    ///
    /// # Errors
    ///
    /// If it is no such message; the stream is of no use then.
    pub fn decode(payload: Bytes) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        let xid = from.int("the xid of a reply")?;
        let zxid = from.long("the zxid of a reply")?;
        let code = from.int("the error code of a reply")?;
        if xid == NOTIFICATION {
            let kind = from.int("the kind of a notification")?;
            from.int("the state in a notification")?;
            let path = from.string("the path of a notification")?;
            return Ok(match NodePath::parse(&path) {
                Ok(path) => Self::Notification(WatchEvent {
                    path,
                    kind: event_kind(kind),
                    zxid: (zxid > 0).then_some(zxid),
                }),
                Err(error) => Self::Unnamed(error),
            });
        }
        Ok(Self::Reply {
            xid: Xid::new(xid),
            zxid,
            body: match ErrorCode::new(code) {
                Some(error) => Err(error),
                None => Ok(from.into_rest()),
            },
        })
    }
}

/// What a request that was not refused has returned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one for each shape")]
pub enum Reply {
    /// Nothing more.
    Empty,
    /// The node was created.
    Created {
        /// Its path, with the number that a sequential mode adds.
        path: NodePath,
        /// Its stat, if the request asks for it.
        stat: Option<Stat>,
    },
    /// The stat of a node.
    Stat(Stat),
    /// Data of a node.
    Data {
        /// The data, a part of the frame that it was received in.
        data: NodeData,
        /// The stat.
        stat: Stat,
    },
    /// Access rules of a node.
    Acl {
        /// The rules.
        acl: Acl,
        /// The stat.
        stat: Stat,
    },
    /// Children of a node.
    Children {
        /// Their names, in no order.
        names: Vec<String>,
        /// The stat of the node, if the request asks for it.
        stat: Option<Stat>,
    },
    /// The results of a transaction, one for each operation.
    Multi(Result<Vec<MultiResult>, MultiRefusal>),
    /// The results of several reads, one for each.
    MultiRead(Vec<Result<ReadResult, ErrorCode>>),
    /// Paths of nodes.
    Paths(Vec<NodePath>),
    /// A number of nodes.
    Count(i32),
    /// Identities of a connection.
    Identities(Vec<Identity>),
    /// A step of a SASL exchange.
    Token(SaslToken),
}

/// The result of one operation of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum MultiResult {
    /// The node was created.
    Created {
        /// Its path, with the number that a sequential mode adds.
        path: NodePath,
        /// Its stat, if the operation asks for it; servers before 3.8.1 do not fill it in (ZOOKEEPER-4026).
        stat: Option<Stat>,
    },
    /// The node was deleted.
    Deleted,
    /// The data was replaced.
    Set(Stat),
    /// The version matched.
    Checked,
}

/// The result of one of several reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum ReadResult {
    /// Data of a node.
    Data {
        /// The data, a part of the frame that it was received in.
        data: NodeData,
        /// The stat.
        stat: Stat,
    },
    /// The names of a node's children, in no order.
    Children(Vec<String>),
}

/// A transaction was refused because of one of its operations, and nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("operation {index} was refused: {code}")]
#[expect(clippy::exhaustive_structs, reason = "the protocol says no more")]
pub struct MultiRefusal {
    /// Which operation, counted from zero.
    pub index: usize,
    /// Why.
    pub code: ErrorCode,
}

/// An identity of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Identity {
    /// The scheme, for example `digest`.
    pub scheme: String,
    /// The name, for example of the user.
    pub name: String,
}

impl Reply {
    /// Decodes what [`Incoming::Reply`] contains.
    ///
    /// Bytes behind it are ignored, as by ZooKeeper's own client: later releases may add something.
    ///
    /// # Errors
    ///
    /// If it has not this shape.
    pub fn decode(shape: ReplyShape, body: Bytes) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(body);
        Ok(match shape {
            ReplyShape::Empty => Self::Empty,
            ReplyShape::Path => Self::Created {
                path: from.path("the path of a new node")?,
                stat: None,
            },
            ReplyShape::PathAndStat => Self::Created {
                path: from.path("the path of a new node")?,
                stat: Some(Stat::decode(&mut from)?),
            },
            ReplyShape::Stat => Self::Stat(Stat::decode(&mut from)?),
            ReplyShape::Data => Self::Data {
                data: from.buffer("the data of a node")?.into(),
                stat: Stat::decode(&mut from)?,
            },
            ReplyShape::Acl => Self::Acl {
                acl: Acl::decode(&mut from)?,
                stat: Stat::decode(&mut from)?,
            },
            ReplyShape::Children => Self::Children {
                names: names(&mut from)?,
                stat: None,
            },
            ReplyShape::ChildrenAndStat => Self::Children {
                names: names(&mut from)?,
                stat: Some(Stat::decode(&mut from)?),
            },
            ReplyShape::Multi => Self::Multi(committed(&mut from)?),
            ReplyShape::MultiRead => Self::MultiRead(reads(&mut from)?),
            ReplyShape::Paths => Self::Paths(from.list("paths", |from| from.path("a path"))?),
            ReplyShape::Count => Self::Count(from.int("a number of nodes")?),
            ReplyShape::Identities => Self::Identities(from.list("identities", identity)?),
            ReplyShape::Token => Self::Token(SaslToken(from.buffer("a SASL token")?)),
        })
    }
}

fn names(from: &mut Decoder) -> Result<Vec<String>, DecodeError> {
    from.list("the names of children", |from| {
        from.string("the name of a child")
    })
}

fn identity(from: &mut Decoder) -> Result<Identity, DecodeError> {
    Ok(Identity {
        scheme: from.text("the scheme of an identity")?,
        name: from.text("the name of an identity")?,
    })
}

/// Decodes the results of a transaction. Each has a header of its own; the last header marks the end.
///
/// If the transaction was refused, all results are errors: 0 before the refused operation, and -2 behind it.
fn committed(from: &mut Decoder) -> Result<Result<Vec<MultiResult>, MultiRefusal>, DecodeError> {
    let mut results = Vec::new();
    let mut codes = Vec::new();
    while let Some(opcode) = part_header(from)? {
        match opcode {
            request::ERROR => codes.push(from.int("the error code of a result")?),
            request::CREATE => results.push(MultiResult::Created {
                path: from.path("the path of a new node")?,
                stat: None,
            }),
            request::CREATE2 | request::CREATE_CONTAINER | request::CREATE_TTL => {
                results.push(MultiResult::Created {
                    path: from.path("the path of a new node")?,
                    stat: Some(Stat::decode(from)?).filter(Stat::is_known),
                });
            }
            request::DELETE => results.push(MultiResult::Deleted),
            request::SET_DATA => results.push(MultiResult::Set(Stat::decode(from)?)),
            request::CHECK => results.push(MultiResult::Checked),
            value => return Err(unknown(value)),
        }
    }
    let mut codes = codes.into_iter().map(ErrorCode::new).enumerate();
    let refusal = codes.find_map(|(index, code)| Some(MultiRefusal { index, code: code? }));
    Ok(refusal.map_or(Ok(results), Err))
}

/// Decodes the results of several reads, which have the headers of [`committed`].
fn reads(from: &mut Decoder) -> Result<Vec<Result<ReadResult, ErrorCode>>, DecodeError> {
    let mut results = Vec::new();
    while let Some(opcode) = part_header(from)? {
        results.push(match opcode {
            request::ERROR => match ErrorCode::new(from.int("the error code of a read")?) {
                Some(code) => Err(code),
                None => return Err(unknown(opcode)),
            },
            request::GET_DATA => Ok(ReadResult::Data {
                data: from.buffer("the data of a node")?.into(),
                stat: Stat::decode(from)?,
            }),
            request::GET_CHILDREN => Ok(ReadResult::Children(names(from)?)),
            value => return Err(unknown(value)),
        });
    }
    Ok(results)
}

/// Takes the header of a result, and returns its opcode; `None` at the end.
fn part_header(from: &mut Decoder) -> Result<Option<i32>, DecodeError> {
    let opcode = from.int("the kind of a result")?;
    let is_end = from.bool("the end of the results")?;
    from.int("the error of a result")?;
    Ok((!is_end).then_some(opcode))
}

const fn unknown(value: i32) -> DecodeError {
    DecodeError::Unknown {
        what: "the kind of a result",
        value,
    }
}

const fn event_kind(kind: i32) -> Option<WatchEventKind> {
    match kind {
        1 => Some(WatchEventKind::Created),
        2 => Some(WatchEventKind::Deleted),
        3 => Some(WatchEventKind::DataChanged),
        4 => Some(WatchEventKind::ChildrenChanged),
        _ => None,
    }
}

/// The xid of a notification.
const NOTIFICATION: i32 = -1;
