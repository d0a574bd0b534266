//! What servers send, encoded without the crate's own code.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use zk_wire::proto::ReplyShape;
use zk_wire::{
    AclEntry, ErrorCode, Identity, MultiRefusal, MultiResult, ReadResult, Reply, SaslToken, Stat,
};

/// Every shape of a reply.
pub(crate) const SHAPES: [ReplyShape; 14] = [
    ReplyShape::Empty,
    ReplyShape::Path,
    ReplyShape::PathAndStat,
    ReplyShape::Stat,
    ReplyShape::Data,
    ReplyShape::Acl,
    ReplyShape::Children,
    ReplyShape::ChildrenAndStat,
    ReplyShape::Multi,
    ReplyShape::MultiRead,
    ReplyShape::Paths,
    ReplyShape::Count,
    ReplyShape::Identities,
    ReplyShape::Token,
];

/// Draws a reply of a shape.
pub(crate) fn draw(shape: ReplyShape, from: &mut Unstructured<'_>) -> Result<Reply> {
    Ok(match shape {
        ReplyShape::Path => Reply::Created {
            path: text(from)?,
            stat: None,
        },
        ReplyShape::PathAndStat => Reply::Created {
            path: text(from)?,
            stat: Some(stat(from)?),
        },
        ReplyShape::Stat => Reply::Stat(stat(from)?),
        ReplyShape::Data => Reply::Data {
            data: data(from)?,
            stat: stat(from)?,
        },
        ReplyShape::Acl => Reply::Acl {
            acl: list(from, |from| {
                Ok(AclEntry {
                    permissions: from.arbitrary()?,
                    scheme: text(from)?,
                    id: text(from)?,
                })
            })?,
            stat: stat(from)?,
        },
        ReplyShape::Children => Reply::Children {
            names: list(from, text)?,
            stat: None,
        },
        ReplyShape::ChildrenAndStat => Reply::Children {
            names: list(from, text)?,
            stat: Some(stat(from)?),
        },
        ReplyShape::Multi if from.ratio(1, 3)? => Reply::Multi(Err(MultiRefusal {
            index: usize::from(from.arbitrary::<u8>()? % 4),
            code: code(from)?,
        })),
        ReplyShape::Multi => Reply::Multi(Ok(list(from, |from| {
            Ok(match from.int_in_range(0..=4)? {
                0 => MultiResult::Created {
                    path: text(from)?,
                    stat: None,
                },
                1 => MultiResult::Created {
                    path: text(from)?,
                    // One without a transaction was not filled in, and counts as none.
                    stat: Some(Stat {
                        czxid: i64::from(from.arbitrary::<u8>()?) + 1,
                        ..stat(from)?
                    }),
                },
                2 => MultiResult::Deleted,
                3 => MultiResult::Set(stat(from)?),
                _ => MultiResult::Checked,
            })
        })?)),
        ReplyShape::MultiRead => Reply::MultiRead(list(from, |from| {
            Ok(match from.int_in_range(0..=2)? {
                0 => Ok(ReadResult::Data {
                    data: data(from)?,
                    stat: stat(from)?,
                }),
                1 => Ok(ReadResult::Children(list(from, text)?)),
                _ => Err(code(from)?),
            })
        })?),
        ReplyShape::Paths => Reply::Paths(list(from, text)?),
        ReplyShape::Count => Reply::Count(from.arbitrary()?),
        ReplyShape::Identities => Reply::Identities(list(from, |from| {
            Ok(Identity {
                scheme: text(from)?,
                name: text(from)?,
            })
        })?),
        ReplyShape::Token => Reply::Token(SaslToken(data(from)?)),
        _ => Reply::Empty,
    })
}

/// Encodes what follows the header of a reply.
pub(crate) fn body(reply: &Reply) -> Vec<u8> {
    let mut to = Writer::default();
    match reply {
        Reply::Empty => {}
        Reply::Created { path, stat } => {
            to.bytes(path.as_bytes()).stat(stat.as_ref());
        }
        Reply::Stat(stat) => {
            to.stat(Some(stat));
        }
        Reply::Data { data, stat } => {
            to.bytes(data).stat(Some(stat));
        }
        Reply::Acl { acl, stat } => {
            to.len(acl.len());
            for entry in acl {
                to.int(entry.permissions).bytes(entry.scheme.as_bytes());
                to.bytes(entry.id.as_bytes());
            }
            to.stat(Some(stat));
        }
        Reply::Children { names, stat } => {
            to.texts(names).stat(stat.as_ref());
        }
        Reply::Multi(Ok(results)) => {
            for result in results {
                match result {
                    MultiResult::Created { path, stat: None } => {
                        to.part(1).bytes(path.as_bytes());
                    }
                    MultiResult::Created { path, stat } => {
                        to.part(15).bytes(path.as_bytes()).stat(stat.as_ref());
                    }
                    MultiResult::Deleted => {
                        to.part(2);
                    }
                    MultiResult::Set(stat) => {
                        to.part(5).stat(Some(stat));
                    }
                    MultiResult::Checked => {
                        to.part(13);
                    }
                }
            }
            to.end();
        }
        Reply::Multi(Err(refusal)) => {
            for _ in 0..refusal.index {
                to.part(-1).int(0);
            }
            to.part(-1).int(refusal.code.code());
            to.part(-1).int(-2);
            to.end();
        }
        Reply::MultiRead(results) => {
            for result in results {
                match result {
                    Ok(ReadResult::Data { data, stat }) => to.part(4).bytes(data).stat(Some(stat)),
                    Ok(ReadResult::Children(names)) => to.part(8).texts(names),
                    Err(code) => to.part(-1).int(code.code()),
                };
            }
            to.end();
        }
        Reply::Paths(paths) => {
            to.texts(paths);
        }
        Reply::Count(count) => {
            to.int(*count);
        }
        Reply::Identities(identities) => {
            to.len(identities.len());
            for identity in identities {
                to.bytes(identity.scheme.as_bytes());
                to.bytes(identity.name.as_bytes());
            }
        }
        Reply::Token(token) => {
            to.bytes(&token.0);
        }
    }
    to.0
}

