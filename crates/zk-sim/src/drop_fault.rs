//! Faults to inject into a session at the moment when a test drops one of its calls.

use std::time::Duration;

use zk_core::{Session, SessionId};

use crate::ensemble::Ensemble;
use crate::wait::{pass, soon};

/// A fault to inject into a session at the moment when a test drops one of its calls, see
/// [`polled`](crate::wait::polled).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropFault {
    /// No fault.
    Nothing,
    /// The link breaks and comes back.
    Cut,
    /// The link breaks and comes back after two seconds.
    CutFor2Seconds,
    /// The link breaks and comes back at server 2, which lags by half a second.
    MoveToLagging,
}

impl DropFault {
    /// All faults.
    pub const ALL: [Self; 4] = [
        Self::Nothing,
        Self::Cut,
        Self::CutFor2Seconds,
        Self::MoveToLagging,
    ];

    /// Injects the fault into a session.
    ///
    /// # Panics
    ///
    /// If it is not a session of this ensemble, or there is no server 2.
    pub fn inject(self, ensemble: &Ensemble, session: SessionId) {
        let link = ensemble.session(session);
        match self {
            Self::Nothing => {}
            Self::Cut => link.cut(),
            Self::CutFor2Seconds => link.cut_for(Duration::from_secs(2)),
            Self::MoveToLagging => {
                ensemble.server(2).lag_for(Duration::from_millis(500));
                link.move_to(2);
            }
        }
    }
}

impl Ensemble {
    /// Waits until the clean-up of these sessions is complete, or they are lost, and no expiry is pending; then checks
    /// that there are no ephemeral nodes and no watches.
    ///
    /// # Panics
    ///
    /// If a node or watch is left, or a clean-up takes longer than two minutes of Tokio's time.
    pub async fn assert_nothing_left(&self, sessions: impl IntoIterator<Item = Session>) {
        for session in sessions {
            tokio::select! {
                biased;
                () = soon("the clean-up is complete", session.settled()) => {}
                _ = session.lost() => {}
            }
        }
        // Longer than a session with the default timeout lives without its client.
        pass(Duration::from_secs(30)).await;
        let tree = self.tree();
        let owned = tree.nodes().filter(|(_, node)| node.owner().is_some());
        let left: Vec<_> = owned.map(|(path, _)| path.to_string()).collect();
        assert!(left.is_empty(), "ephemeral nodes are left: {left:?}");
        let watches = self.watch_count();
        assert_eq!(watches, 0, "watches are left");
    }
}
