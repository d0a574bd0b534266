//! Encodes replies and watch notifications in full, for a program that answers requests.
//!
//! Pure: no I/O and no clock.

use super::frame;
use super::jute::Encoder;
use super::op::Op;
use super::record::{AclEntry, Stat};
use super::reply::NOTIFICATION;

/// The content of a reply, by what the reply to an operation contains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a server makes each of these; the module may change in any release"
)]
pub enum ReplyBody {
    /// Nothing: of pings, deletes, credentials, other requests about watches, the end of the session, and refusals.
    Empty,
    /// A path: of [`Op::Create`] and [`Op::Sync`].
    Path(String),
    /// The path and stat of a new node: of the other creates.
    Created(String, Stat),
    /// A stat: of [`Op::Exists`], [`Op::SetData`] and [`Op::SetAcl`].
    Stat(Stat),
    /// Data and stat: of [`Op::GetData`] and [`Op::Reconfig`].
    Data(Vec<u8>, Stat),
    /// An access list and a stat: of [`Op::GetAcl`].
    Acl(Vec<AclEntry>, Stat),
    /// Names or paths: of [`Op::GetChildren`] and [`Op::GetEphemerals`].
    Names(Vec<String>),
    /// Names and a stat: of [`Op::GetChildren2`].
    Children(Vec<String>, Stat),
    /// A number: of [`Op::GetAllChildrenNumber`]; always 0 of [`Op::AddWatch`].
    Number(i32),
    /// Identities, each a scheme and an id: of [`Op::WhoAmI`].
    Identities(Vec<(String, String)>),
    /// A token, or none: of [`Op::Sasl`].
    Token(Option<Vec<u8>>),
    /// The results of the parts: of [`Op::Multi`] and [`Op::MultiRead`].
    Parts(Vec<PartResult>),
}

/// The result of one part of a transaction, or of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these two")]
pub enum PartResult {
    /// It was carried out. The operation is the one that the server names: [`Op::Create`] without and
    /// [`Op::Create2`] with a stat, otherwise that of the request.
    Done(Op, ReplyBody),
    /// It was not carried out, for this error code. 0 marks a part before the refused one of a transaction, and
    /// -2 a part after it.
    Refused(i32),
}

/// What happened to a watched node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum WatchEventKind {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
    /// Its data was changed.
    DataChanged,
    /// A child of it was created or deleted.
    ChildrenChanged,
}

impl ReplyBody {
    /// Encodes a reply as a frame: with the number of its request, the newest transaction that the server has applied,
    /// and an error code, or 0. The body of a refusal is [`Empty`](Self::Empty).
    pub fn encode(&self, xid: i32, zxid: i64, code: i32) -> Vec<u8> {
        let mut to = Encoder::default();
        to.int(xid).long(zxid).int(code);
        self.append(&mut to);
        frame::wrap(&to.finish())
    }

    fn append(&self, to: &mut Encoder) {
        match self {
            Self::Empty => {}
            Self::Path(path) => {
                to.string(path);
            }
            Self::Created(path, stat) => {
                to.string(path);
                stat.encode(to);
            }
            Self::Stat(stat) => stat.encode(to),
            Self::Data(data, stat) => {
                to.buffer(data);
                stat.encode(to);
            }
            Self::Acl(acl, stat) => {
                to.list(acl, |to, entry| entry.encode(to));
                stat.encode(to);
            }
            Self::Names(names) => {
                names_to(to, names);
            }
            Self::Children(names, stat) => {
                names_to(to, names);
                stat.encode(to);
            }
            Self::Number(number) => {
                to.int(*number);
            }
            Self::Identities(identities) => {
                to.list(identities, |to, (scheme, id)| {
                    to.string(scheme).string(id);
                });
            }
            Self::Token(Some(token)) => {
                to.buffer(token);
            }
            Self::Token(None) => {
                to.int(NULL);
            }
            Self::Parts(parts) => {
                for part in parts {
                    part.append(to);
                }
                part_header(to, NO_OP, true, -1);
            }
        }
    }
}

impl PartResult {
    fn append(&self, to: &mut Encoder) {
        match self {
            Self::Done(op, body) => {
                part_header(to, op.code(), false, 0);
                body.append(to);
            }
            Self::Refused(code) => {
                part_header(to, NO_OP, false, *code);
                to.int(*code);
            }
        }
    }
}

/// Encodes a watch notification as a frame; `zxid` is -1 on servers before 3.9 (ZOOKEEPER-4655).
pub fn notification(kind: WatchEventKind, path: &str, zxid: i64) -> Vec<u8> {
    let mut to = Encoder::default();
    to.int(NOTIFICATION).long(zxid).int(0);
    to.int(match kind {
        WatchEventKind::Created => 1,
        WatchEventKind::Deleted => 2,
        WatchEventKind::DataChanged => 3,
        WatchEventKind::ChildrenChanged => 4,
    });
    to.int(CONNECTED).string(path);
    frame::wrap(&to.finish())
}

fn part_header(to: &mut Encoder, code: i32, is_end: bool, error: i32) {
    to.int(code).bool(is_end).int(error);
}

fn names_to(to: &mut Encoder, names: &[String]) {
    to.list(names, |to, name| {
        to.string(name);
    });
}

/// The state of the session in a notification.
const CONNECTED: i32 = 3;
/// The operation of a refused part and of the end.
const NO_OP: i32 = -1;
/// The length of a buffer that is null.
const NULL: i32 = -1;

#[cfg(test)]
mod tests;
