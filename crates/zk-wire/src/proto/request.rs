//! Every request of the protocol.
//!
//! Pure: no I/O and no clock.

use bytes::BytesMut;

use super::frame::put_frame;
use super::jute::Encoder;
use super::records::{Credentials, NewNode, SaslToken, WatchKind};
use crate::acl::Acl;
use crate::node_data::NodeData;
use crate::path::NodePath;

/// A request of a client.
///
/// A `version` of `None` means any version. The names are those of ZooKeeper, as are the meanings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// Creates a node; the reply is [`Reply::Created`](super::Reply::Created) without a stat for persistent and
    /// ephemeral nodes, and with one for containers and nodes with a time to live.
    Create(NewNode),
    /// As [`Create`](Self::Create), and the reply always has a stat; from 3.5 on.
    Create2(NewNode),
    /// Deletes a node without children.
    Delete {
        /// The node.
        path: NodePath,
        /// The version that it must have.
        version: Option<i32>,
    },
    /// Returns the stat of a node.
    Exists {
        /// The node.
        path: NodePath,
        /// Whether to set a watch, also if there is no node.
        watch: bool,
    },
    /// Returns the data of a node.
    GetData {
        /// The node.
        path: NodePath,
        /// Whether to set a watch, if there is a node.
        watch: bool,
    },
    /// Returns the configuration of the ensemble, which is the data of the node `/zookeeper/config` for every session, also
    /// for one with a [chroot](crate::Config::chroot); from 3.5 on, older servers have no such node.
    GetConfig {
        /// Whether to set a watch. Its events have the path of the node as the servers know it.
        watch: bool,
    },
    /// Replaces the data of a node.
    SetData {
        /// The node.
        path: NodePath,
        /// Its new data.
        data: NodeData,
        /// The version that it must have.
        version: Option<i32>,
    },
    /// Returns the access rules of a node.
    GetAcl {
        /// The node.
        path: NodePath,
    },
    /// Replaces the access rules of a node.
    SetAcl {
        /// The node.
        path: NodePath,
        /// Its new rules.
        acl: Acl,
        /// The version that its rules must have.
        version: Option<i32>,
    },
    /// Returns the names of the children of a node.
    GetChildren {
        /// The node.
        path: NodePath,
        /// Whether to set a watch.
        watch: bool,
    },
    /// As [`GetChildren`](Self::GetChildren), and returns the stat of the node.
    GetChildren2 {
        /// The node.
        path: NodePath,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Lets the server catch up with the leader.
    Sync {
        /// A node, which need not exist and makes no difference.
        path: NodePath,
    },
    /// A transaction: all operations are applied, or none.
    Multi(Vec<MultiOp>),
    /// Several reads, each with a result of its own; from 3.6 on.
    MultiRead(Vec<MultiRead>),
    /// Changes the members of the ensemble; from 3.5 on.
    Reconfig {
        /// The servers to add or change, separated by commas.
        joining: Option<String>,
        /// The ids of the servers to remove, separated by commas.
        leaving: Option<String>,
        /// All servers of the new ensemble, instead of the two above.
        new_members: Option<String>,
        /// The configuration that is to be changed, by the zxid that it was made with.
        version: Option<i64>,
    },
    /// Fails with [`NO_WATCHER`](super::ErrorCode::NO_WATCHER) if this session has no such watch; from 3.5 on.
    CheckWatches {
        /// The watched node.
        path: NodePath,
        /// The watches meant; `None` for those set by reads, whatever they are.
        kind: Option<WatchKind>,
    },
    /// Removes watches of this session; from 3.5 on.
    RemoveWatches {
        /// The watched node.
        path: NodePath,
        /// The watches meant; `None` for all.
        kind: Option<WatchKind>,
    },
    /// Sets a persistent watch; from 3.6 on.
    AddWatch {
        /// The node, which need not exist.
        path: NodePath,
        /// Whether the nodes below it are watched, too.
        recursive: bool,
    },
    /// Returns the paths of this session's ephemeral nodes; from 3.6 on.
    GetEphemerals {
        /// What the paths begin with, a slash at least. It is a text: `/a` is also the beginning of `/ab`.
        prefix: String,
    },
    /// Counts the nodes below a node; from 3.6 on.
    GetAllChildrenNumber {
        /// The node.
        path: NodePath,
    },
    /// Returns the identities of this connection; from 3.7 on.
    WhoAmI,
    /// Adds credentials to this connection only; [`Config::auth`](crate::Config::auth) is sent on every connection.
    Auth(Credentials),
    /// A step of a SASL exchange.
    Sasl(SaslToken),
    /// Sets the watches of a session on another connection; a [`Client`](crate::Client) does so itself. The server notifies at once of those that have fired.
    SetWatches {
        /// The newest transaction that the session has seen.
        last_zxid_seen: i64,
        /// The watched paths.
        lists: WatchLists,
    },
    /// Keeps the session alive; a [`Client`](crate::Client) sends this itself.
    Ping,
    /// Ends the session; the server replies when its ephemeral nodes are deleted. Use
    /// [`Client::close`](crate::Client::close), which waits for requests before it and knows that the session is closed.
    CloseSession,
}

