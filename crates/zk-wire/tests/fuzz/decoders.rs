//! The decoders of everything that servers send, given arbitrary bytes and given replies.

use std::time::Duration;

use arbitrary::Unstructured;
use bytes::Bytes;
use zk_wire::proto::{ConnectResponse, DecodeError, Incoming, ReplyShape};
use zk_wire::{ErrorCode, NodePath, Reply, WatchEvent, WatchEventKind};

use crate::meaning;
use crate::replies::{self, Body, SHAPES};

/// What is decoded.
#[derive(Debug)]
pub(crate) enum Input {
    /// Bytes as they are, the first of them alone, and more behind them.
    Bytes {
        what: What,
        bytes: Bytes,
        first: usize,
        more: Vec<u8>,
    },
    /// What a server encodes, and the first bytes of it.
    Reply {
        shape: ReplyShape,
        body: Body,
        first: usize,
    },
    Granted {
        timeout_millis: i32,
        session_id: i64,
        is_read_only: Option<bool>,
    },
    Notification {
        kind: i32,
        path: String,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Granted,
    Incoming,
    Reply(ReplyShape),
}

#[derive(Debug, PartialEq)]
enum Message {
    Granted(ConnectResponse),
    Incoming(Incoming),
    Reply(Reply),
}

impl Input {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut from = Unstructured::new(bytes);
        let drawn = Self::draw(&mut from);
        drawn.unwrap_or_else(|_| Self::Bytes {
            what: What::Incoming,
            bytes: Bytes::copy_from_slice(bytes),
            first: bytes.len() / 2,
            more: Vec::new(),
        })
    }

    fn draw(from: &mut Unstructured<'_>) -> arbitrary::Result<Self> {
        let shape = *from.choose(&SHAPES)?;
        Ok(match from.int_in_range(0..=9)? {
            0 => Self::Granted {
                timeout_millis: from.arbitrary()?,
                session_id: from.arbitrary()?,
                is_read_only: from.arbitrary()?,
            },
            1 => Self::Notification {
                kind: from.int_in_range(-2..=6)?,
                path: replies::path(from)?,
            },
            2..=4 => Self::Reply {
                shape,
                first: from.arbitrary::<u16>()?.into(),
                body: replies::draw(shape, from)?,
            },
            other => {
                let what = match other {
                    5 => What::Granted,
                    6 => What::Incoming,
                    _ => What::Reply(shape),
                };
                let first = from.arbitrary::<u8>()?.into();
                let more = usize::from(from.arbitrary::<u8>()? % 8).min(from.len());
                let more = from.bytes(more)?.to_vec();
                let bytes = Bytes::copy_from_slice(from.bytes(from.len())?);
                Self::Bytes {
                    what,
                    bytes,
                    first,
                    more,
                }
            }
        })
    }
}

/// Nothing panics, a message is what its own bytes say, and it holds no more than them.
pub(crate) fn check(input: &Input) {
    match input {
        Input::Bytes {
            what,
            bytes,
            first,
            more,
        } => arbitrary_bytes(*what, bytes, *first, more),
        Input::Reply { shape, body, first } => {
            let bytes = Bytes::from(body.encode());
            let decoded = Reply::decode(*shape, bytes.clone());
            assert_eq!(decoded, meaning::reply(body));
            let first = *first % bytes.len().max(1);
            if first < bytes.len() {
                let part = Reply::decode(*shape, bytes.slice(..first));
                let is_short = matches!(part, Err(DecodeError::Short { .. }));
                // A path in the part may be wrong already.
                let is_same = part.is_err() && part == decoded;
                assert!(
                    is_short || is_same,
                    "{first} of {} bytes: {part:?}",
                    bytes.len()
                );
            }
        }
        Input::Granted {
            timeout_millis,
            session_id,
            is_read_only,
        } => {
            let payload = replies::granted(*timeout_millis, *session_id, &[7; 16], *is_read_only);
            let millis = u64::try_from(*timeout_millis).unwrap_or_default();
            let expected = ConnectResponse {
                timeout: Duration::from_millis(millis),
                session_id: *session_id,
                password: Bytes::from_static(&[7; 16]),
                read_only: is_read_only.unwrap_or_default(),
            };
            assert_eq!(ConnectResponse::decode(payload.into()), Ok(expected));
        }
        Input::Notification { kind, path } => {
            let payload = replies::notification(*kind, path);
            let kind = match kind {
                1 => Some(WatchEventKind::Created),
                2 => Some(WatchEventKind::Deleted),
                3 => Some(WatchEventKind::DataChanged),
                4 => Some(WatchEventKind::ChildrenChanged),
                _ => None,
            };
            let expected = match NodePath::parse(path) {
                Ok(path) => Incoming::Notification(WatchEvent {
                    path,
                    kind,
                    zxid: None,
                }),
                Err(error) => Incoming::Unnamed(error),
            };
            assert_eq!(Incoming::decode(payload.into()), Ok(expected));
        }
    }
}

