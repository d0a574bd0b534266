//! Requests as frames, with what is needed to handle their replies.
//!
//! Pure: no I/O and no clock.

use bytes::BytesMut;

use super::Ticket;
use crate::path::NodePath;
use crate::proto::{
    CONFIG_NODE, ConnectRequest, ErrorCode, Release, ReplyShape, Request, WatchKind, Xid,
};

/// An encoded request.
pub(super) struct Frame {
    pub(super) bytes: BytesMut,
    pub(super) xid: Xid,
    pub(super) opcode: i32,
    pub(super) shape: ReplyShape,
    role: Role,
    watch: Option<WatchRequest>,
    /// The first release that knows it; `None` if all do.
    pub(super) needs: Option<Release>,
    /// Whether the caller does not want the watch any more.
    pub(super) is_watch_dropped: bool,
}

/// Whose request it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It opens the session; its reply has no number.
    Handshake,
    /// The caller's.
    Caller(Ticket),
    /// The session's own.
    Internal,
    /// It proves who the session is, with a token of its SASL mechanism.
    Sasl,
    /// It proves who the session is, with the credentials that have this number.
    Credentials(usize),
}

/// The watch that a request asks for.
struct WatchRequest {
    path: NodePath,
    /// What it becomes if there is a node.
    kind: WatchKind,
}

impl Frame {
    /// Encodes a request. `xid` is not used for requests whose number is fixed.
    pub(super) fn new(request: &Request, xid: Xid, role: Role) -> Self {
        let xid = request.fixed_xid().unwrap_or(xid);
        let mut bytes = BytesMut::with_capacity(COMMON_LEN);
        request.encode(xid, &mut bytes);
        Self {
            bytes,
            xid,
            opcode: request.opcode(),
            shape: request.reply_shape(),
            role,
            watch: WatchRequest::of(request),
            needs: request.first_release(),
            is_watch_dropped: false,
        }
    }

    pub(super) fn handshake(connect: &ConnectRequest) -> Self {
        let mut bytes = BytesMut::with_capacity(COMMON_LEN);
        connect.encode(&mut bytes);
        Self {
            bytes,
            xid: Xid::FIRST,
            opcode: 0,
            shape: ReplyShape::Empty,
            role: Role::Handshake,
            watch: None,
            needs: None,
            is_watch_dropped: false,
        }
    }

    /// Returns the length without the prefix.
    pub(super) fn payload_len(&self) -> usize {
        self.bytes.len() - size_of::<i32>()
    }

    pub(super) const fn is_handshake(&self) -> bool {
        matches!(self.role, Role::Handshake)
    }

    pub(super) const fn role(&self) -> Role {
        self.role
    }

    pub(super) const fn is_close(&self) -> bool {
        self.opcode == CLOSE_SESSION
    }

    pub(super) const fn ticket(&self) -> Option<Ticket> {
        match self.role {
            Role::Caller(ticket) => Some(ticket),
            Role::Handshake | Role::Internal | Role::Sasl | Role::Credentials(_) => None,
        }
    }

    pub(super) fn watched_path(&self) -> Option<&NodePath> {
        self.watch.as_ref().map(|watch| &watch.path)
    }

    pub(super) fn into_watched_path(self) -> Option<NodePath> {
        self.watch.map(|watch| watch.path)
    }

    /// Returns the watch that the server has set if it answered with this refusal or none.
    pub(super) fn watch_kind(&self, refusal: Option<ErrorCode>) -> Option<WatchKind> {
        let watch = self.watch.as_ref()?;
        match refusal {
            None => Some(watch.kind),
            Some(ErrorCode::NO_NODE) if self.opcode == EXISTS => Some(WatchKind::Exist),
            Some(_) => None,
        }
    }
}

impl WatchRequest {
    fn of(request: &Request) -> Option<Self> {
        let (path, kind) = match request {
            Request::Exists { path, watch: true } | Request::GetData { path, watch: true } => {
                (path.clone(), WatchKind::Data)
            }
            Request::GetConfig { watch: true } => (config_node(), WatchKind::Data),
            Request::GetChildren { path, watch: true }
            | Request::GetChildren2 { path, watch: true } => (path.clone(), WatchKind::Child),
            Request::AddWatch {
                path,
                recursive: false,
            } => (path.clone(), WatchKind::Persistent),
            Request::AddWatch {
                path,
                recursive: true,
            } => (path.clone(), WatchKind::PersistentRecursive),
            _ => return None,
        };
        Some(Self { path, kind })
    }
}

fn config_node() -> NodePath {
    NodePath::parse(CONFIG_NODE).expect("it is a path")
}

/// Most requests are shorter: a path and little data.
const COMMON_LEN: usize = 128;
const EXISTS: i32 = 3;
const CLOSE_SESSION: i32 = -11;