/// The paths of a [`Request::SetWatches`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the record of the protocol")]
pub struct WatchLists {
    /// Of [`WatchKind::Data`].
    pub data: Vec<NodePath>,
    /// Of [`WatchKind::Exist`].
    pub exist: Vec<NodePath>,
    /// Of [`WatchKind::Child`].
    pub child: Vec<NodePath>,
    /// Of [`WatchKind::Persistent`]; a list that is not empty needs 3.6.
    pub persistent: Vec<NodePath>,
    /// Of [`WatchKind::PersistentRecursive`]; a list that is not empty needs 3.6.
    pub recursive: Vec<NodePath>,
}

impl WatchLists {
    pub(super) fn needs_set_watches2(&self) -> bool {
        !self.persistent.is_empty() || !self.recursive.is_empty()
    }
}

/// An operation of a [`Request::Multi`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum MultiOp {
    /// As [`Request::Create`].
    Create(NewNode),
    /// As [`Request::Create2`].
    Create2(NewNode),
    /// As [`Request::Delete`].
    Delete {
        /// The node.
        path: NodePath,
        /// The version that it must have.
        version: Option<i32>,
    },
    /// As [`Request::SetData`].
    SetData {
        /// The node.
        path: NodePath,
        /// Its new data.
        data: NodeData,
        /// The version that it must have.
        version: Option<i32>,
    },
    /// Refuses the transaction unless the node has this version.
    Check {
        /// The node.
        path: NodePath,
        /// The version that it must have.
        version: Option<i32>,
    },
}

/// A read of a [`Request::MultiRead`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol has these")]
pub enum MultiRead {
    /// As [`Request::GetData`], without a watch.
    GetData {
        /// The node.
        path: NodePath,
    },
    /// As [`Request::GetChildren`], without a watch.
    GetChildren {
        /// The node.
        path: NodePath,
    },
}

/// The number of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Xid(i32);

impl Xid {
    /// The first number of a session.
    pub const FIRST: Self = Self(1);
    /// Of a [`Request::Ping`].
    pub const PING: Self = Self(-2);
    /// Of a [`Request::Auth`].
    pub const AUTH: Self = Self(-4);
    /// Of a [`Request::SetWatches`].
    pub const SET_WATCHES: Self = Self(-8);

    /// Returns the number of a reply.
    pub(crate) const fn new(xid: i32) -> Self {
        Self(xid)
    }

    /// Returns the number after this one; numbers start again after the greatest.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.0.checked_add(1) {
            Some(next) => Self(next),
            None => Self::FIRST,
        }
    }

    /// Returns the number.
    pub const fn get(self) -> i32 {
        self.0
    }
}

/// What the reply to a request contains if it is not refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyShape {
    /// Nothing.
    Empty,
    /// The path of the new node.
    Path,
    /// The path and the stat of the new node.
    PathAndStat,
    /// A stat.
    Stat,
    /// Data and a stat.
    Data,
    /// Access rules and a stat.
    Acl,
    /// The names of children.
    Children,
    /// The names of children and a stat.
    ChildrenAndStat,
    /// The results of a transaction.
    Multi,
    /// The results of several reads.
    MultiRead,
    /// Paths.
    Paths,
    /// A number of nodes.
    Count,
    /// Identities.
    Identities,
    /// What a SASL mechanism says to the client.
    Token,
}

impl Request {
    /// Appends the frame of the request, and returns the length of its payload in bytes.
    ///
    /// `xid` is [the fixed one](Self::fixed_xid) of its kind, if it has one.
    pub fn encode(&self, xid: Xid, to: &mut BytesMut) -> usize {
        put_frame(to, |to| {
            let mut to = Encoder::new(to);
            to.int(xid.get()).int(self.opcode());
            self.encode_body(&mut to);
        })
    }

