//! What a client and its server know of one session.
//!
//! Pure: no I/O and no clock.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::transport::Fault;
use zk_core::transport::Link;
use zk_core::transport::Phase;

use super::JobNumber;
use crate::access::Identity;
use crate::server_reply::ServerReply;
use crate::server_reply::WatchNumber;
use crate::tree::Trigger;
use crate::watches::WatchKind;

/// One session: its client, its connection, and what the leader thinks of it.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is what another party knows, and all combinations occur"
)]
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) timeout: Duration,
    pub(super) identities: Vec<Identity>,
    pub(crate) link: Link,
    /// The server it is attached to, or was last; from zero.
    pub(crate) server: usize,
    /// Counts the connections and the times without one.
    pub(super) connection: u64,
    pub(super) attachments: u64,
    /// The transaction that opened it, until its server has applied that.
    pub(super) opening: Option<i64>,
    /// Whether the leader keeps it.
    pub(crate) is_alive: bool,
    pub(super) is_closing: bool,
    pub(super) is_partitioned: bool,
    /// Whether nothing passes on the link, and neither side knows.
    pub(super) is_silent: bool,
    /// Counts how often the leader has heard of the session anew: each time its clock begins again.
    pub(super) clock: u64,
    /// How often its link has fallen silent.
    pub(super) silences: u64,
    /// How many servers it has tried in vain since it had a link.
    pub(super) tries: u32,
    /// The latest transaction that the client knows its server had applied.
    pub(super) seen: i64,
    /// Waiting for a connection.
    pub(super) unsent: VecDeque<JobNumber>,
    /// Sent on this connection and not answered.
    pub(super) in_flight: Vec<JobNumber>,
    /// On their way through a silent link, or to a server that is paused.
    pub(super) muted: Vec<JobNumber>,
    /// At the server, in the order of arrival.
    pub(super) queue: VecDeque<JobNumber>,
    /// From the server to the client.
    pub(super) outbox: VecDeque<Message>,
    /// When the server has sent all of that, at the bandwidth of the link.
    pub(super) sent_by: Duration,
    /// Whether the server has ended the connection, which the client will see after the messages before that.
    pub(super) is_hung_up: bool,
    pub(super) watches: BTreeMap<WatchNumber, (NodePath, WatchKind)>,
}

/// Something on the way from a server to a client.
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
        outcome: Result<ServerReply, Fault>,
        /// The watch that the server has set for it.
        watch: Option<(NodePath, WatchKind)>,
    },
    Notice {
        trigger: Trigger,
        zxid: Option<i64>,
    },
    /// The end of the connection.
    End(Break),
}

/// How a link breaks, and where the client goes next.
#[derive(Debug, Clone)]
pub(crate) struct Break {
    pub(crate) cause: String,
    /// From zero; otherwise the next one.
    pub(crate) to: Option<usize>,
    /// How long until the next attempt, if not as long as usual.
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
        identities: Vec<Identity>,
        opening: i64,
    ) -> Self {
        Self {
            id,
            timeout,
            identities,
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
            watches: BTreeMap::new(),
        }
    }

    /// Tells whether it has a link, as far as it knows.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.link.phase, Phase::Up | Phase::ReadOnly)
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.link.phase, Phase::Over(_))
    }
}
