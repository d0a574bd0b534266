//! The replies of a server, before the driver turns them into responses with futures.
//!
//! Pure: no I/O and no clock.

use zk_core::Acl;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::transport::OpResult;

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
        data: Vec<u8>,
        stat: Stat,
        watch: Option<WatchNumber>,
    },
    Stat {
        stat: Option<Stat>,
        watch: Option<WatchNumber>,
    },
    Children {
        names: Vec<String>,
        stat: Stat,
        watch: Option<WatchNumber>,
    },
    Set(Stat),
    Synced,
    Acl {
        acl: Acl,
        stat: Stat,
    },
    Committed(Vec<OpResult>),
    Watching(Option<WatchNumber>),
    /// The session is closed.
    Closed,
}

impl ServerReply {
    /// Returns the field for the id of the watch, if the request can set one.
    pub(crate) fn watch_mut(&mut self) -> Option<&mut Option<WatchNumber>> {
        match self {
            Self::Data { watch, .. }
            | Self::Stat { watch, .. }
            | Self::Children { watch, .. }
            | Self::Watching(watch) => Some(watch),
            Self::Created { .. }
            | Self::Deleted
            | Self::Set(_)
            | Self::Synced
            | Self::Acl { .. }
            | Self::Committed(_)
            | Self::Closed => None,
        }
    }
}