    /// Returns the number that the protocol fixes for requests of this kind; `None` for numbers of the client's choice.
    pub const fn fixed_xid(&self) -> Option<Xid> {
        match self {
            Self::Ping => Some(Xid::PING),
            Self::Auth(_) => Some(Xid::AUTH),
            Self::SetWatches { .. } => Some(Xid::SET_WATCHES),
            _ => None,
        }
    }

    /// Returns whether it asks for a watch.
    pub const fn sets_watch(&self) -> bool {
        matches!(
            self,
            Self::Exists { watch: true, .. }
                | Self::GetData { watch: true, .. }
                | Self::GetConfig { watch: true }
                | Self::GetChildren { watch: true, .. }
                | Self::GetChildren2 { watch: true, .. }
                | Self::AddWatch { .. }
        )
    }

    /// Returns the opcode.
    pub fn opcode(&self) -> i32 {
        match self {
            Self::Create(node) => create_opcode(node, CREATE),
            Self::Create2(node) => create_opcode(node, CREATE2),
            Self::Delete { .. } => DELETE,
            Self::Exists { .. } => 3,
            Self::GetData { .. } | Self::GetConfig { .. } => GET_DATA,
            Self::SetData { .. } => SET_DATA,
            Self::GetAcl { .. } => 6,
            Self::SetAcl { .. } => 7,
            Self::GetChildren { .. } => GET_CHILDREN,
            Self::Sync { .. } => 9,
            Self::Ping => 11,
            Self::GetChildren2 { .. } => 12,
            Self::Multi(_) => 14,
            Self::Reconfig { .. } => 16,
            Self::CheckWatches { .. } => 17,
            Self::RemoveWatches { .. } => 18,
            Self::MultiRead(_) => 22,
            Self::Auth(_) => 100,
            Self::SetWatches { lists, .. } if lists.needs_set_watches2() => 105,
            Self::SetWatches { .. } => 101,
            Self::Sasl(_) => 102,
            Self::GetEphemerals { .. } => 103,
            Self::GetAllChildrenNumber { .. } => 104,
            Self::AddWatch { .. } => 106,
            Self::WhoAmI => 107,
            Self::CloseSession => -11,
        }
    }

    /// Returns what the reply contains.
    pub fn reply_shape(&self) -> ReplyShape {
        match self {
            Self::Create(node) if create_opcode(node, CREATE) == CREATE => ReplyShape::Path,
            Self::Create(_) | Self::Create2(_) => ReplyShape::PathAndStat,
            Self::Exists { .. } | Self::SetData { .. } | Self::SetAcl { .. } => ReplyShape::Stat,
            Self::GetData { .. } | Self::GetConfig { .. } | Self::Reconfig { .. } => {
                ReplyShape::Data
            }
            Self::GetAcl { .. } => ReplyShape::Acl,
            Self::GetChildren { .. } => ReplyShape::Children,
            Self::GetChildren2 { .. } => ReplyShape::ChildrenAndStat,
            Self::Multi(_) => ReplyShape::Multi,
            Self::MultiRead(_) => ReplyShape::MultiRead,
            Self::GetEphemerals { .. } => ReplyShape::Paths,
            Self::GetAllChildrenNumber { .. } => ReplyShape::Count,
            Self::WhoAmI => ReplyShape::Identities,
            Self::Sasl(_) => ReplyShape::Token,
            // The replies to some of these repeat the path or an error code, which say nothing more.
            Self::Delete { .. }
            | Self::Sync { .. }
            | Self::CheckWatches { .. }
            | Self::RemoveWatches { .. }
            | Self::AddWatch { .. }
            | Self::Auth(_)
            | Self::SetWatches { .. }
            | Self::Ping
            | Self::CloseSession => ReplyShape::Empty,
        }
    }

