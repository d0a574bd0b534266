//! Makes the server of a session catch up before a read.

use zk_wire::NodePath;

use super::Answerer;
use crate::transport::{MultiOp, Request, Response, TransportError};

/// What a server has applied before it answers the next read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatchUp {
    /// What the leader had committed.
    Committed,
    /// What the leader had proposed as well: every write of this session that may still be committed, once the session
    /// has moved.
    ///
    /// A `sync` does not wait for proposals if the session is connected to the leader (`CommitProcessor.needCommit` is
    /// false for it there, in every version from 3.4 to 3.9). A write that went through another server, and waits for
    /// its quorum, would seem not to exist.
    Proposed,
}

impl CatchUp {
    /// Returns the request after whose answer the server has caught up.
    pub(crate) fn request(self, path: &NodePath) -> Request {
        match self {
            Self::Committed => Request::Sync { path: path.clone() },
            Self::Proposed => no_op_transaction(),
        }
    }

    /// Decides by the answer whether the server has caught up. A refusal that the quorum has agreed on counts, too.
    pub(crate) fn check_reply(
        self,
        answer: Result<Response, TransportError>,
    ) -> Result<(), TransportError> {
        let by = match self {
            Self::Committed => Answerer::Leader,
            Self::Proposed => Answerer::Quorum,
        };
        if by.of_answer(&answer) == Some(Answerer::Quorum) {
            return Ok(());
        }
        answer.map(drop)
    }
}

/// Returns a request that the quorum has to commit and that changes nothing.
///
/// The quorum agrees on and logs even a transaction that only checks, and one that is refused.
pub(super) fn no_op_transaction() -> Request {
    Request::Multi(vec![MultiOp::Check {
        path: NodePath::root(),
        version: None,
    }])
}
