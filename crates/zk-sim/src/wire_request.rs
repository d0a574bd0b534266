//! The requests that only clients on byte streams send: `zk-core` has none of them.
//!
//! Pure: no I/O and no clock.

use zk_core::{NodePath, SessionId};

use crate::access::Identity;
use crate::server::Server;
use crate::server_reply::ServerReply;
use crate::tree::Trigger;
use crate::watches::WatchKind;

/// A request that a server answers from its own state, in the order of the requests of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WireRequest {
    Ping,
    /// Sets the watches of a client that has reconnected; those that have missed a change fire at once.
    SetWatches {
        /// The newest transaction that the client has seen.
        seen: i64,
        watches: Vec<(NodePath, WatchKind)>,
    },
    /// Removes watches, or only checks whether there are any.
    Watches {
        path: NodePath,
        kinds: WatchKinds,
        is_check: bool,
    },
    /// Returns no token: no SASL mechanism is configured.
    Sasl,
    /// Is refused with this error code.
    Refuse(i32),
    /// An operation that servers do not know: they refuse it and close the connection.
    Unknown,
}

/// The watches that a request to remove or check them means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchKinds {
    Children,
    Data,
    Any,
    Persistent,
    PersistentRecursive,
}

/// The reply to a [`WireRequest`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WireReply {
    Done,
    NoToken,
    Refused(i32),
}

impl Server {
    /// Carries out a request, and returns the reply and the events that the client has missed, which come before it.
    pub(crate) fn carry_out(
        &mut self,
        session: SessionId,
        identities: &[Identity],
        request: &WireRequest,
    ) -> (ServerReply, Vec<Trigger>) {
        let mut missed = Vec::new();
        let reply = match request {
            WireRequest::Ping => WireReply::Done,
            WireRequest::SetWatches { seen, watches } => {
                for (path, kind) in watches {
                    missed.extend(self.set_again(session, identities, (path, *kind), *seen));
                }
                WireReply::Done
            }
            WireRequest::Watches {
                path,
                kinds,
                is_check,
            } => {
                let has_any = self.watches.remove_kinds(session, path, *kinds, *is_check);
                if has_any {
                    WireReply::Done
                } else {
                    WireReply::Refused(NO_WATCHER)
                }
            }
            WireRequest::Sasl => WireReply::NoToken,
            WireRequest::Refuse(code) => WireReply::Refused(*code),
            WireRequest::Unknown => WireReply::Refused(UNIMPLEMENTED),
        };
        (ServerReply::Wire(reply), missed)
    }
}

pub(crate) const UNIMPLEMENTED: i32 = -6;
const NO_WATCHER: i32 = -121;
