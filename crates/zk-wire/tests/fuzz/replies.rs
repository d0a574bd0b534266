//! What servers send, encoded without the crate's own code.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use zk_wire::proto::ReplyShape;
use zk_wire::{ErrorCode, Identity, MultiRefusal, SaslToken};

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

/// What follows the header of a reply, with the numbers and texts that are sent, whatever they stand for.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Empty,
    Created(Created),
    Stat(SentStat),
    Data {
        data: Bytes,
        stat: SentStat,
    },
    Acl {
        acl: Vec<SentRule>,
        stat: SentStat,
    },
    Children {
        names: Vec<String>,
        stat: Option<SentStat>,
    },
    Multi(std::result::Result<Vec<Part>, MultiRefusal>),
    MultiRead(Vec<std::result::Result<Read, ErrorCode>>),
    Paths(Vec<String>),
    Count(i32),
    Identities(Vec<Identity>),
    Token(SaslToken),
}

#[derive(Debug, Clone)]
pub(crate) struct Created {
    pub(crate) path: String,
    pub(crate) stat: Option<SentStat>,
}

/// The result of one operation of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Created(Created),
    Deleted,
    Set(SentStat),
    Checked,
}

/// The result of one of several reads.
#[derive(Debug, Clone)]
pub(crate) enum Read {
    Data { data: Bytes, stat: SentStat },
    Children(Vec<String>),
}

/// An access rule.
#[derive(Debug, Clone)]
pub(crate) struct SentRule {
    pub(crate) permissions: i32,
    pub(crate) scheme: String,
    pub(crate) id: String,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SentStat {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) cversion: i32,
    pub(crate) aversion: i32,
    pub(crate) ephemeral_owner: i64,
    pub(crate) data_length: i32,
    pub(crate) num_children: i32,
    pub(crate) pzxid: i64,
}

/// Draws a reply of a shape.
pub(crate) fn draw(shape: ReplyShape, from: &mut Unstructured<'_>) -> Result<Body> {
    Ok(match shape {
        ReplyShape::Path => Body::Created(Created {
            path: path(from)?,
            stat: None,
        }),
        ReplyShape::PathAndStat => Body::Created(Created {
            path: path(from)?,
            stat: Some(stat(from)?),
        }),
        ReplyShape::Stat => Body::Stat(stat(from)?),
        ReplyShape::Data => Body::Data {
            data: data(from)?,
            stat: stat(from)?,
        },
        ReplyShape::Acl => Body::Acl {
            acl: list(from, |from| {
                Ok(SentRule {
                    permissions: from.arbitrary()?,
                    scheme: text(from)?,
                    id: text(from)?,
                })
            })?,
            stat: stat(from)?,
        },
        ReplyShape::Children => Body::Children {
            names: list(from, text)?,
            stat: None,
        },
        ReplyShape::ChildrenAndStat => Body::Children {
            names: list(from, text)?,
            stat: Some(stat(from)?),
        },
        ReplyShape::Multi if from.ratio(1, 3)? => Body::Multi(Err(MultiRefusal {
            index: usize::from(from.arbitrary::<u8>()? % 4),
            code: code(from)?,
        })),
        ReplyShape::Multi => Body::Multi(Ok(list(from, part)?)),
        ReplyShape::MultiRead => Body::MultiRead(list(from, |from| {
            Ok(match from.int_in_range(0..=2)? {
                0 => Ok(Read::Data {
                    data: data(from)?,
                    stat: stat(from)?,
                }),
                1 => Ok(Read::Children(list(from, text)?)),
                _ => Err(code(from)?),
            })
        })?),
        ReplyShape::Paths => Body::Paths(list(from, path)?),
        ReplyShape::Count => Body::Count(from.arbitrary()?),
        ReplyShape::Identities => Body::Identities(list(from, |from| {
            Ok(Identity {
                scheme: text(from)?,
                name: text(from)?,
            })
        })?),
        ReplyShape::Token => Body::Token(SaslToken(data(from)?)),
        _ => Body::Empty,
    })
}