fn arbitrary_bytes(what: What, bytes: &Bytes, first: usize, more: &[u8]) {
    let whole = decode(what, bytes);
    let part = decode(what, &bytes.slice(..first.min(bytes.len())));
    let longer = decode(what, &[bytes, more].concat().into());
    match &whole {
        Ok(message) => {
            let held = held(message);
            assert!(held <= bytes.len(), "{held} of {} bytes", bytes.len());
            if is_bounded(message) {
                assert_eq!(longer.as_ref(), Ok(message), "what is behind it counts");
                match &part {
                    Ok(shorter) => assert_eq!(shorter, message),
                    Err(error) => assert!(is_short(error), "{error}"),
                }
            }
        }
        Err(error) if is_short(error) => assert!(part.is_err(), "{part:?} has too few bytes"),
        Err(error) => {
            let part = part.expect_err("its bytes are no message");
            assert!(is_short(&part) || part == *error, "{part}");
            assert_eq!(longer.as_ref(), Err(error));
        }
    }
}

fn decode(what: What, bytes: &Bytes) -> Result<Message, DecodeError> {
    let bytes = bytes.clone();
    match what {
        What::Granted => ConnectResponse::decode(bytes).map(Message::Granted),
        What::Incoming => Incoming::decode(bytes).map(Message::Incoming),
        What::Reply(shape) => Reply::decode(shape, bytes).map(Message::Reply),
    }
}

/// Returns whether the message ends where its own bytes say, not where the frame does.
fn is_bounded(message: &Message) -> bool {
    match message {
        Message::Granted(_) => false,
        Message::Incoming(incoming) => !matches!(incoming, Incoming::Reply { .. }),
        Message::Reply(_) => true,
    }
}

fn is_short(error: &DecodeError) -> bool {
    match error {
        DecodeError::Short { needed, left, .. } => {
            assert!(needed > left, "{error}");
            true
        }
        _ => false,
    }
}

/// Returns how many bytes of data, texts and items a message holds.
fn held(message: &Message) -> usize {
    fn texts(texts: &[String]) -> usize {
        texts.iter().map(|text| text.len() + 1).sum()
    }
    match message {
        Message::Granted(granted) => granted.password.len(),
        Message::Incoming(Incoming::Notification(event)) => event.path.as_str().len(),
        Message::Incoming(Incoming::Unnamed(error)) => error.path().len(),
        Message::Incoming(Incoming::Reply { body, .. }) => body.as_ref().map_or(0, Bytes::len),
        Message::Reply(reply) => match reply {
            Reply::Empty | Reply::Stat(_) | Reply::Count(_) | Reply::Multi(Err(_)) => 0,
            Reply::Created { path, .. } => path.as_str().len(),
            Reply::Data { data, .. } => data.as_slice().len(),
            Reply::Acl { acl, .. } => {
                let entries = acl.entries().iter();
                let sizes = entries.map(|entry| entry.scheme().len() + entry.id().len() + 1);
                sizes.sum()
            }
            Reply::Children { names, .. } => texts(names),
            Reply::Paths(paths) => paths.iter().map(|path| path.as_str().len() + 1).sum(),
            Reply::Multi(Ok(results)) => results.len(),
            Reply::MultiRead(results) => results.iter().map(read_size).sum(),
            Reply::Identities(identities) => {
                let sizes = identities
                    .iter()
                    .map(|one| one.scheme.len() + one.name.len() + 1);
                sizes.sum()
            }
            Reply::Token(token) => token.0.len(),
        },
    }
}

fn read_size(read: &Result<zk_wire::ReadResult, ErrorCode>) -> usize {
    match read {
        Ok(zk_wire::ReadResult::Data { data, .. }) => data.as_slice().len() + 1,
        Ok(zk_wire::ReadResult::Children(names)) => {
            names.iter().map(String::len).sum::<usize>() + 1
        }
        Err(_) => 1,
    }
}
