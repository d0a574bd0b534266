//! The log of requests and their outcomes, which a test uses as its oracle.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::{Request, TransportError};

/// A request of a session, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// When it was sent, since the first session was opened.
    pub at: Duration,
    /// The session that sent it.
    pub session: SessionId,
    /// The server that it was sent to.
    pub server: usize,
    /// The request.
    pub request: Request,
    /// Its outcome on the servers.
    pub outcome: RequestOutcome,
    /// Whether the session received the reply.
    pub answered: bool,
}

impl LoggedRequest {
    /// Returns whether it was applied, even if the session received no reply.
    pub fn is_carried_out(&self) -> bool {
        matches!(self.outcome, RequestOutcome::CarriedOut { .. })
    }

    /// Returns whether it reached a server.
    pub fn has_arrived(&self) -> bool {
        !matches!(
            self.outcome,
            RequestOutcome::Unsent | RequestOutcome::OnTheWay | RequestOutcome::NeverArrived
        )
    }
}

/// The outcome of a request on the servers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// The client has not sent it, because it is not connected.
    Unsent,
    /// It is on its way to the server.
    OnTheWay,
    /// The link broke before it reached the server.
    NeverArrived,
    /// The server has it and waits: for earlier requests of the session, or for what the leader has committed.
    Arrived,
    /// It is stuck between its server and the leader.
    Stuck,
    /// It is never applied: it was stuck until the session had moved to another server, or the leader was gone.
    Fenced,
    /// The leader proposed it and died before the commit; the next leader may have it.
    InDoubt,
    /// The leader died before the commit, and the next leader did not have it.
    Vanished,
    /// It was applied.
    #[non_exhaustive]
    CarriedOut {
        /// The transaction of a write; for a read, the latest transaction that its server had applied.
        zxid: i64,
    },
    /// It was refused and had no effect.
    Refused(TransportError),
}