fn part(from: &mut Unstructured<'_>) -> Result<Part> {
    Ok(match from.int_in_range(0..=4)? {
        0 => Part::Created(Created {
            path: path(from)?,
            stat: None,
        }),
        1 => Part::Created(Created {
            path: path(from)?,
            // One without a transaction was not filled in, and counts as none.
            stat: Some(SentStat {
                czxid: i64::from(from.arbitrary::<u8>()?) + 1,
                ..stat(from)?
            }),
        }),
        2 => Part::Deleted,
        3 => Part::Set(stat(from)?),
        _ => Part::Checked,
    })
}

impl Body {
    /// Encodes it.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Self::Empty => {}
            Self::Created(Created { path, stat }) => {
                to.bytes(path.as_bytes()).stat(stat.as_ref());
            }
            Self::Stat(stat) => {
                to.stat(Some(stat));
            }
            Self::Data { data, stat } => {
                to.bytes(data).stat(Some(stat));
            }
            Self::Acl { acl, stat } => {
                to.len(acl.len());
                for rule in acl {
                    to.int(rule.permissions).bytes(rule.scheme.as_bytes());
                    to.bytes(rule.id.as_bytes());
                }
                to.stat(Some(stat));
            }
            Self::Children { names, stat } => {
                to.texts(names).stat(stat.as_ref());
            }
            Self::Multi(Ok(parts)) => {
                for part in parts {
                    match part {
                        Part::Created(Created { path, stat: None }) => {
                            to.part(1).bytes(path.as_bytes())
                        }
                        Part::Created(Created { path, stat }) => {
                            to.part(15).bytes(path.as_bytes()).stat(stat.as_ref())
                        }
                        Part::Deleted => to.part(2),
                        Part::Set(stat) => to.part(5).stat(Some(stat)),
                        Part::Checked => to.part(13),
                    };
                }
                to.end();
            }
            Self::Multi(Err(refusal)) => {
                for _ in 0..refusal.index {
                    to.part(-1).int(0);
                }
                to.part(-1).int(refusal.code.code());
                to.part(-1).int(-2);
                to.end();
            }
            Self::MultiRead(reads) => {
                for read in reads {
                    match read {
                        Ok(Read::Data { data, stat }) => to.part(4).bytes(data).stat(Some(stat)),
                        Ok(Read::Children(names)) => to.part(8).texts(names),
                        Err(code) => to.part(-1).int(code.code()),
                    };
                }
                to.end();
            }
            Self::Paths(paths) => {
                to.texts(paths);
            }
            Self::Count(count) => {
                to.int(*count);
            }
            Self::Identities(identities) => {
                to.len(identities.len());
                for identity in identities {
                    to.bytes(identity.scheme.as_bytes());
                    to.bytes(identity.name.as_bytes());
                }
            }
            Self::Token(token) => {
                to.bytes(&token.0);
            }
        }
        to.0
    }
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

    fn stat(&mut self, stat: Option<&SentStat>) -> &mut Self {
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

fn stat(from: &mut Unstructured<'_>) -> Result<SentStat> {
    Ok(SentStat {
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

/// Draws the path of a node, or what is none.
pub(crate) fn path(from: &mut Unstructured<'_>) -> Result<String> {
    if from.ratio(1, 8)? {
        return text(from);
    }
    let names = from.int_in_range(0..=3)?;
    let names = (0..names).map(|_| from.choose(&NAMES).copied());
    let path = format!("/{}", names.collect::<Result<Vec<_>>>()?.join("/"));
    // Behind a chroot, it is the name of another node.
    let is_relative = from.ratio(1, 8)?;
    Ok(path[usize::from(is_relative)..].to_owned())
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

const NAMES: [&str; 8] = ["a", "b", "n-0000000001", "app", "le", ".a", "é", "日本"];
