//! The replies of a server, before the driver turns them into responses with futures.
//!
//! Pure: no I/O and no clock.

use zk_core::transport::{MultiResult, NodeData, ReadResult, TransportError};
use zk_core::{Acl, Identity, NodePath, Stat};

use crate::wire_request::WireReply;

/// The id of a watch, unique within an ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WatchNumber(pub(crate) u64);

/// The reply to a successful request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerReply {
    Created {
        path: NodePath,
        stat: Stat,
    },
    Deleted,
    Data {
        data: NodeData,
        stat: Stat,
    },
    Stat(Option<Stat>),
    Children {
        names: Vec<String>,
        stat: Stat,
    },
    Set(Stat),
    Synced,
    Acl {
        acl: Acl,
        stat: Stat,
    },
    Committed(Vec<MultiResult>),
    Watching,
    Reads(Vec<Result<ReadResult, TransportError>>),
    Identities(Vec<Identity>),
    Paths(Vec<NodePath>),
    Count(u32),
    /// The session is closed.
    Closed,
    /// What only a client on a byte stream requests.
    Wire(WireReply),
}
