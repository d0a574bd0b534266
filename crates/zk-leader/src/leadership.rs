//! The owner of a leadership, which begins and ends it.

use std::sync::Arc;

use zk_core::{Acl, Session};
use zk_lock::{Guard, ReleaseError};

use crate::error::{LeadershipLoss, ResignError};
use crate::lease::{LeaderLease, LeadershipState};
use crate::state::{ParticipantState, SharedState};

/// The owner of a leadership. Dropping it ends the leadership, and its node is deleted in the background.
pub(crate) struct Leadership {
    state: Arc<LeadershipState>,
}

impl Leadership {
    pub(crate) fn begin(session: &Session, acl: Option<&Acl>, guard: Guard) -> Self {
        let state = LeadershipState::new(session, acl, guard);
        tracing::info!(path = %state.path(), token = %state.token(), "leading");
        Self { state }
    }

    pub(crate) fn lease(&self) -> LeaderLease {
        LeaderLease::new(Arc::clone(&self.state))
    }

    /// Ends the leadership for this reason, unless it has ended, and then deletes its node: at once if the leadership
    /// is still proven, in the background otherwise.
    ///
    /// Returns why it ended, which is [`LeadershipLoss::Resigned`] only if it lasted until now.
    pub(crate) async fn end(self, loss: LeadershipLoss, shared: &SharedState) -> LeadershipLoss {
        // Detects a pause of the process during the last steps of the leader.
        self.state.is_valid();
        let loss = self.state.end(loss);
        tracing::info!(path = %self.state.path(), token = %self.state.token(), %loss, "no longer leading");
        // Before the node is deleted, since the next participant may lead from then on.
        shared.set(ParticipantState::Joining { error: None });
        if loss != LeadershipLoss::Resigned {
            // The participant may be cut off: the deletion continues in the background.
            return loss;
        }
        let Some(guard) = self.state.take_guard() else {
            return loss;
        };
        let path = guard.path().clone();
        let (removal, loss) = match guard.release().await {
            Ok(()) => (Ok(()), loss),
            Err(ReleaseError::Lost { loss, .. }) => {
                let loss = LeadershipLoss::of(loss);
                (Err(ResignError::Lost(loss)), loss)
            }
            Err(source) => {
                let source = Some(source);
                (Err(ResignError::Pending { path, source }), loss)
            }
        };
        self.state.record_removal(removal);
        loss
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        self.state.abandon(LeadershipLoss::Resigned);
    }
}
