//! The connection of a session as the application sees it.

use futures_util::{Stream, stream};

use crate::transport::{Link, LinkReceiver, Phase, SessionEnd};

/// The state of a session's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum ConnectionState {
    /// Connected to a server of the quorum.
    Connected,
    /// Not connected. The session may still be alive, or may have expired already.
    Suspended,
    /// Connected to a server that is cut off from the quorum and serves reads only.
    ReadOnly,
    /// The session is over, for this reason. This is the last state.
    Lost(SessionEnd),
}

impl ConnectionState {
    pub(crate) const fn of(phase: Phase) -> Self {
        match phase {
            Phase::Up => Self::Connected,
            Phase::Down => Self::Suspended,
            Phase::ReadOnly => Self::ReadOnly,
            Phase::Over(end) => Self::Lost(end),
        }
    }

    /// Returns why the session is over, or `None` while it is not.
    pub const fn end(self) -> Option<SessionEnd> {
        match self {
            Self::Lost(end) => Some(end),
            _ => None,
        }
    }

    /// Returns whether the session is over.
    pub const fn is_lost(self) -> bool {
        matches!(self, Self::Lost(_))
    }
}

/// The changes of a session's connection state, in order; created by
/// [`Session::state_changes`](crate::Session::state_changes).
///
/// A slow consumer sees fewer changes, but never in a wrong order. A connection that broke is always reported as
/// [`Suspended`](ConnectionState::Suspended) before it is [`Connected`](ConnectionState::Connected) again, even if it
/// was restored before the consumer read the change. [`Lost`](ConnectionState::Lost) is always reported, once and last.
#[derive(Debug, Clone)]
pub struct StateChanges {
    link: LinkReceiver,
    seen: Seen,
}

/// The last state that a consumer received, and how many breaks of the link it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    state: Option<ConnectionState>,
    breaks: u64,
}

impl StateChanges {
    pub(crate) fn new(link: LinkReceiver) -> Self {
        let breaks = link.now().breaks;
        Self {
            link,
            seen: Seen {
                state: None,
                breaks,
            },
        }
    }

    /// Waits for the next change. The first call returns the current state. Returns `None` after
    /// [`Lost`](ConnectionState::Lost).
    ///
    /// # Session loss
    ///
    /// Returned as [`Lost`](ConnectionState::Lost), then `None`.
    pub async fn next(&mut self) -> Option<ConnectionState> {
        loop {
            if self.seen.state.is_some_and(ConnectionState::is_lost) {
                return None;
            }
            let link = self.link.seen();
            if let Some((state, seen)) = step(self.seen, link) {
                self.seen = seen;
                return Some(state);
            }
            if self.link.changed().await.is_err() {
                // The sender of the link is gone, and with it the session.
                self.seen.state = Some(ConnectionState::Lost(SessionEnd::RuntimeEnded));
                return self.seen.state;
            }
        }
    }

    /// Converts this into a stream of the same changes.
    pub fn into_stream(self) -> impl Stream<Item = ConnectionState> + Send + 'static {
        stream::unfold(self, async |mut changes| {
            let state = changes.next().await?;
            Some((state, changes))
        })
    }
}

/// Returns what a consumer that has `seen` receives next when the link is `link`, or `None` if nothing changed.
fn step(seen: Seen, link: Link) -> Option<(ConnectionState, Seen)> {
    let now = ConnectionState::of(link.phase);
    let was_connected = matches!(
        seen.state,
        Some(ConnectionState::Connected | ConnectionState::ReadOnly)
    );
    let broke = link.breaks != seen.breaks;
    let state = if was_connected && broke && !now.is_lost() {
        ConnectionState::Suspended
    } else {
        now
    };
    let has_changed = seen.state != Some(state);
    let seen = Seen {
        state: Some(state),
        breaks: link.breaks,
    };
    has_changed.then_some((state, seen))
}

#[cfg(test)]
mod tests;
