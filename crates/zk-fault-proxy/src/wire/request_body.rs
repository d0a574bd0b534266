//! Decodes requests in full, for a program that carries them out.
//!
//! The proxy needs only their paths: see [`Request`](super::Request).
//!
//! Pure: no I/O and no clock.

use super::jute::{DecodeError, Decoder};
use super::op::Op;
use super::record::AclEntry;
use super::secret::Secret;

/// A request with everything in it.
///
/// Null buffers and null lists are decoded as empty ones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a server handles each of these; the module may change in any release"
)]
pub enum RequestBody {
    /// [`Op::Create`], [`Op::Create2`], [`Op::CreateContainer`] and [`Op::CreateTtl`].
    Create(Create),
    /// [`Op::Delete`].
    Delete {
        /// The node.
        path: String,
        /// The version its data must have; -1 for any.
        version: i32,
    },
    /// [`Op::Exists`].
    Exists {
        /// The node.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// [`Op::GetData`].
    GetData {
        /// The node.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// [`Op::SetData`].
    SetData {
        /// The node.
        path: String,
        /// Its new data.
        data: Vec<u8>,
        /// The version its data must have; -1 for any.
        version: i32,
    },
    /// [`Op::GetAcl`].
    GetAcl {
        /// The node.
        path: String,
    },
    /// [`Op::SetAcl`].
    SetAcl {
        /// The node.
        path: String,
        /// Its new access list.
        acl: Vec<AclEntry>,
        /// The version its access list must have; -1 for any.
        version: i32,
    },
    /// [`Op::GetChildren`] and [`Op::GetChildren2`].
    GetChildren {
        /// The node.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// [`Op::Sync`].
    Sync {
        /// The node.
        path: String,
    },
    /// [`Op::Check`], which occurs within a transaction only.
    Check {
        /// The node.
        path: String,
        /// The version its data must have; -1 for any.
        version: i32,
    },
    /// [`Op::Multi`]: the operations of a transaction.
    Multi(Vec<Part>),
    /// [`Op::MultiRead`]: several reads.
    MultiRead(Vec<Part>),
    /// [`Op::SetWatches`] and [`Op::SetWatches2`].
    SetWatches(WatchLists),
    /// [`Op::AddWatch`].
    AddWatch {
        /// The node.
        path: String,
        /// 0 for a persistent watch, 1 for a recursive one.
        mode: i32,
    },
    /// [`Op::CheckWatches`] and [`Op::RemoveWatches`].
    Watches {
        /// The node.
        path: String,
        /// 1 for child watches, 2 for data watches, 3 for all; since 3.9 also 4 and 5 for persistent and recursive ones.
        kind: i32,
    },
    /// [`Op::GetEphemerals`].
    GetEphemerals {
        /// How the paths begin.
        prefix: String,
    },
    /// [`Op::GetAllChildrenNumber`].
    GetAllChildrenNumber {
        /// The node.
        path: String,
    },
    /// [`Op::Reconfig`].
    Reconfig {
        /// Servers to add, separated by commas.
        joining: String,
        /// Servers to remove, separated by commas.
        leaving: String,
        /// All servers, instead of the other two.
        members: String,
        /// The version of the configuration that is to change; -1 for any.
        version: i64,
    },
    /// [`Op::Auth`].
    Auth {
        /// Always 0.
        kind: i32,
        /// How the credentials are checked, for example `digest`.
        scheme: String,
        /// The credentials.
        credentials: Secret,
    },
    /// [`Op::Sasl`].
    Sasl {
        /// The token of the mechanism.
        token: Secret,
    },
    /// [`Op::Ping`], which has no fields.
    Ping,
    /// [`Op::WhoAmI`], which has no fields.
    WhoAmI,
    /// [`Op::CloseSession`], which has no fields.
    CloseSession,
    /// [`Op::Other`], not decoded.
    Other,
}

/// One operation of a transaction or of several reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Part {
    /// Its operation.
    pub op: Op,
    /// Its fields.
    pub body: RequestBody,
}

/// A node to create.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct Create {
    /// Its path, without the number of a sequential node.
    pub path: String,
    /// Its data.
    pub data: Vec<u8>,
    /// Its access list.
    pub acl: Vec<AclEntry>,
    /// 0 persistent, 1 ephemeral, 2 sequential, 3 both, 4 container, 5 with a time to live, 6 the same and sequential.
    pub flags: i32,
    /// The time to live in milliseconds, of [`Op::CreateTtl`] only.
    pub ttl: Option<i64>,
}

/// The watches that a client sets again after it has reconnected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct WatchLists {
    /// The newest transaction that the client has seen: a watch that has missed a later one fires at once.
    pub relative_zxid: i64,
    /// Nodes whose data is watched.
    pub data: Vec<String>,
    /// Missing nodes whose creation is watched.
    pub exist: Vec<String>,
    /// Nodes whose list of children is watched.
    pub child: Vec<String>,
    /// Nodes with a persistent watch; `None` in [`Op::SetWatches`], which has neither this nor the next list.
    pub persistent: Option<Vec<String>>,
    /// Nodes with a recursive persistent watch.
    pub recursive: Option<Vec<String>>,
}

impl RequestBody {
    /// Decodes the payload of a frame: the number of the request, its operation and its fields.
    ///
    /// # Errors
    ///
    /// If the payload is shorter than its operation requires, or has more bytes.
    pub fn decode(payload: &[u8]) -> Result<(i32, Op, Self), DecodeError> {
        let mut from = Decoder::new(payload);
        let xid = from.int("the xid of a request")?;
        let op = Op::from_code(from.int("the kind of a request")?);
        let body = match op {
            Op::Multi => Self::Multi(parts(&mut from)?),
            Op::MultiRead => Self::MultiRead(parts(&mut from)?),
            _ => fields(op, &mut from)?,
        };
        if body != Self::Other {
            from.end("a request")?;
        }
        Ok((xid, op, body))
    }

