//! What became of each request: the oracle of a test.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::SessionId;
use zk_core::transport::Fault;
use zk_core::transport::Request;

/// One request of a session and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// When it was sent, since the first session was opened.
    pub at: Duration,
    /// Whose it was.
    pub session: SessionId,
    /// The server it was sent to.
    pub server: usize,
    /// The request.
    pub request: Request,
    /// How far it came.
    pub outcome: RequestOutcome,
    /// Whether the session was told.
    pub answered: bool,
}

impl LoggedRequest {
    /// Tells whether it was carried out, whether or not the session was told.
    pub fn is_carried_out(&self) -> bool {
        matches!(self.outcome, RequestOutcome::CarriedOut { .. })
    }

    /// Tells whether it reached a server.
    pub fn has_arrived(&self) -> bool {
        !matches!(
            self.outcome,
            RequestOutcome::Unsent | RequestOutcome::OnTheWay | RequestOutcome::NeverArrived
        )
    }
}

/// How far a request came.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestOutcome {
    /// The client keeps it until it is connected.
    Unsent,
    /// It is on its way to the server.
    OnTheWay,
    /// The link broke before it reached the server.
    NeverArrived,
    /// The server has it and waits: for earlier requests of the session, or for what the leader has committed.
    Arrived,
    /// It is stuck between its server and the leader.
    Stuck,
    /// It never lands: it was stuck until the session had moved to another server, or the leader was gone.
    Fenced,
    /// The leader has proposed it and died before it was committed; the next leader has it or never will.
    InDoubt,
    /// The leader died before it was committed, and the next leader did not have it.
    Vanished,
    /// It was carried out.
    #[non_exhaustive]
    CarriedOut {
        /// The transaction of a write; for a read, the latest that its server had applied.
        zxid: i64,
    },
    /// It was judged and did nothing.
    Refused(Fault),
}
