//! The state of one session at its client, its server and the leader.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use zk_core::transport::{Link, Phase, TransportError};
use zk_core::{NodePath, SessionId};

use super::JobNumber;
use super::touches::Touches;
use crate::access::Identity;
use crate::server_reply::{ServerReply, WatchNumber};
use crate::tree::Trigger;
use crate::watches::{Removal, WatchKind};

/// One session: its client, its connection, and its state at the leader.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is known to another party, and all combinations occur"
)]
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) timeout: Duration,
    pub(super) identities: Vec<Identity>,
    /// The one that it has alone from the next link on.
    pub(super) identity_of_next_link: Option<Identity>,
    pub(crate) link: Link,
    /// The index of the server it is or was last attached to.
    pub(crate) server: usize,
    /// Incremented whenever a connection begins or ends.
    pub(super) connection: u64,
    pub(super) attachments: u64,
    /// The transaction that opened it, until its server has applied it.
    pub(super) opening: Option<i64>,
    /// Whether the leader keeps it.
    pub(crate) is_alive: bool,
    pub(super) is_closing: bool,
    pub(super) is_partitioned: bool,
    /// Whether its client is on the other side of a byte stream, and decides itself when it reconnects.
    pub(super) is_remote: bool,
    pub(super) touches: Touches,
    /// Whether the leader's timeout runs until its server receives something: the link is broken or silent, or the server
    /// is paused.
    pub(super) is_timing_out: bool,
    /// When its link last broke.
    pub(crate) broken_at: Option<Duration>,
    /// Whether the link drops all messages without either side noticing.
    pub(super) is_silent: bool,
    /// Incremented whenever the leader's timeout of the session begins, restarts or ends.
    pub(super) clock: u64,
    /// The number of times that its link fell silent.
    pub(super) silences: u64,
    /// The number of failed attempts since the last link.
    pub(super) tries: u32,
    /// The largest zxid that the client has seen.
    pub(super) seen: i64,
    /// Requests that wait for a connection.
    pub(super) unsent: VecDeque<JobNumber>,
    /// Unanswered requests on this connection.
    pub(super) in_flight: Vec<JobNumber>,
    /// Requests on a silent link, or to a paused server.
    pub(super) muted: Vec<JobNumber>,
    /// Requests at the server, in the order of arrival.
    pub(super) queue: VecDeque<JobNumber>,
    /// Messages from the server to the client.
    pub(super) outbox: VecDeque<Message>,
    /// When the server has sent all of them, at the bandwidth of the link.
    pub(super) sent_by: Duration,
    /// Whether the server has closed the connection, which the client sees after the earlier messages.
    pub(super) is_hung_up: bool,
    /// How much later than a reply its link reports the end of the session.
    pub(super) end_delay: Duration,
    pub(super) watches: BTreeMap<WatchNumber, (NodePath, WatchKind)>,
    /// Removals of watches that a request in flight may set again: requested if it does not.
    pub(super) deferred_removals: Vec<(NodePath, Removal)>,
}

/// A message from a server to a client.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) due: Duration,
    pub(super) body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    Reply {
        job: JobNumber,
        /// The latest transaction that the server had applied.
        zxid: i64,
        outcome: Result<ServerReply, TransportError>,
        /// The watch that the server set for the request.
        watch: Option<(NodePath, WatchKind)>,
    },
    WatchNotification {
        trigger: Trigger,
        zxid: Option<i64>,
    },
    /// The end of the connection.
    End(Break),
}

/// How a link breaks, and where the client reconnects.
#[derive(Debug, Clone)]
pub(crate) struct Break {
    pub(crate) cause: String,
    /// The index of the next server, if not the one after the last.
    pub(crate) to: Option<usize>,
    /// The pause before the next attempt, if not the usual one.
    pub(crate) after: Option<Duration>,
}

impl Break {
    pub(crate) fn because(cause: impl Into<String>) -> Self {
        Self {
            cause: cause.into(),
            to: None,
            after: None,
        }
    }
}

impl Client {
    pub(super) fn new(
        id: SessionId,
        server: usize,
        timeout: Duration,
        now: Duration,
        identities: Vec<Identity>,
        opening: i64,
    ) -> Self {
        Self {
            id,
            timeout,
            identities,
            identity_of_next_link: None,
            link: Link {
                phase: Phase::Up,
                breaks: 0,
            },
            server,
            connection: 1,
            attachments: 1,
            opening: Some(opening),
            is_alive: true,
            is_closing: false,
            is_partitioned: false,
            is_remote: false,
            touches: Touches::new(timeout, now),
            is_timing_out: false,
            broken_at: None,
            is_silent: false,
            clock: 0,
            silences: 0,
            tries: 0,
            seen: opening,
            unsent: VecDeque::new(),
            in_flight: Vec::new(),
            muted: Vec::new(),
            queue: VecDeque::new(),
            outbox: VecDeque::new(),
            sent_by: Duration::ZERO,
            is_hung_up: false,
            end_delay: Duration::ZERO,
            watches: BTreeMap::new(),
            deferred_removals: Vec::new(),
        }
    }

    /// Returns whether it has a link, as far as it knows.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.link.phase, Phase::Up | Phase::ReadOnly)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.link.phase, Phase::Over(_))
    }
}
