//! Counts the breaks of the client's connection.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::FutureExt as _;
use tokio::task::AbortHandle;
use zk_core::transport::{Link, LinkReceiver, LinkSender, Phase, SessionEnd};
use zookeeper_client as zk;

use crate::lock;

/// Follows the state of a client. Owned by its task: when the runtime of the session ends, the link is gone.
#[derive(Debug)]
pub(crate) struct Follower {
    states: Mutex<zk::StateWatcher>,
    link: LinkSender,
    broken: Arc<Mutex<Option<Instant>>>,
}

/// What a transport keeps of its link.
pub(crate) struct Followed {
    pub(crate) follower: std::sync::Weak<Follower>,
    pub(crate) link: LinkReceiver,
    pub(crate) broken: Arc<Mutex<Option<Instant>>>,
    pub(crate) task: AbortHandle,
}

impl Follower {
    /// Forwards the states to a link, from now on, until the session is over or the task is aborted.
    pub(crate) fn start(mut states: zk::StateWatcher) -> Followed {
        let link = LinkSender::new(Link {
            phase: phase(states.state()),
            breaks: 0,
        });
        let receiver = link.subscribe();
        let broken = Arc::default();
        let follower = Arc::new(Self {
            states: Mutex::new(states.clone()),
            link,
            broken: Arc::clone(&broken),
        });
        let weak = Arc::downgrade(&follower);
        let task = tokio::spawn(async move {
            while !matches!(follower.link.now().phase, Phase::Over(_)) {
                states.changed().await;
                follower.catch_up();
            }
        });
        Followed {
            follower: weak,
            link: receiver,
            broken,
            task: task.abort_handle(),
        }
    }

    /// Brings the link up to the client's newest state. The task does so whenever it is scheduled; who has to know that
    /// a break is counted does it at once.
    pub(crate) fn catch_up(&self) {
        let mut states = lock(&self.states);
        while let Some(state) = states.changed().now_or_never() {
            // The state may have changed since: only a state that is read after the clock is known to be at least as
            // new.
            let now = tokio::time::Instant::now().into_std();
            if states.peek_state() == zk::SessionState::Disconnected {
                *lock(&self.broken) = Some(now);
            }
            self.link.send(next_link(self.link.now(), state));
        }
    }

    /// Returns how often the connection has broken, up to the client's newest state.
    pub(crate) fn breaks(&self) -> u64 {
        self.catch_up();
        self.link.now().breaks
    }
}

/// Returns the link after the client reported a state.
///
/// The client reports only its newest state. If it reports the same state twice, the link broke and was restored
/// between.
fn next_link(before: Link, state: zk::SessionState) -> Link {
    let was_connected = matches!(before.phase, Phase::Up | Phase::ReadOnly);
    let breaks = before.breaks + u64::from(was_connected);
    match (before.phase, phase(state)) {
        // After a read-only connection, the client continues with another session.
        (Phase::ReadOnly, Phase::Up | Phase::Down | Phase::ReadOnly) => Link {
            phase: Phase::Over(SessionEnd::Expired),
            breaks,
        },
        (_, phase) => Link { phase, breaks },
    }
}

fn phase(state: zk::SessionState) -> Phase {
    match state {
        zk::SessionState::SyncConnected => Phase::Up,
        zk::SessionState::ConnectedReadOnly => Phase::ReadOnly,
        zk::SessionState::Disconnected => Phase::Down,
        zk::SessionState::Expired => Phase::Over(SessionEnd::Expired),
        zk::SessionState::AuthFailed => Phase::Over(SessionEnd::AuthFailed),
        zk::SessionState::Closed => Phase::Over(SessionEnd::Closed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_break_that_a_state_shows_is_counted() {
        use zk::SessionState::{ConnectedReadOnly, Disconnected, Expired, SyncConnected};
        let expired = Phase::Over(SessionEnd::Expired);
        for (before, state, after, breaks) in [
            (Phase::Up, Disconnected, Phase::Down, 1),
            (Phase::Down, SyncConnected, Phase::Up, 0),
            // It broke and was restored before anyone looked.
            (Phase::Up, SyncConnected, Phase::Up, 1),
            (Phase::Up, Expired, expired, 1),
            (Phase::Down, Expired, expired, 0),
            // What follows a read-only connection is another session.
            (Phase::ReadOnly, SyncConnected, expired, 1),
            (Phase::ReadOnly, ConnectedReadOnly, expired, 1),
        ] {
            let before = Link {
                phase: before,
                breaks: 0,
            };
            let expected = Link {
                phase: after,
                breaks,
            };
            assert_eq!(next_link(before, state), expected, "{before:?} {state:?}");
        }
    }
}