/// Encodes the payload of a reply's frame.
pub(crate) fn reply(xid: i32, zxid: i64, code: i32, body: &[u8]) -> Vec<u8> {
    let mut to = Writer::default();
    to.int(xid).long(zxid).int(code);
    to.0.extend_from_slice(body);
    to.0
}

/// Encodes the payload of a notification's frame.
pub(crate) fn notification(kind: i32, path: &str) -> Vec<u8> {
    let mut to = Writer::default();
    to.int(-1).long(-1).int(0);
    to.int(kind).int(3).bytes(path.as_bytes());
    to.0
}

/// Encodes the payload of the reply to a handshake; servers before 3.4 do not send the last field.
pub(crate) fn granted(
    timeout_millis: i32,
    session_id: i64,
    password: &[u8],
    is_read_only: Option<bool>,
) -> Vec<u8> {
    let mut to = Writer::default();
    to.int(0).int(timeout_millis).long(session_id);
    to.bytes(password);
    to.0.extend(is_read_only.map(u8::from));
    to.0
}

/// Returns a payload with its length in front.
pub(crate) fn framed(payload: &[u8]) -> Vec<u8> {
    let mut to = Writer::default();
    to.bytes(payload);
    to.0
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn len(&mut self, len: usize) -> &mut Self {
        self.int(i32::try_from(len).expect("it is short"))
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.len(bytes.len());
        self.0.extend_from_slice(bytes);
        self
    }

    fn texts(&mut self, texts: &[String]) -> &mut Self {
        self.len(texts.len());
        for text in texts {
            self.bytes(text.as_bytes());
        }
        self
    }

    fn stat(&mut self, stat: Option<&Stat>) -> &mut Self {
        let Some(stat) = stat else { return self };
        self.long(stat.czxid).long(stat.mzxid);
        self.long(stat.ctime).long(stat.mtime);
        self.int(stat.version).int(stat.cversion).int(stat.aversion);
        self.long(stat.ephemeral_owner).int(stat.data_length);
        self.int(stat.num_children).long(stat.pzxid)
    }

    /// Appends the header of a part of a transaction.
    fn part(&mut self, opcode: i32) -> &mut Self {
        self.int(opcode);
        self.0.push(0);
        self.int(-1)
    }

    fn end(&mut self) {
        self.int(-1);
        self.0.push(1);
        self.int(-1);
    }
}

fn stat(from: &mut Unstructured<'_>) -> Result<Stat> {
    Ok(Stat {
        czxid: from.arbitrary()?,
        mzxid: from.arbitrary()?,
        ctime: from.arbitrary()?,
        mtime: from.arbitrary()?,
        version: from.arbitrary()?,
        cversion: from.arbitrary()?,
        aversion: from.arbitrary()?,
        ephemeral_owner: from.arbitrary()?,
        data_length: from.arbitrary()?,
        num_children: from.arbitrary()?,
        pzxid: from.arbitrary()?,
    })
}

fn data(from: &mut Unstructured<'_>) -> Result<Bytes> {
    let len = usize::from(from.arbitrary::<u8>()? % 32).min(from.len());
    from.bytes(len).map(Bytes::copy_from_slice)
}

fn text(from: &mut Unstructured<'_>) -> Result<String> {
    let bytes = data(from)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn code(from: &mut Unstructured<'_>) -> Result<ErrorCode> {
    let code = from.arbitrary()?;
    Ok(ErrorCode::new(code).unwrap_or(ErrorCode::NO_NODE))
}

fn list<T>(
    from: &mut Unstructured<'_>,
    item: impl Fn(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let len = from.int_in_range(0..=5)?;
    (0..len).map(|_| item(from)).collect()
}