    fn encode_body(&self, to: &mut Encoder<'_>) {
        match self {
            Self::Create(node) | Self::Create2(node) => node.encode(to),
            Self::Delete { path, version } => {
                to.path(path).int(wire_version(*version));
            }
            Self::Exists { path, watch }
            | Self::GetData { path, watch }
            | Self::GetChildren { path, watch }
            | Self::GetChildren2 { path, watch } => {
                to.path(path).bool(*watch);
            }
            Self::GetConfig { watch } => {
                to.string(CONFIG_NODE).bool(*watch);
            }
            Self::SetData {
                path,
                data,
                version,
            } => {
                to.path(path)
                    .buffer(data.as_slice())
                    .int(wire_version(*version));
            }
            Self::GetAcl { path } | Self::Sync { path } | Self::GetAllChildrenNumber { path } => {
                to.path(path);
            }
            Self::GetEphemerals { prefix } => {
                to.string(prefix);
            }
            Self::SetAcl { path, acl, version } => {
                to.path(path);
                acl.encode(to);
                to.int(wire_version(*version));
            }
            Self::Multi(ops) => {
                for op in ops {
                    op.encode(to);
                }
                part_header(to, ERROR, true);
            }
            Self::MultiRead(reads) => {
                for read in reads {
                    read.encode(to);
                }
                part_header(to, ERROR, true);
            }
            Self::Reconfig {
                joining,
                leaving,
                new_members,
                version,
            } => {
                to.optional_string(joining.as_deref());
                to.optional_string(leaving.as_deref());
                to.optional_string(new_members.as_deref());
                to.long(version.unwrap_or(-1));
            }
            Self::CheckWatches { path, kind } | Self::RemoveWatches { path, kind } => {
                to.path(path).int(watcher_type(*kind));
            }
            Self::AddWatch { path, recursive } => {
                to.path(path).int(i32::from(*recursive));
            }
            Self::Auth(Credentials { scheme, data }) => {
                to.int(0).string(scheme).buffer(data);
            }
            Self::Sasl(token) => {
                to.buffer(&token.0);
            }
            Self::SetWatches {
                last_zxid_seen,
                lists,
            } => {
                to.long(*last_zxid_seen);
                let paths = |to: &mut Encoder<'_>, paths: &[NodePath]| {
                    to.list(paths, |to, path| {
                        to.path(path);
                    });
                };
                paths(to, &lists.data);
                paths(to, &lists.exist);
                paths(to, &lists.child);
                if lists.needs_set_watches2() {
                    paths(to, &lists.persistent);
                    paths(to, &lists.recursive);
                }
            }
            Self::WhoAmI | Self::Ping | Self::CloseSession => {}
        }
    }
}

impl MultiOp {
    fn encode(&self, to: &mut Encoder<'_>) {
        match self {
            Self::Create(node) => {
                part_header(to, create_opcode(node, CREATE), false);
                node.encode(to);
            }
            Self::Create2(node) => {
                part_header(to, create_opcode(node, CREATE2), false);
                node.encode(to);
            }
            Self::Delete { path, version } => {
                part_header(to, DELETE, false);
                to.path(path).int(wire_version(*version));
            }
            Self::SetData {
                path,
                data,
                version,
            } => {
                part_header(to, SET_DATA, false);
                to.path(path)
                    .buffer(data.as_slice())
                    .int(wire_version(*version));
            }
            Self::Check { path, version } => {
                part_header(to, CHECK, false);
                to.path(path).int(wire_version(*version));
            }
        }
    }
}

impl MultiRead {
    fn encode(&self, to: &mut Encoder<'_>) {
        let (opcode, path) = match self {
            Self::GetData { path } => (GET_DATA, path),
            Self::GetChildren { path } => (GET_CHILDREN, path),
        };
        part_header(to, opcode, false);
        to.path(path).bool(false);
    }
}

/// Appends the header of one part of a transaction; a last one marks the end.
fn part_header(to: &mut Encoder<'_>, opcode: i32, is_end: bool) {
    to.int(opcode).bool(is_end).int(-1);
}

fn create_opcode(node: &NewNode, plain: i32) -> i32 {
    match node.mode {
        super::CreateMode::Container => CREATE_CONTAINER,
        mode if mode.ttl().is_some() => CREATE_TTL,
        _ => plain,
    }
}

/// Returns the number for a version; -1 means any.
fn wire_version(version: Option<i32>) -> i32 {
    version.unwrap_or(-1)
}

/// Returns the number for a kind of watches in requests that remove or check them.
const fn watcher_type(kind: Option<WatchKind>) -> i32 {
    match kind {
        Some(WatchKind::Child) => 1,
        Some(WatchKind::Data | WatchKind::Exist) => 2,
        None => 3,
        Some(WatchKind::Persistent) => 4,
        Some(WatchKind::PersistentRecursive) => 5,
    }
}

/// The node with the configuration of the ensemble.
pub(crate) const CONFIG_NODE: &str = "/zookeeper/config";
pub(super) const CREATE: i32 = 1;
pub(super) const DELETE: i32 = 2;
pub(super) const GET_DATA: i32 = 4;
pub(super) const SET_DATA: i32 = 5;
pub(super) const GET_CHILDREN: i32 = 8;
pub(super) const CHECK: i32 = 13;
pub(super) const CREATE2: i32 = 15;
pub(super) const CREATE_CONTAINER: i32 = 19;
pub(super) const CREATE_TTL: i32 = 21;
pub(super) const ERROR: i32 = -1;
