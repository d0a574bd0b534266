//! What befalls a session at the moment in which a test drops one of its calls.

use std::time::Duration;

use zk_core::Session;
use zk_core::SessionId;

use crate::ensemble::Ensemble;
use crate::wait::pass;
use crate::wait::soon;

/// What befalls a session at the moment in which a test drops one of its calls, see [`polled`](crate::wait::polled).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropFault {
    /// Nothing.
    Nothing,
    /// Its link breaks and comes back.
    Cut,
    /// Its link breaks and comes back after two seconds.
    CutFor2Seconds,
    /// Its link breaks and comes back at server 2, which lags by half a second.
    MoveToLagging,
}

impl DropFault {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Nothing,
        Self::Cut,
        Self::CutFor2Seconds,
        Self::MoveToLagging,
    ];

    /// Lets it befall a session.
    ///
    /// # Panics
    ///
    /// When it is not a session of this ensemble, or there is no server 2.
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
    /// Waits until these sessions have removed what they are removing, or are lost, and for as long as any of their nodes
    /// may still come or go; then there is no ephemeral node and no watch.
    ///
    /// # Panics
    ///
    /// When something is left, or is not removed within two minutes of Tokio's time.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    pub async fn assert_nothing_left(&self, sessions: impl IntoIterator<Item = Session>) {
        for session in sessions {
            tokio::select! {
                biased;
                () = soon("what was dropped is removed", session.settled()) => {}
                _ = session.lost() => {}
            }
        }
        // Longer than the default session lives without its client.
        pass(Duration::from_secs(30)).await;
        let tree = self.tree();
        let owned = tree.nodes().filter(|(_, node)| node.owner().is_some());
        let left: Vec<_> = owned.map(|(path, _)| path.to_string()).collect();
        assert!(left.is_empty(), "ephemeral nodes are left: {left:?}");
        let watches = self.watch_count();
        assert_eq!(watches, 0, "watches are left");
    }
}