    /// Returns the paths of a request that reads a node or is about watches, in the order of the bytes.
    pub(super) fn paths(&self) -> Vec<String> {
        match self {
            Self::Exists { path, .. }
            | Self::GetData { path, .. }
            | Self::GetChildren { path, .. }
            | Self::AddWatch { path, .. }
            | Self::Watches { path, .. } => vec![path.clone()],
            Self::SetWatches(lists) => {
                let once = [&lists.data, &lists.exist, &lists.child];
                let persistent = [&lists.persistent, &lists.recursive];
                let lists = once.into_iter().chain(persistent.into_iter().flatten());
                lists.flatten().cloned().collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Decodes the fields of an operation that is not made of parts.
pub(super) fn fields(op: Op, from: &mut Decoder<'_>) -> Result<RequestBody, DecodeError> {
    Ok(match op {
        Op::Create | Op::Create2 | Op::CreateContainer | Op::CreateTtl => {
            RequestBody::Create(Create {
                path: from.path()?,
                data: from.buffer("the data of a node")?.to_vec(),
                acl: from.list("the length of an access list", AclEntry::decode)?,
                flags: from.int("the flags of a node")?,
                ttl: match op {
                    Op::CreateTtl => Some(from.long("the time to live of a node")?),
                    _ => None,
                },
            })
        }
        Op::Delete => RequestBody::Delete {
            path: from.path()?,
            version: from.int("a version")?,
        },
        Op::Exists => RequestBody::Exists {
            path: from.path()?,
            watch: from.bool("a watch")?,
        },
        Op::GetData => RequestBody::GetData {
            path: from.path()?,
            watch: from.bool("a watch")?,
        },
        Op::SetData => RequestBody::SetData {
            path: from.path()?,
            data: from.buffer("the data of a node")?.to_vec(),
            version: from.int("a version")?,
        },
        Op::GetAcl => RequestBody::GetAcl { path: from.path()? },
        Op::SetAcl => RequestBody::SetAcl {
            path: from.path()?,
            acl: from.list("the length of an access list", AclEntry::decode)?,
            version: from.int("a version")?,
        },
        Op::GetChildren | Op::GetChildren2 => RequestBody::GetChildren {
            path: from.path()?,
            watch: from.bool("a watch")?,
        },
        Op::Sync => RequestBody::Sync { path: from.path()? },
        Op::Check => RequestBody::Check {
            path: from.path()?,
            version: from.int("a version")?,
        },
        Op::SetWatches | Op::SetWatches2 => RequestBody::SetWatches(watch_lists(op, from)?),
        Op::AddWatch => RequestBody::AddWatch {
            path: from.path()?,
            mode: from.int("the mode of a watch")?,
        },
        Op::CheckWatches | Op::RemoveWatches => RequestBody::Watches {
            path: from.path()?,
            kind: from.int("the kind of a watch")?,
        },
        Op::GetEphemerals => RequestBody::GetEphemerals {
            prefix: from.path()?,
        },
        Op::GetAllChildrenNumber => RequestBody::GetAllChildrenNumber { path: from.path()? },
        Op::Reconfig => RequestBody::Reconfig {
            joining: from.string("the joining servers")?,
            leaving: from.string("the leaving servers")?,
            members: from.string("the members")?,
            version: from.long("the version of a configuration")?,
        },
        Op::Auth => RequestBody::Auth {
            kind: from.int("the kind of credentials")?,
            scheme: from.string("the scheme of credentials")?,
            credentials: Secret(from.buffer("credentials")?.to_vec()),
        },
        Op::Sasl => RequestBody::Sasl {
            token: Secret(from.buffer("a token")?.to_vec()),
        },
        Op::Ping => RequestBody::Ping,
        Op::WhoAmI => RequestBody::WhoAmI,
        Op::CloseSession => RequestBody::CloseSession,
        Op::Multi | Op::MultiRead | Op::Other(_) => RequestBody::Other,
    })
}

/// Decodes the operations of a transaction. Each has a header of its own; the last header marks the end.
fn parts(from: &mut Decoder<'_>) -> Result<Vec<Part>, DecodeError> {
    let mut parts = Vec::new();
    loop {
        let code = from.int("the kind of a part")?;
        let done = from.bool("the end of the parts")?;
        from.int("the error of a part")?;
        if done {
            return Ok(parts);
        }
        let op = Op::from_code(code);
        let body = fields(op, from)?;
        if body == RequestBody::Other {
            // Its length is unknown.
            return Err(DecodeError::unknown_kind("a part"));
        }
        parts.push(Part { op, body });
    }
}

fn watch_lists(op: Op, from: &mut Decoder<'_>) -> Result<WatchLists, DecodeError> {
    let relative_zxid = from.long("the newest zxid seen")?;
    let mut paths = || from.list("the number of watches", Decoder::path);
    let (data, exist, child) = (paths()?, paths()?, paths()?);
    let (persistent, recursive) = match op {
        Op::SetWatches2 => (Some(paths()?), Some(paths()?)),
        _ => (None, None),
    };
    Ok(WatchLists {
        relative_zxid,
        data,
        exist,
        child,
        persistent,
        recursive,
    })
}

#[cfg(test)]
mod tests;
